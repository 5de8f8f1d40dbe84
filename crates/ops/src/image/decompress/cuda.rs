//! Decompression by the JPEG engines of a GPU, and a kernel that interpolates chroma and
//! converts colours: the pixels of [`decompress`](super::decompress), bit for bit, of the files
//! that [`JpegDecoder::planes`] accepts.

use std::ffi::OsStr;

use super::kernels::{PlanesArgs, PlanesToRgb, THREADS_PER_BLOCK, num_blocks};
use super::{MAX_PIXELS, jpeg};
use crate::device::cuda::{DeviceBuffer, Grid, Kernel, Stream, UploadScope};
use crate::image::decompress::nvjpeg::{JpegEngines, JpegPlanes};
use crate::image::{DeviceImage, ImageLayout};
use det_post_types::{
    CompressedFormat, CompressedView, Encoding, Error, ErrorKind, JpegDevice, JpegOptions, Result,
};

/// Names the nvJPEG library.
const LIBRARY_VARIABLE: &str = "DET_POST_NVJPEG";

/// The JPEG decoder of a channel on a GPU.
pub struct JpegDecoder {
    stream: Stream,
    options: JpegOptions,
    engines: Engines,
    /// The planes of coloured images, by the index of the image.
    planes: Vec<DeviceBuffer<u8>>,
}

enum Engines {
    /// They are opened with the first image.
    NotOpened,
    Unusable,
    Open(Box<JpegEngines>, Kernel<PlanesToRgb>),
}

impl Engines {
    fn open(stream: &Stream, options: &JpegOptions) -> Result<Self> {
        let variable = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
        let library = options.library.as_ref().map(|path| path.as_os_str());
        let engines = JpegEngines::open(stream, library.or(variable.as_deref().map(OsStr::new)))?;
        Ok(Self::Open(Box::new(engines), stream.device().kernel()?))
    }
}

/// The layout of an image that the engines decode.
pub fn layout(planes: &JpegPlanes) -> ImageLayout {
    let size = planes.size;
    let encoding = if planes.chroma.is_some() { Encoding::Rgb8 } else { Encoding::Mono8 };
    let step = encoding.row_bytes(size.width);
    ImageLayout { size, step, encoding, big_endian: true }
}

impl JpegDecoder {
    /// A decoder for work on `stream`.
    ///
    /// # Errors
    /// `Device` when the options name the GPU, and it has no JPEG engine or nvJPEG is not
    /// found.
    pub fn new(stream: &Stream, options: &JpegOptions) -> Result<Self> {
        let engines = match options.device {
            JpegDevice::Auto => Engines::NotOpened,
            JpegDevice::Cpu => Engines::Unusable,
            JpegDevice::Gpu => Engines::open(stream, options)?,
        };
        let (stream, options) = (stream.clone(), options.clone());
        Ok(Self { stream, options, engines, planes: Vec::new() })
    }

    /// The planes of a file for the engines; `None` for a file for the CPU: of another format,
    /// damaged, progressive, of unusual sampling or colours, or with samples of another meaning than
    /// the file's own.
    pub fn planes(&mut self, file: &CompressedView<'_>) -> Option<JpegPlanes> {
        if file.format != CompressedFormat::Jpeg || matches!(self.engines, Engines::Unusable) {
            return None;
        }
        let (size, chroma) = jpeg::baseline(file.data)?;
        let planes = JpegPlanes { size, chroma };
        let decoded = layout(&planes).encoding;
        if file.samples.encoding(decoded).ok() != Some(decoded) {
            return None;
        }
        if matches!(self.engines, Engines::NotOpened) {
            self.engines = match Engines::open(&self.stream, &self.options) {
                Ok(engines) => {
                    tracing::info!("JPEG images are decoded by {}", self.stream.device());
                    engines
                }
                Err(reason) => {
                    tracing::info!("JPEG images are decoded on the CPU: {reason}");
                    Engines::Unusable
                }
            };
        }
        matches!(self.engines, Engines::Open(..)).then_some(planes)
    }

    /// Queues the decoding of files, each into the image of its index, which gets the
    /// [`layout`] of its planes; `file_of` returns the file and what [`JpegDecoder::planes`]
    /// has returned for it. Returns whether the engines decode them; else all are for the CPU.
    ///
    /// # Errors
    /// `Argument` when an image is too small for its file; `Device` when the device fails.
    pub fn enqueue<'env>(
        &mut self,
        images: &mut [DeviceImage],
        file_of: impl Fn(usize) -> Option<(&'env [u8], JpegPlanes)>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<bool> {
        let Self { stream, engines: Engines::Open(engines, kernel), planes, .. } = self else {
            return Ok(false);
        };
        let refused = |error: Error| match error.kind() {
            ErrorKind::Codec => {
                tracing::debug!("decoded on the CPU: {error}");
                Ok(false)
            }
            _ => Err(error),
        };
        let mut batch = engines.batch(scope)?;
        for (index, image) in images.iter_mut().enumerate() {
            let Some((file, of_file)) = file_of(index) else { continue };
            let target = match of_file.chroma {
                None => image.device_written(layout(&of_file))?,
                Some(_) => reserve(planes, index, of_file.num_bytes(), stream)?,
            };
            if let Err(error) = batch.add(file, &of_file, target) {
                return refused(error);
            }
        }
        if let Err(error) = batch.enqueue() {
            return refused(error);
        }
        for (index, (image, planes)) in images.iter_mut().zip(planes).enumerate() {
            let Some((_, JpegPlanes { size, chroma: Some(chroma) })) = file_of(index) else {
                continue;
            };
            let rgb = image.device_written(layout(&JpegPlanes { size, chroma: Some(chroma) }))?;
            let args = PlanesArgs {
                planes: planes.input(stream)?,
                rgb: rgb.output(stream)?,
                width: size.width,
                height: size.height,
                chroma_width: chroma.width,
                chroma_height: chroma.height,
            };
            let grid =
                Grid { num_blocks: [num_blocks(size), 1], threads_per_block: THREADS_PER_BLOCK };
            kernel.enqueue(stream, grid, args)?;
        }
        Ok(true)
    }
}

/// Memory for the planes of an image, which grows by powers of two.
fn reserve<'a>(
    all: &'a mut Vec<DeviceBuffer<u8>>,
    index: usize,
    num_bytes: usize,
    stream: &Stream,
) -> Result<&'a mut DeviceBuffer<u8>> {
    while all.len() <= index {
        all.push(DeviceBuffer::zeros(stream, 0)?);
    }
    let planes = &mut all[index];
    if planes.len() < num_bytes {
        let capacity = num_bytes.next_power_of_two().min(3 * MAX_PIXELS as usize);
        *planes = DeviceBuffer::zeros(stream, capacity)?;
    }
    Ok(planes)
}
