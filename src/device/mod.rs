//! Where a channel runs: the CPU, or one CUDA GPU.
//!
//! Nothing here is global: a [`Device`] is a value, and any number of channels
//! may hold any number of devices. A GPU that cannot be used is an error with
//! its reason, never an abort: no driver, no GPU of that number, a driver too
//! old, no kernels in this build.
//!
//! This is the one room that talks to the driver, and the one that launches
//! kernels.

#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the driver is a C library; each block says why it holds")]
pub mod cuda;

mod payload;

pub use payload::PayloadMemory;

use crate::error::{Error, ErrorKind, Result};
use crate::types::DeviceChoice;

/// The device of a channel.
#[derive(Clone, Debug)]
pub enum Device {
    /// The processor this program runs on.
    Cpu,
    /// A CUDA GPU, opened and with its kernels loaded.
    #[cfg(feature = "cuda")]
    Cuda(cuda::CudaDevice),
}

impl Device {
    /// Opens the device that a channel asks for and logs which it got.
    ///
    /// [`DeviceChoice::Auto`] takes GPU 0, or the CPU with the reason logged.
    ///
    /// # Errors
    /// `Device` with the reason, when a GPU was asked for by number;
    /// `DeviceLost` when a fault has ended it for this process, also when it was
    /// not: that is no lack of a GPU.
    pub fn open(choice: DeviceChoice) -> Result<Self> {
        let (device, reason) = match choice {
            DeviceChoice::Cpu => (Self::Cpu, String::new()),
            DeviceChoice::Cuda(ordinal) => (Self::open_cuda(ordinal)?, String::new()),
            DeviceChoice::Auto => match Self::open_cuda(0) {
                Ok(device) => (device, " (a GPU is usable)".to_owned()),
                Err(lost) if lost.kind() == ErrorKind::DeviceLost => return Err(lost),
                Err(reason) => (Self::Cpu, format!(" (no GPU is usable: {})", reason.message())),
            },
        };
        tracing::info!("device {choice}: {device}{reason}");
        Ok(device)
    }

    /// What to ask for to get this device again.
    pub fn choice(&self) -> DeviceChoice {
        match self {
            Self::Cpu => DeviceChoice::Cpu,
            #[cfg(feature = "cuda")]
            Self::Cuda(device) => {
                DeviceChoice::Cuda(u32::try_from(device.ordinal()).unwrap_or(u32::MAX))
            }
        }
    }

    #[cfg(feature = "cuda")]
    fn open_cuda(ordinal: u32) -> Result<Self> {
        cuda::CudaDevice::open(ordinal).map(Self::Cuda)
    }

    #[cfg(not(feature = "cuda"))]
    fn open_cuda(_ordinal: u32) -> Result<Self> {
        Err(error("this program was built without the feature cuda"))
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

fn error(message: impl Into<String>) -> Error {
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
        assert!(error.message().len() > 20, "{error}");
    }
}
