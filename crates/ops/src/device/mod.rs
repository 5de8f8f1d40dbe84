//! Where a channel runs: the CPU, or one CUDA GPU.
//!
//! A [`Device`] is a value without global configuration; any number of channels
//! may share one. A GPU that cannot be used is an error that states the reason,
//! never an abort: no driver, no GPU of that number, a driver that is too old, a
//! build without kernels.
//!
//! Only this module calls the driver: contexts, streams, memory, graphs, loading
//! and launching of kernels. It depends on no operation: the parameters of an
//! operation's kernels are declared in `crates/ops/src/<op>/kernels.rs`.

#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the driver is a C library; each block states why it is sound")]
pub mod cuda;

mod copy;
mod mapped_file;
mod mapped_uploads;
mod payload;

pub use copy::{copy, num_copy_threads, set_copy_threads};
pub use mapped_file::{FileBytes, UploadTotals};
pub use mapped_uploads::MappedUploads;
pub use payload::PayloadMemory;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use det_post_types::{DeviceBytes, DeviceChoice, Error, ErrorKind, Result};

/// The device of a channel.
#[derive(Clone, Debug)]
pub enum Device {
    /// The CPU.
    Cpu,
    /// A CUDA GPU, opened and with its kernels loaded.
    #[cfg(feature = "cuda")]
    Cuda(cuda::CudaDevice),
}

impl Device {
    /// Opens the device of a channel's choice and logs which it is.
    ///
    /// [`DeviceChoice::Auto`] selects GPU 0, or the CPU with the reason logged. Channels are
    /// placed on several GPUs before.
    ///
    /// # Errors
    /// `Device` with the reason, when a GPU was chosen by number; `DeviceLost`
    /// when a fault has made the GPU unusable for this process, even with
    /// [`DeviceChoice::Auto`].
    pub fn open(choice: DeviceChoice) -> Result<Self> {
        let (device, reason) = match choice {
            DeviceChoice::Cpu => (Self::Cpu, String::new()),
            DeviceChoice::Cuda(ordinal) => (Self::open_cuda(ordinal)?, String::new()),
            DeviceChoice::Auto => match Self::open_cuda(0) {
                Ok(device) => (device, " (a GPU is usable)".to_owned()),
                Err(lost) if lost.kind() == ErrorKind::DeviceLost => return Err(lost),
                Err(_) if !Self::has_kernels() => {
                    (Self::Cpu, " (this build is for CPUs: it has no CUDA kernels)".to_owned())
                }
                Err(reason) => (Self::Cpu, format!(" (no GPU is usable: {})", reason.message())),
            },
        };
        log_once(match choice {
            DeviceChoice::Auto => format!("device auto: {device}{reason}"),
            DeviceChoice::Cpu | DeviceChoice::Cuda(_) => format!("device {device}"),
        });
        Ok(device)
    }

    /// Whether this build and this machine have the device; the CPU and `Auto` are always there. Opens
    /// nothing.
    ///
    /// # Errors
    /// `Device` with what is missing, which stays missing while the machine is as it is: kernels in
    /// this build, the driver, the GPU. `DeviceLost` when the driver fails otherwise.
    pub fn check_present(choice: DeviceChoice) -> Result<()> {
        match choice {
            DeviceChoice::Cpu | DeviceChoice::Auto => Ok(()),
            DeviceChoice::Cuda(ordinal) => Self::check_cuda(ordinal),
        }
    }

    /// The GPUs that can be opened, if there are several; else none, and no GPU is opened.
    ///
    /// To open a GPU that nothing else holds open takes half a second on a machine with several: a
    /// caller keeps these until it has opened what it needs.
    pub fn usable_gpus() -> Vec<Self> {
        #[cfg(feature = "cuda")]
        let num = cuda::CudaDevice::count().unwrap_or(0);
        #[cfg(not(feature = "cuda"))]
        let num = 0;
        match num {
            0 | 1 => Vec::new(),
            num => (0..num).filter_map(|gpu| Self::open_cuda(gpu).ok()).collect(),
        }
    }

    /// The choice that opens this device again.
    pub fn choice(&self) -> DeviceChoice {
        match self {
            Self::Cpu => DeviceChoice::Cpu,
            #[cfg(feature = "cuda")]
            Self::Cuda(device) => {
                DeviceChoice::Cuda(u32::try_from(device.ordinal()).unwrap_or(u32::MAX))
            }
        }
    }

    /// Copies bytes in the memory of a GPU to the host, and waits: for images that are drawn, not for frames.
    ///
    /// # Errors
    /// `Argument` when the GPU is not open; `Device` when the copy fails.
    pub fn download(bytes: DeviceBytes<'_>) -> Result<Vec<u8>> {
        #[cfg(feature = "cuda")]
        return cuda::CudaDevice::of_address(bytes.address())?.download(bytes);
        #[cfg(not(feature = "cuda"))]
        Err(bytes.refused("device"))
    }

    #[cfg(feature = "cuda")]
    fn has_kernels() -> bool {
        cuda::has_kernels()
    }

    #[cfg(not(feature = "cuda"))]
    fn has_kernels() -> bool {
        false
    }

    #[cfg(feature = "cuda")]
    fn open_cuda(ordinal: u32) -> Result<Self> {
        cuda::CudaDevice::open(ordinal).map(Self::Cuda)
    }

    #[cfg(feature = "cuda")]
    fn check_cuda(ordinal: u32) -> Result<()> {
        cuda::CudaDevice::check_present(ordinal)
    }

    #[cfg(not(feature = "cuda"))]
    fn check_cuda(ordinal: u32) -> Result<()> {
        Self::open_cuda(ordinal).map(drop)
    }

    #[cfg(not(feature = "cuda"))]
    fn open_cuda(_ordinal: u32) -> Result<Self> {
        Err(error("this program was built without the feature cuda"))
    }
}

/// Logs a line, the first time that this process has it: every channel opens its device.
fn log_once(line: String) {
    static LOGGED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    if !logged.contains(&line) {
        tracing::info!("{line}");
        logged.insert(line);
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            #[cfg(feature = "cuda")]
            Self::Cuda(device) => write!(f, "{device}"),
        }
    }
}

pub(crate) fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Device, "device", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_always_there() {
        assert_eq!(Device::open(DeviceChoice::Cpu).unwrap().to_string(), "cpu");
    }

    #[test]
    fn auto_never_fails_and_a_missing_gpu_is_refused_with_its_reason() {
        Device::open(DeviceChoice::Auto).unwrap();
        let error = Device::open(DeviceChoice::Cuda(999)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        let missing = Device::check_present(DeviceChoice::Cuda(999)).unwrap_err();
        assert_eq!(missing.to_string(), error.to_string());
        Device::check_present(DeviceChoice::Auto).unwrap();
        // In the order of the checks.
        let reasons = [
            "built without the feature cuda",
            "built without kernels",
            "no CUDA driver library",
            "cannot start the driver",
            "the driver is for CUDA",
            "cannot count the GPUs",
            "no GPU 999: this machine has",
        ];
        assert!(reasons.iter().any(|reason| error.message().contains(reason)), "{error}");
    }
}
