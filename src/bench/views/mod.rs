//! View decoders from feature maps in place to boxes on the host, on a GPU: six cameras of
//! 736 x 288, 256 channels, four levels, random weights and maps.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "cuda")]
mod network;

use super::measure::Bench;
use crate::device::Device;
use crate::error::Result;

/// The decoders take seconds on a CPU, where they have no cases.
pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    match device {
        Device::Cpu => {
            let _ = bench;
            Ok(())
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => cuda::cases(bench, device),
    }
}
