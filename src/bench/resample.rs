//! `resample`: one image of a surround rig, by encoding, element type and lens.

use super::case::Case;
use super::inputs::TestImage;
use super::measure::Bench;
use det_post_ops::device::Device;
use det_post_ops::image::resample::{ResampleParams, SampleMap, Workspace, resample};
use det_post_types::ElementType::{self, F16, F32};
use det_post_types::{
    CameraCalibration, CameraModel, CameraView, ChannelOrder, Encoding, Normalization,
    PixelConvention, Placement, Resize, Result, Size, Tensor, Undistort,
};

/// Source, network's image, encoding, element type, whether a lens is undone.
type Row = ((u32, u32), (u32, u32), Encoding, ElementType, bool);

const ROWS: [Row; 8] = [
    ((1600, 900), (704, 256), Encoding::Rgb8, F32, false),
    ((1600, 900), (704, 256), Encoding::Rgb8, F16, false),
    ((1600, 900), (704, 256), Encoding::Rgb8, F16, true),
    ((1600, 900), (640, 352), Encoding::Rgb8, F16, false),
    ((1600, 900), (640, 352), Encoding::Nv12, F16, false),
    ((1600, 900), (640, 352), Encoding::BayerRggb8, F16, false),
    ((2880, 1860), (640, 480), Encoding::Bgr8, F16, false),
    ((2880, 1860), (640, 480), Encoding::Bgr8, F16, true),
];

/// Recorded one after the other, as the images of a rig are.
#[cfg(feature = "cuda")]
const CAMERAS: usize = 6;

/// As the networks of surround cameras are trained.
const PARAMS: ResampleParams = ResampleParams {
    channel_order: ChannelOrder::Bgr,
    normalization: Normalization { alpha: [1.0 / 57.0; 3], beta: [-2.0; 3] },
    pad_value: 0.0,
};

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    for ((width, height), (columns, rows), encoding, element, is_distorted) in ROWS {
        let wire = format!("{encoding:?}").to_lowercase();
        let lens = if is_distorted { ", undistorted" } else { "" };
        let name = format!("resample {width}x{height} {wire} to {columns}x{rows} {element}{lens}");
        if !bench.wants(&name) {
            continue;
        }
        let test_image = TestImage::new(Size::new(width, height), encoding);
        let map = map(Size::new(width, height), Size::new(columns, rows), is_distorted)?;
        match device {
            Device::Cpu => on_cpu(bench, Case::new(name), &test_image, &map, element)?,
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => {
                let rig = Case::new(format!("{name}, each of {CAMERAS} cameras"));
                on_cuda(bench, Case::new(name), device, &test_image, &map, element)?;
                let rig = rig.each_of(CAMERAS as u32);
                on_cuda(bench, rig, device, &test_image, &map, element)?;
            }
        }
    }
    Ok(())
}

/// Of a camera of 70 degrees, whose lens is that of a common calibration.
fn map(source: Size, network: Size, is_distorted: bool) -> Result<SampleMap> {
    let (width, height) = (f64::from(source.width), f64::from(source.height));
    let focal = 0.71 * width;
    let (cx, cy) = (0.5 * (width - 1.0), 0.5 * (height - 1.0));
    let camera = CameraModel::new(&CameraCalibration {
        size: source,
        distortion_model: "plumb_bob".to_owned(),
        distortion: if is_distorted { vec![-0.31, 0.12, 0.001, -0.001, -0.02] } else { vec![] },
        intrinsics: [focal, 0.0, cx, 0.0, focal, cy, 0.0, 0.0, 1.0],
        binning: [1, 1],
        ..CameraCalibration::default()
    })?;
    let (placement, convention) = (Placement::CropTop, PixelConvention::Trainer);
    let view = CameraView::new(&camera, Undistort::Auto, network, placement, convention);
    SampleMap::of_view(&view, Resize::Antialias)
}

fn shape(map: &SampleMap, num: usize) -> [usize; 4] {
    [num, 3, map.network().height as usize, map.network().width as usize]
}

fn on_cpu(
    bench: &mut Bench<'_>,
    case: Case,
    test_image: &TestImage,
    map: &SampleMap,
    element: ElementType,
) -> Result<()> {
    let image = test_image.view()?;
    let mut workspace = Workspace::new();
    let mut out = Tensor::zeros(element, &shape(map, 1))?;
    bench.host(case, || resample(&image, map, &PARAMS, &mut workspace, 0, &mut out))
}

#[cfg(feature = "cuda")]
fn on_cuda(
    bench: &mut Bench<'_>,
    case: Case,
    device: &det_post_ops::device::cuda::CudaDevice,
    test_image: &TestImage,
    map: &SampleMap,
    element: ElementType,
) -> Result<()> {
    use det_post_ops::device::cuda::DeviceTensor;
    use det_post_ops::image::DeviceImage;
    use det_post_ops::image::resample::cuda::{DeviceMap, Kernels, enqueue_resample};

    let stream = &device.stream()?;
    let view = test_image.view()?;
    let kernels = Kernels::load(device)?;
    let map_on_device = DeviceMap::new(stream, map)?;
    let mut image = DeviceImage::with_capacity(stream, view.data().len())?;
    let num = case.num_times() as usize;
    let mut out = DeviceTensor::zeros(stream, element, &shape(map, num))?;
    image.enqueue_upload(&view)?;
    let mut cameras = (0..num).cycle();
    bench.recorded(case, stream, || {
        let camera = cameras.next().unwrap_or_default();
        enqueue_resample(stream, &kernels, &image, &map_on_device, &PARAMS, camera, &mut out)
    })
}
