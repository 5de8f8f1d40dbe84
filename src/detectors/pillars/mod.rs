//! Boxes in space from pillars: a network encodes the points of each pillar, and the
//! encoded pillars are scattered to the map (CenterPoint and PointPillars).
//!
//! The encoder is an ONNX network in an engine. Everything else is that of
//! [`lidar`](super::lidar); both devices give the encoder the same input.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod encoder;

pub use cpu::{CpuDetector, PillarMap};
#[cfg(feature = "cuda")]
pub use cuda::{CudaDetector, DevicePillarMap};
pub use encoder::PillarEncoder;

use super::Detector;
use crate::config::{EncoderFacts, LidarConfig, PillarFacts};
use det_post_infer::ExpectedDim::{self, Any, Exactly};
use det_post_infer::dense::options_of_networks;
use det_post_ops::device::Device;
use det_post_types::{Error, ErrorKind, Result};

/// Loads both networks for a device and allocates all memory that the
/// configuration bounds.
///
/// # Errors
/// `Model` when a network cannot be loaded or does not fit its head; `Argument`
/// when the device has no implementation of the suppression or a limit is above
/// the device's; `Device` when it has not enough memory.
pub fn open(config: &LidarConfig, device: &Device) -> Result<Box<dyn Detector>> {
    Ok(match device {
        Device::Cpu => {
            let paths = [&*config.encoder_path, &*config.model_path];
            let options = options_of_networks(&config.engine, paths)?;
            let encoder = det_post_infer::load(paths[0], &options[0])?;
            let engine = det_post_infer::load(paths[1], &options[1])?;
            Box::new(CpuDetector::new(config, encoder, engine)?)
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => Box::new(CudaDetector::load(config, &device.stream()?)?),
    })
}

fn pillar_facts(config: &LidarConfig) -> Result<&PillarFacts> {
    let EncoderFacts::Pillars(facts) = &config.facts.encoder else {
        let message = format!("head {}: its encoder takes no pillars", config.head);
        return Err(Error::new(ErrorKind::Config, "pillars", message));
    };
    Ok(facts)
}

/// One cell of the map for each column of the grid; the encoder's channels are those of the
/// network's input.
fn map_dims(config: &LidarConfig) -> [ExpectedDim; 4] {
    let [nx, ny, _] = config.facts.grid.grid_size().map(|n| n as usize);
    [Exactly(1), Any, Exactly(ny), Exactly(nx)]
}
