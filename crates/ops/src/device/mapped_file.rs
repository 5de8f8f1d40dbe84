//! Mapped files, and how their payloads were uploaded.

use std::sync::Arc;

use serde::Serialize;

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
