//! `letterbox`: encodings, sizes, element types.

use super::case::{Bar, Case, gpu};
use super::inputs::TestImage;
use super::measure::Bench;
use det_post_ops::device::Device;
use det_post_ops::image::letterbox::{LetterboxParams, Workspace, letterbox};
use det_post_types::ElementType::{self, F16, F32};
use det_post_types::{
    ChannelOrder, Encoding, Normalization, Placement, Resize, Result, Size, Tensor,
};

/// Source, encoding, element type, bar.
type Row = ((u32, u32), Encoding, ElementType, Option<Bar>);

const ROWS: [Row; 13] = [
    ((1920, 1080), Encoding::Bgr8, F32, gpu(Some(5.1), 3.4)),
    ((1920, 1080), Encoding::Bgr8, F16, gpu(None, 3.4)),
    ((1920, 1080), Encoding::Rgba8, F32, None),
    ((1920, 1080), Encoding::Mono8, F32, None),
    ((1920, 1080), Encoding::Mono16, F32, None),
    ((1920, 1080), Encoding::Uyvy, F32, None),
    ((1920, 1080), Encoding::Yuy2, F32, None),
    ((1920, 1080), Encoding::Nv12, F32, None),
    ((1920, 1080), Encoding::Nv12, F16, None),
    ((1920, 1080), Encoding::BayerRggb8, F32, None),
    ((640, 480), Encoding::Bgr8, F32, None),
    ((1280, 720), Encoding::Bgr8, F32, None),
    ((3840, 2160), Encoding::Bgr8, F32, None),
];

/// Recorded one after the other, so that what one costs is seen beside what the
/// events round a launch cost.
#[cfg(feature = "cuda")]
const IN_A_ROW: u32 = 50;

pub(super) const NETWORK: Size = Size::new(640, 640);

/// The parameters of YOLOv5 and v8.
pub(super) fn params() -> LetterboxParams {
    LetterboxParams {
        placement: Placement::Center,
        channel_order: ChannelOrder::Rgb,
        normalization: Normalization { alpha: [1.0 / 255.0; 3], beta: [0.0; 3] },
        pad_value: 114.0,
        resize: Resize::Bilinear,
    }
}

/// The shape of the network's input.
pub(super) fn input_shape() -> [usize; 4] {
    [1, 3, NETWORK.height as usize, NETWORK.width as usize]
}

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    for ((width, height), encoding, element, bar) in ROWS {
        let wire = format!("{encoding:?}").to_lowercase();
        let name = format!("letterbox {width}x{height} {wire} to 640x640 {element}");
        if !bench.wants(&name) {
            continue;
        }
        let test_image = TestImage::new(Size::new(width, height), encoding);
        match device {
            Device::Cpu => on_cpu(bench, Case::new(name).with_bar(bar), &test_image, element)?,
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => {
                let each = Case::new(format!("{name}, each of {IN_A_ROW}")).with_bar(bar);
                on_cuda(bench, Case::new(name), device, &test_image, element)?;
                on_cuda(bench, each.each_of(IN_A_ROW), device, &test_image, element)?;
            }
        }
    }
    Ok(())
}

fn on_cpu(
    bench: &mut Bench<'_>,
    case: Case,
    test_image: &TestImage,
    element: ElementType,
) -> Result<()> {
    let image = test_image.view()?;
    let mut workspace = Workspace::new();
    let mut out = Tensor::zeros(element, &input_shape())?;
    bench.host(case, || letterbox(&image, &params(), &mut workspace, &mut out).map(|_| ()))
}

#[cfg(feature = "cuda")]
fn on_cuda(
    bench: &mut Bench<'_>,
    case: Case,
    device: &det_post_ops::device::cuda::CudaDevice,
    test_image: &TestImage,
    element: ElementType,
) -> Result<()> {
    use det_post_ops::device::cuda::DeviceTensor;
    use det_post_ops::image::DeviceImage;
    use det_post_ops::image::letterbox::cuda::{Kernels, enqueue_letterbox};

    let stream = &device.stream()?;
    let view = test_image.view()?;
    let kernels = Kernels::load(device)?;
    let mut image = DeviceImage::with_capacity(stream, view.data().len())?;
    let mut out = DeviceTensor::zeros(stream, element, &input_shape())?;
    image.enqueue_upload(&view)?;
    bench.recorded(case, stream, || {
        enqueue_letterbox(stream, &kernels, &image, &params(), &mut out).map(drop)
    })
}
