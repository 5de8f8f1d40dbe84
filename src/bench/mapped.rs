//! Payloads in a mapped file that is registered with the driver, as in the replay of a
//! recording.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use det_post_ops::device::MappedUploads;
use det_post_ops::device::cuda::CudaDevice;
use det_post_ros::bag::Mapped;
use det_post_types::{DeviceChoice, Error, ErrorKind, Result};

/// Payloads in the file.
const NUM_PAYLOADS: usize = 8;

/// Bytes before each payload: they are not at the start of a page in a recording.
const GAP: usize = 100;

/// The longest wait for the registration.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Copies of one payload in a mapped file.
pub(super) struct MappedPayloads {
    path: PathBuf,
    file: Mapped,
    uploads: MappedUploads,
    len: usize,
}

impl MappedPayloads {
    /// Writes a file, maps it, and waits until it is registered.
    pub(super) fn new(device: &CudaDevice, payload: &[u8]) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("det_post-bench-{}", std::process::id()));
        let bytes = [&[0; GAP][..], payload].concat().repeat(NUM_PAYLOADS);
        fs::write(&path, bytes).map_err(|e| failed("cannot write a file to map").with_source(e))?;
        let file = Mapped::open(&path)?;
        let ordinal = u32::try_from(device.ordinal()).unwrap_or_default();
        let files = vec![Arc::new(file.clone()) as _];
        let uploads = MappedUploads::start(DeviceChoice::Cuda(ordinal), files, 8 * file.len(), 1);
        let uploads = uploads.ok_or_else(|| failed("the GPU is lost"))?;
        let mapped = Self { path, file, uploads, len: payload.len() };
        mapped.payload(0);
        let start = Instant::now();
        while mapped.uploads.totals().registered_bytes < mapped.file.len() as u64 {
            if let Some(reason) = mapped.uploads.totals().refused {
                return Err(failed(&reason));
            }
            if start.elapsed() > MAX_WAIT {
                return Err(failed("the file is not registered in time"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(mapped)
    }

    /// The payload of a run: one after the other, as in a recording.
    pub(super) fn payload(&self, run: usize) -> &[u8] {
        let start = GAP + run % NUM_PAYLOADS * (GAP + self.len);
        let payload = &self.file[start..start + self.len];
        self.uploads.advance(0, payload);
        payload
    }
}

impl Drop for MappedPayloads {
    fn drop(&mut self) {
        // A file of megabytes stays behind at worst.
        let _ = fs::remove_file(&self.path);
    }
}

fn failed(message: &str) -> Error {
    Error::new(ErrorKind::Device, "bench", message)
}
