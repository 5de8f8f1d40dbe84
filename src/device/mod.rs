//! Where a channel runs.

use crate::error::{Error, ErrorKind, Result};
use crate::types::DeviceChoice;

/// A device that is ready to run ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The host's processor: every op has this side.
    Cpu,
}

/// Opens what the configuration asks for and logs, once, what was taken and
/// why.
///
/// # Errors
/// `Device` for a CUDA device: this build has no kernels.
pub fn open(choice: DeviceChoice) -> Result<Device> {
    match choice {
        DeviceChoice::Cpu => tracing::info!("device: cpu, as configured"),
        DeviceChoice::Auto => tracing::info!("device: cpu, this build has no CUDA side"),
        DeviceChoice::Cuda(ordinal) => {
            return Err(Error::new(
                ErrorKind::Device,
                "device",
                format!("cuda:{ordinal} asked for, this build has no CUDA side; use cpu or auto"),
            ));
        }
    }
    Ok(Device::Cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_is_refused_by_name() {
        assert_eq!(open(DeviceChoice::Auto).unwrap(), Device::Cpu);
        let error = open(DeviceChoice::Cuda(1)).unwrap_err();
        assert!(error.message().contains("cuda:1"), "{error}");
    }
}
