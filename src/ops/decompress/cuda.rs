//! Decompression on the JPEG engines of a GPU: the pixels of [`decompress`](super::decompress),
//! bit for bit, of the pictures that [`JpegDecoder::layout`] accepts.

use std::ffi::OsStr;

use super::jpeg;
use crate::device::cuda::{DeviceImage, ImageLayout, JpegEngines, Stream, UploadScope};
use crate::error::{ErrorKind, Result};
use crate::types::{CompressedFormat, CompressedView, JpegDevice, JpegOptions};

/// Names the nvJPEG library.
const LIBRARY_VARIABLE: &str = "DET_POST_NVJPEG";

/// The JPEG decoder of a channel on a GPU.
pub struct JpegDecoder {
    stream: Stream,
    options: JpegOptions,
    engines: Engines,
}

enum Engines {
    /// They are opened with the first picture.
    NotOpened,
    Unusable,
    Open(Box<JpegEngines>),
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
            JpegDevice::Gpu => Engines::Open(Box::new(open(stream, options)?)),
        };
        Ok(Self { stream: stream.clone(), options: options.clone(), engines })
    }

    /// The layout of the picture that the engines decode from a file; `None` for a file that
    /// is for the CPU: of another format, damaged, progressive, of unusual sampling or
    /// colours.
    pub fn layout(&mut self, file: &CompressedView<'_>) -> Option<ImageLayout> {
        if file.format != CompressedFormat::Jpeg || matches!(self.engines, Engines::Unusable) {
            return None;
        }
        let (size, encoding) = jpeg::baseline(file.data)?;
        if matches!(self.engines, Engines::NotOpened) {
            self.engines = match open(&self.stream, &self.options) {
                Ok(engines) => {
                    tracing::info!("JPEG pictures are decoded by {}", self.stream.device());
                    Engines::Open(Box::new(engines))
                }
                Err(reason) => {
                    tracing::info!("JPEG pictures are decoded on the CPU: {reason}");
                    Engines::Unusable
                }
            };
        }
        let step = encoding.row_bytes(size.width);
        let layout = ImageLayout { size, step, encoding, big_endian: true };
        matches!(self.engines, Engines::Open(_)).then_some(layout)
    }

    /// Queues the decoding of files, each into an image with the layout that
    /// [`JpegDecoder::layout`] gave. Returns whether the engines decode them; else all are for
    /// the CPU.
    ///
    /// # Errors
    /// `Argument` when an image is too small for its layout; `Device` when the device fails.
    pub fn enqueue<'env, 'image>(
        &mut self,
        pictures: impl Iterator<Item = (&'env [u8], ImageLayout, &'image mut DeviceImage)>,
        scope: &UploadScope<'_, 'env>,
    ) -> Result<bool> {
        let Engines::Open(engines) = &mut self.engines else { return Ok(false) };
        match engines.enqueue(pictures, scope) {
            Ok(()) => Ok(true),
            Err(refused) if refused.kind() == ErrorKind::Codec => {
                tracing::debug!("decoded on the CPU: {refused}");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

fn open(stream: &Stream, options: &JpegOptions) -> Result<JpegEngines> {
    let variable = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
    let library = options.library.as_ref().map(|path| path.as_os_str());
    JpegEngines::open(stream, library.or(variable.as_deref().map(OsStr::new)))
}
