//! Uploads of payloads straight from mapped files.

use super::mapped_file::{FileBytes, UploadTotals};
use crate::types::DeviceChoice;

/// Mapped files from which one GPU or several upload payloads in place: their pages are
/// registered with the driver ahead of the reader and released behind it. Payloads that are
/// not registered are copied; the frames are the same.
pub struct MappedUploads {
    #[cfg(feature = "cuda")]
    files: super::cuda::RegisteredFiles,
    #[cfg(not(feature = "cuda"))]
    files: std::convert::Infallible,
}

impl MappedUploads {
    /// Starts to register the pages of files, at most `limit` bytes at a time. `None` when the
    /// device is no usable GPU.
    #[cfg(feature = "cuda")]
    pub fn start(device: DeviceChoice, files: Vec<FileBytes>, limit: usize) -> Option<Self> {
        let DeviceChoice::Cuda(ordinal) = device else { return None };
        let device = super::cuda::CudaDevice::open(ordinal).ok()?;
        Some(Self { files: super::cuda::RegisteredFiles::start(&device, files, limit) })
    }

    /// `None`: this build uses no GPU.
    #[cfg(not(feature = "cuda"))]
    pub fn start(_: DeviceChoice, _: Vec<FileBytes>, _: usize) -> Option<Self> {
        None
    }

    /// Notes the payload that is read next, a part of one of the files.
    pub fn advance(&self, payload: &[u8]) {
        #[cfg(feature = "cuda")]
        self.files.advance(payload);
        #[cfg(not(feature = "cuda"))]
        match (self.files, payload) {}
    }

    /// How the payloads of the files were uploaded so far.
    pub fn totals(&self) -> UploadTotals {
        #[cfg(feature = "cuda")]
        return self.files.totals();
        #[cfg(not(feature = "cuda"))]
        match self.files {}
    }
}
