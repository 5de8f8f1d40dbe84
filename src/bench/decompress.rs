//! `decompress`: JPEG images of cameras, on the CPU, and on the JPEG engines of a GPU
//! up to the network's input.

use super::case::Case;
use super::measure::Bench;
use det_post_ops::device::Device;
use det_post_ops::image::decompress::{DecodedImage, decompress};
use det_post_types::{CompressedFormat, CompressedView, Error, ErrorKind, Result};

pub(super) const WIDTH: u16 = 1600;
pub(super) const HEIGHT: u16 = 900;
/// The default of libjpeg's encoders for photos of cameras.
const QUALITY: u8 = 90;

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    const CPU: &str = "decompress jpeg 1600x900 4:2:0";
    match device {
        Device::Cpu => {
            if bench.wants(CPU) {
                let (file, mut decoded) = (jpeg_image(0)?, DecodedImage::new());
                bench.host(Case::new(CPU), || decompress(&view(&file), &mut decoded))?;
            }
            Ok(())
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => cuda::cases(bench, device),
    }
}

pub(super) fn view(data: &[u8]) -> CompressedView<'_> {
    CompressedView::new(CompressedFormat::Jpeg, data)
}

/// A file of about 200 kB: areas, edges and a little noise.
pub(super) fn jpeg_image(seed: u32) -> Result<Vec<u8>> {
    let mut random = super::inputs::Random::new(seed.into());
    let mut pixels = Vec::with_capacity(3 * usize::from(WIDTH) * usize::from(HEIGHT));
    for y in 0..u32::from(HEIGHT) {
        for x in 0..u32::from(WIDTH) {
            let area = ((x / 37 + seed) * 7 + (y / 23) * 13) % 97;
            let noise = random.below(5) as u32;
            pixels.extend([2 * area, area + x / 20, 60 + y / 10].map(|v| (v + noise) as u8));
        }
    }
    let mut file = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut file, QUALITY);
    encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
    encoder.encode(&pixels, WIDTH, HEIGHT, jpeg_encoder::ColorType::Rgb).map_err(|cause| {
        Error::new(ErrorKind::Argument, "bench", "an image is no JPEG").with_source(cause)
    })?;
    Ok(file)
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::super::case::wall;
    use super::super::letterbox::{input_shape, params};
    use super::{Bench, Case, Result, jpeg_image, view};
    use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, InPlaceUploads};
    use det_post_ops::image::DeviceImage;
    use det_post_ops::image::decompress::cuda::JpegDecoder;
    use det_post_ops::image::letterbox::cuda::{Kernels, enqueue_letterbox};
    use det_post_types::{ElementType, Error, ErrorKind, JpegDevice, JpegOptions};

    const ROWS: [(usize, &str, f64); 2] = [
        (1, "jpeg 1600x900 4:2:0 to letterbox 640x640 f32", 1000.0),
        (6, "six jpeg 1600x900 4:2:0 to letterbox 640x640 f32", 1300.0),
    ];

    pub(super) fn cases(bench: &mut Bench<'_>, device: &CudaDevice) -> Result<()> {
        let rows = ROWS.into_iter().filter(|(_, name, _)| bench.wants(name)).collect::<Vec<_>>();
        if rows.is_empty() {
            return Ok(());
        }
        let stream = &device.stream()?;
        let options = JpegOptions { device: JpegDevice::Gpu, library: None };
        let mut decoder = match JpegDecoder::new(stream, &options) {
            Ok(decoder) => decoder,
            Err(reason) => return bench.print(&format!("no cases of jpeg: {reason}\n")),
        };
        let (kernels, uploads) = (Kernels::load(device)?, InPlaceUploads::new(stream)?);
        for (num, name, bar) in rows {
            let files = (0..num as u32).map(jpeg_image).collect::<Result<Vec<_>>>()?;
            let refused = || Error::new(ErrorKind::Codec, "bench", "the engines refuse an image");
            let planes = decoder.planes(&view(&files[0])).ok_or_else(refused)?;
            let num_bytes = 3 * planes.size.width as usize * planes.size.height as usize;
            let image = |_| DeviceImage::with_capacity(stream, num_bytes);
            let mut images = (0..num).map(image).collect::<Result<Vec<_>>>()?;
            let mut out = DeviceTensor::zeros(stream, ElementType::F32, &input_shape())?;
            let enqueue = || {
                uploads.scope(|scope| {
                    let file_of = |index: usize| Some((&files.get(index)?[..], planes));
                    if !decoder.enqueue(&mut images, file_of, scope)? {
                        return Err(refused());
                    }
                    images.iter().try_for_each(|image| {
                        enqueue_letterbox(stream, &kernels, image, &params(), &mut out).map(drop)
                    })
                })
            };
            let case = Case::new(name).with_bar(wall(None, bar));
            bench.device(case, stream, enqueue, || stream.synchronize())?;
        }
        Ok(())
    }
}
