//! Boxes in space from a network that is sparse up to its outputs (VoxelNeXt as OpenPCDet has it).
//!
//! The means of voxels go through sparse convolutions, whose last levels are merged on a map seen
//! from above; the head is convolutions on the sites of this map, and sites are decoded: no dense
//! map is made and no engine runs. The layers are our own ([`det_post_infer::sparse`]), from one
//! file, as `tools/export_sparse.py` writes it. Everything else is as in [`lidar`](super::lidar);
//! the whole network is in the stage `encode`.
//!
//! With `encoder.precision` `f32` both devices decode the same numbers, bit for bit.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;

pub use cpu::{CpuDetector, VoxelSites};
#[cfg(feature = "cuda")]
pub use cuda::{CudaDetector, DeviceVoxelSites};

use super::Detector;
use super::lidar::LidarHead;
use super::voxels::{check_memory, plan};
use crate::config::{LidarConfig, available_bytes};
use det_post_infer::sparse::Plan;
use det_post_ops::device::Device;
use det_post_types::{Error, ErrorKind, Result};

/// Loads the network for a device and allocates all memory that the configuration bounds.
///
/// # Errors
/// `Io` or `Model` when the network cannot be loaded or does not fit its head; `Config` when there
/// are not as many capacities as levels, or they do not fit into memory; `Argument` when the device
/// has no implementation of the suppression, or a limit is above the device's; `Device` when it
/// has not enough memory.
pub fn open(config: &LidarConfig, device: &Device) -> Result<Box<dyn Detector>> {
    let plan = plan(config)?;
    Ok(match device {
        Device::Cpu => {
            check_memory(&plan, available_bytes())?;
            Box::new(CpuDetector::new(config, plan)?)
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => Box::new(CudaDetector::load(config, plan, &device.stream()?)?),
    })
}

/// The head of a network, whose map has the cells that follow from the head's grid.
fn head(config: &LidarConfig, plan: &Plan) -> Result<LidarHead> {
    let network = plan.network();
    let refuse = |message: String| {
        let path = config.encoder_file().display();
        Err(Error::new(ErrorKind::Model, "head", format!("{path}: {message}")))
    };
    let head = LidarHead::of_outputs(config, &network.site_specs())?;
    let LidarHead::Sites { decode, .. } = &head else {
        return refuse("the head's outputs are not on sites".into());
    };
    let [_, rows, columns] = network.levels[network.last_level()].shape;
    let voxel_size = config.facts.grid.voxel_size_m();
    let [nx, ny, _] = config.facts.grid.grid_size();
    let factor = |axis: usize| (decode.cell_size_m[axis] / voxel_size[axis]).round() as u32;
    let expected = [ny.div_ceil(factor(1).max(1)), nx.div_ceil(factor(0).max(1))];
    if [rows, columns] != expected {
        return refuse(format!(
            "its map has {rows} rows and {columns} columns; the head's downsample_factor gives {expected:?}"
        ));
    }
    Ok(head)
}
