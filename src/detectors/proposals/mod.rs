//! Boxes in space from a network that takes the points of voxels and gives proposals (TransFusion
//! and BEVFusion as Autoware exports them).
//!
//! | input | TransFusion | BEVFusion |
//! |---|---|---|
//! | points `[V, P, C]` f32 | `voxels` | `voxels` |
//! | points per voxel `[V]` i32 | `num_points` | `num_points_per_voxel` |
//! | cells i32 | `coors` `[V, 4]`: 0, z, y, x | `coors` `[V, 3]`: z, y, x |
//!
//! V is the number of voxels of the frame, which differs from frame to frame; outputs are as
//! [`ProposalLayout`] says. A frame with fewer voxels than the network takes is dropped
//! ([`ErrorKind::TooFewVoxels`]). The voxels are in the order of their first points, so that the
//! same cloud gives the same bytes; Autoware's nodes shuffle points, and their order of voxels and
//! the points that a full voxel keeps differ from run to run.
//!
//! A file with sparse convolutions, as Autoware exports BEVFusion, is a detector of
//! [`voxels`]: its encoder runs as layers of our own, and an engine runs the network behind the map,
//! on the GPU where it can. Any number of voxels will do then. On a GPU a network without them runs on the CPU,
//! between kernels: the memory of networks on a GPU has one shape for every frame, and holds floats.
//!
//! Everything else is shared with [`lidar`](super::lidar).

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;

pub use cpu::{CpuDetector, VoxelPointInput};
#[cfg(feature = "cuda")]
pub use cuda::{CudaDetector, DeviceVoxelPointInput};

use super::{Detector, fused, voxels};
use crate::config::{EncoderFacts, LidarConfig, VoxelPointFacts};
use det_post_infer::ExpectedDim::{Any, Exactly};
use det_post_infer::{Expected, Side, bind, sparse};
use det_post_ops::device::Device;
#[cfg(doc)]
use det_post_types::ProposalLayout;
use det_post_types::{ElementType, Error, ErrorKind, Result, TensorSpec};

/// Loads the network for a device and allocates all memory that the configuration bounds.
///
/// # Errors
/// `Model` when the network cannot be loaded or does not fit its head; `Config` when the capacities
/// do not fit into the address space; `Argument` when the device has no implementation of the
/// suppression or a limit is above the device's; `Device` when it has not enough memory.
pub fn open(config: &LidarConfig, device: &Device) -> Result<Box<dyn Detector>> {
    match (sparse::detector(&config.model_path)?, &config.cameras) {
        (Some(file), Some(cameras)) => return fused::open(config, cameras, file, device),
        (Some(file), None) => {
            fused::check_without_cameras(&file)?;
            return voxels::open_plan(config, voxels::plan_of(config, file)?, device);
        }
        (None, Some(_)) => return fused::refuse_without_encoder(),
        (None, None) => {}
    }
    if let Some(map) = sparse::ends_at_map(&config.model_path)? {
        let path = config.model_path.display();
        let message = format!(
            "{path} ends at the map {map}: it is an encoder without the network behind it; allowed: a file that \
             holds both, as Autoware exports the whole detector"
        );
        return Err(Error::new(ErrorKind::Model, "proposals", message));
    }
    let engine = det_post_infer::load(&config.model_path, &config.engine)?;
    Ok(match device {
        Device::Cpu => Box::new(CpuDetector::new(config, engine)?),
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => Box::new(CudaDetector::new(config, &device.stream()?, engine)?),
    })
}

fn voxel_point_facts(config: &LidarConfig) -> Result<&VoxelPointFacts> {
    let EncoderFacts::None(facts) = &config.facts.encoder else {
        let message = format!("head {}: its network is behind an encoder", config.head);
        return Err(Error::new(ErrorKind::Config, "proposals", message));
    };
    Ok(facts)
}

/// The positions of points, numbers and coordinates among a network's inputs.
///
/// # Errors
/// `Model` naming expected and found tensors when they do not fit.
fn bind_inputs(config: &LidarConfig, found: &[TensorSpec]) -> Result<[usize; 3]> {
    let facts = voxel_point_facts(config)?;
    let mut names = facts.input_names.iter().cloned();
    let mut expected = |what, element, shape| Expected {
        what,
        name: names.next(),
        elements: vec![element],
        shapes: vec![shape],
    };
    let (num_points, num_channels) =
        (config.facts.max_points_per_voxel, config.facts.num_point_channels());
    let of_points = vec![Any, Exactly(num_points), Exactly(num_channels)];
    let of_coordinates = vec![Any, Exactly(facts.coordinates.num_columns())];
    let expected = [
        expected("points of voxels", ElementType::F32, of_points),
        expected("points per voxel", ElementType::I32, vec![Any]),
        expected("coordinates of voxels", ElementType::I32, of_coordinates),
    ];
    let positions = bind(Side::Input, &expected, found)?;
    Ok([positions[0], positions[1], positions[2]])
}

/// Refuses a frame with fewer voxels than the network takes.
fn check_num_voxels(num_voxels: usize, min_voxels: usize) -> Result<()> {
    if num_voxels >= min_voxels {
        return Ok(());
    }
    let message = format!(
        "the cloud fills {num_voxels} voxels; the network takes {min_voxels} and more (min_voxels)"
    );
    Err(Error::new(ErrorKind::TooFewVoxels, "voxelize", message))
}
