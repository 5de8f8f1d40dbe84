//! Boxes in space from voxels: a network of sparse convolutions turns the means of voxels
//! into a map (CenterPoint and SECOND as OpenPCDet, mmdetection3d and det3d have them, BEVFusion as Autoware has it).
//!
//! The encoder runs as layers of our own ([`det_post_infer::sparse`]), from one
//! of NVIDIA's scn files or of Autoware's, on a grid with the axes z y x. Everything else is as in
//! [`lidar`](super::lidar). The map has rows along y, columns along x, and channel
//! `c * D + z`; where encoder and network are one file ([`proposals`](super::proposals)), it is as the
//! network has it.
//!
//! The sites of every level, and what a capacity dropped of them, are in the report of the
//! frame. With `encoder.precision` `f32` both devices give the network the same map, bit for
//! bit; with the others they differ as docs/numerics.md says.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod plan;

pub(super) use cpu::VoxelLayers;
pub use cpu::{CpuDetector, VoxelMap};
#[cfg(feature = "cuda")]
pub(super) use cuda::DeviceVoxelLayers;
#[cfg(feature = "cuda")]
pub use cuda::{CudaDetector, DeviceVoxelMap};
pub use plan::plan;
pub(super) use plan::plan_of;

use super::Detector;
use crate::config::{EncoderFacts, LidarConfig, available_bytes};
use det_post_infer::ExpectedDim::{self, Exactly};
use det_post_infer::sparse::{EncoderCounts, Plan};
use det_post_ops::device::Device;
use det_post_ops::sparse::conv::Precision;
use det_post_types::{
    ChannelTransform, EncoderPrecision, Error, ErrorKind, FrameReport, LevelCounts, PointChannel,
    Result,
};

/// Loads the encoder and the network for a device and allocates all memory that the
/// configuration bounds.
///
/// # Errors
/// `Io` or `Model` when the encoder or the network cannot be loaded or does not fit its head;
/// `Config` when there are not as many capacities as levels, or they do not fit into memory; `Argument` when the device has
/// no implementation of the suppression, or a limit is above the device's; `Device` when it has not enough memory.
pub fn open(config: &LidarConfig, device: &Device) -> Result<Box<dyn Detector>> {
    open_plan(config, plan(config)?, device)
}

/// As [`open`], with an encoder that was read.
pub(super) fn open_plan(
    config: &LidarConfig,
    plan: Plan,
    device: &Device,
) -> Result<Box<dyn Detector>> {
    Ok(match device {
        Device::Cpu => {
            check_memory(&plan, available_bytes())?;
            let engine = det_post_infer::load(&config.model_path, &config.engine)?;
            Box::new(CpuDetector::new(config, plan, engine)?)
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => Box::new(CudaDetector::load(config, plan, &device.stream()?)?),
    })
}

/// Refuses capacities whose buffers are larger than the memory that the process may use,
/// where that is known.
pub(super) fn check_memory(plan: &Plan, available: Option<u64>) -> Result<()> {
    let needed = plan.memory(size_of::<f32>()).total() as u64;
    match available.filter(|available| needed > *available) {
        None => Ok(()),
        Some(available) => {
            let message = format!(
                "capacities of {:?} sites take {} MiB, {} MiB of memory are available; lower \
                 voxel_capacity or encoder.level_capacities",
                plan.capacities(),
                needed >> 20,
                available >> 20
            );
            Err(Error::new(ErrorKind::Config, "encoder", message))
        }
    }
}

/// The transform of each channel of a point.
fn transforms(config: &LidarConfig) -> Result<Vec<ChannelTransform>> {
    let of_intensity = match &config.facts.encoder {
        EncoderFacts::Voxels(voxels) | EncoderFacts::Sites(voxels) => voxels.intensity_transform,
        EncoderFacts::None(_) => ChannelTransform::Identity,
        EncoderFacts::Pillars(_) => {
            let message = format!("head {}: its encoder takes no voxels", config.head);
            return Err(Error::new(ErrorKind::Config, "voxels", message));
        }
    };
    let channels = config.facts.point_channels.iter().map(|channel| match channel {
        PointChannel::Intensity => of_intensity,
        _ => ChannelTransform::Identity,
    });
    Ok([ChannelTransform::Identity; 3].into_iter().chain(channels).collect())
}

/// The arithmetic of the encoder on a device whose own choice is `auto`; logs it.
fn precision(config: &LidarConfig, auto: Precision) -> Precision {
    let precision = match config.sparse_encoder.precision {
        EncoderPrecision::Auto => auto,
        EncoderPrecision::F32 => Precision::F32,
        EncoderPrecision::Tf32 => Precision::Tf32,
        EncoderPrecision::F16 => Precision::F16,
        EncoderPrecision::Bf16 => Precision::Bf16,
    };
    tracing::info!("encoder {}: computes in {precision:?}", config.encoder_file().display());
    precision
}

pub(super) fn map_dims(plan: &Plan) -> [ExpectedDim; 4] {
    plan.network().map_shape().map(Exactly)
}

/// Adds the sites of all levels to a report.
fn add_levels(counts: &EncoderCounts, report: &mut FrameReport) {
    report.add_level(LevelCounts {
        num_sites: counts.entrance.num_sites as u64,
        num_over_capacity: counts.entrance.num_over_capacity as u64,
        num_inputs_without_output: 0,
    });
    for level in &counts.levels {
        report.add_level(LevelCounts {
            num_sites: level.num_sites as u64,
            num_over_capacity: level.num_over_capacity as u64,
            num_inputs_without_output: level.num_inputs_without_output as u64,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_infer::sparse::{GridAxes, NetworkBuilder, Weights};

    #[test]
    fn capacities_beyond_the_memory_are_refused() {
        let mut builder = NetworkBuilder::new([64, 512, 512], 4).unwrap();
        let weights = Weights { num_outputs: 16, weight: vec![0.0; 16 * 4].into(), bias: None };
        let output = builder.submanifold("conv", 0, [1; 3], [1; 3], weights).unwrap();
        let network = builder.finish(output, GridAxes::Zyx, [0, 1, 2]).unwrap();
        let plan = Plan::new(network, &[1_000_000]).unwrap();
        let needed = plan.memory(4).total() as u64;
        assert!(needed > 64 << 20, "{needed}");
        assert!(check_memory(&plan, Some(needed)).is_ok());
        assert!(check_memory(&plan, None).is_ok());
        let error = check_memory(&plan, Some(63 << 20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("[1000000] sites take"), "{error}");
        assert!(error.message().contains("63 MiB of memory"), "{error}");
    }
}
