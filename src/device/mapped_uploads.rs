//! Uploads of payloads straight from mapped files.

use std::sync::Arc;

use serde::Serialize;

use crate::types::DeviceChoice;

/// The bytes of a file, at one address as long as the value exists.
pub type FileBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// How payloads of mapped files reached a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UploadTotals {
    /// Bytes uploaded from the mapped files in place.
    pub in_place_bytes: u64,
    /// Bytes that were copied into page-locked memory first.
    pub copied_bytes: u64,
    /// Bytes of the files that were registered with the driver, at one time or another.
    pub registered_bytes: u64,
    /// Why no more was registered; `None` when nothing was refused.
    pub refused: Option<String>,
}

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
