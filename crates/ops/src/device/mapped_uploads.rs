//! Uploads of payloads straight from mapped files.

use super::mapped_file::{FileBytes, UploadTotals};
use det_post_types::DeviceChoice;

/// Mapped files from which one GPU or several upload payloads in place: their pages are
/// registered with the driver ahead of the readers and released behind them. Payloads that are
/// not registered are copied; the frames are the same.
pub struct MappedUploads {
    #[cfg(feature = "cuda")]
    files: super::cuda::RegisteredFiles,
    #[cfg(not(feature = "cuda"))]
    files: std::convert::Infallible,
}

impl MappedUploads {
    /// Starts to register the pages of files for a number of readers, at most `limit` bytes at a
    /// time. `None` when the device is no usable GPU.
    #[cfg(feature = "cuda")]
    pub fn start(
        device: DeviceChoice,
        files: Vec<FileBytes>,
        limit: usize,
        num_readers: usize,
    ) -> Option<Self> {
        let DeviceChoice::Cuda(ordinal) = device else { return None };
        let device = super::cuda::CudaDevice::open(ordinal).ok()?;
        Some(Self {
            files: super::cuda::RegisteredFiles::start(&device, files, limit, num_readers),
        })
    }

    /// `None`: this build uses no GPU.
    #[cfg(not(feature = "cuda"))]
    pub fn start(_: DeviceChoice, _: Vec<FileBytes>, _: usize, _: usize) -> Option<Self> {
        None
    }

    /// Notes the payload that a reader, by its number, reads next, a part of one of the files.
    pub fn advance(&self, reader: usize, payload: &[u8]) {
        #[cfg(feature = "cuda")]
        self.files.advance(reader, payload);
        #[cfg(not(feature = "cuda"))]
        match (self.files, reader, payload) {}
    }

    /// Notes that a reader has read everything.
    pub fn end(&self, reader: usize) {
        #[cfg(feature = "cuda")]
        self.files.end(reader);
        #[cfg(not(feature = "cuda"))]
        match (self.files, reader) {}
    }

    /// How the payloads of the files were uploaded so far.
    pub fn totals(&self) -> UploadTotals {
        #[cfg(feature = "cuda")]
        return self.files.totals();
        #[cfg(not(feature = "cuda"))]
        match self.files {}
    }
}
