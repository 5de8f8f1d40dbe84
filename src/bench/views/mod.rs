//! View decoders on a GPU, with random weights and maps: from feature maps in place to boxes on
//! the host, and what is around a backbone from the arrival of a frame's last image.

#[cfg(feature = "cuda")]
mod arrival;
#[cfg(feature = "cuda")]
mod detr3d;
#[cfg(feature = "cuda")]
mod rig;
#[cfg(feature = "cuda")]
mod sparse4d;
#[cfg(feature = "cuda")]
mod weights;

use super::measure::Bench;
use det_post_ops::device::Device;
use det_post_types::Result;

/// The decoders take seconds on a CPU, where they have no cases.
pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    match device {
        Device::Cpu => {
            let _ = bench;
            Ok(())
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            let stream = &device.stream()?;
            detr3d::cases(bench, stream)?;
            sparse4d::cases(bench, stream)?;
            arrival::cases(bench, stream)
        }
    }
}

/// The error of a network of another family than its facts.
#[cfg(feature = "cuda")]
fn other_family() -> det_post_types::Error {
    let kind = det_post_types::ErrorKind::Model;
    det_post_types::Error::new(kind, "bench", "the decoder is of another family")
}
