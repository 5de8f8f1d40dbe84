//! Boxes in space from a point cloud: what the families of encoders share.
//!
//! unpack, densify, voxelize, **encode**, infer, decode, select, suppress, gather
//!
//! A family ([`pillars`](super::pillars), [`voxels`](super::voxels)) encodes voxels as the
//! network's input, a map seen from above: [`MapEncoder`] on the CPU, `DeviceMapEncoder` on a
//! GPU, where grouping points into voxels is part of it. Networks of
//! [`proposals`](super::proposals) take the points of voxels: [`NetworkInput`]; layers of [`sites`](super::sites) end in what is decoded. All other stages are as in
//! [`CpuDetector`] and `CudaDetector`, whose `detect` is the whole frame in one function.
//!
//! Clouds of several LiDARs follow each other in the points of a frame, in the order of the inputs,
//! each moved into the target frame. Boxes are in the target frame, or in
//! that of the one cloud. Both devices give the same counters, the
//! same voxels and, from equal outputs of the network, the same detections, except for the
//! last place of an exponential.
//!
//! If past sweeps are merged, the detector uses the pose of the sensor. Without it the
//! current sweep is processed by itself, which is counted. A cloud without valid points,
//! including those of past sweeps, has no detections.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod head;
mod placing;

pub use cpu::{CpuDetector, MapEncoder, MapInput, NetworkInput};
#[cfg(feature = "cuda")]
pub(super) use cuda::load_network;
#[cfg(feature = "cuda")]
pub use cuda::{CudaDetector, DeviceMapEncoder, EncoderIo};
pub use head::LidarHead;
#[cfg(feature = "cuda")]
pub use head::{LidarDecoder, Outputs};
pub(super) use head::{floats, refuse};
pub(crate) use placing::placement;

use super::{DetectorInfo, FrameInput, FrameSet, InputNeeds, PayloadKind, another_family};
use crate::config::{ChannelConfig, ChannelKind, LidarConfig, LidarFacts};
use det_post_ops::cloud::unpack::UnpackParams;
use det_post_ops::cloud::voxelize::VoxelizeParams;
use det_post_ops::device::Device;
use det_post_types::{
    CloudView, Error, Header, PointChannel, PointField, PointFields, Result, Stage, Stamp,
};
use nalgebra::Isometry3;

/// The first input.
const CLOUD: usize = 0;

/// The inputs, the target and the engine of a channel.
fn info(
    config: &LidarConfig,
    device: &Device,
    engine_name: &str,
    stages: &[Stage],
) -> DetectorInfo {
    let (target, mut needs) = (placing::target(config), placing::needs(config));
    if let Some(cameras) = &config.cameras {
        let pose_in = config.clouds.target_frame.clone();
        let image = InputNeeds::of(PayloadKind::Image);
        let camera = InputNeeds { pose_in, calibration: true, ..image };
        needs.extend(vec![camera; cameras.facts.num_cameras]);
    }
    DetectorInfo { target, ..DetectorInfo::new(needs, device, engine_name, stages) }
}

/// An error of an input, with its number and the frame of its sensor.
fn refuse_input(index: usize, input: &FrameInput<'_>, error: &Error) -> Error {
    let message = format!("input {index} ({}): {}", input.header.frame_id, error.message());
    Error::new(error.kind(), "lidar", message)
}

/// The part of a channel's configuration that is of LiDARs.
fn lidar_of(config: &ChannelConfig) -> Result<&LidarConfig> {
    match &config.kind {
        ChannelKind::Lidar(lidar) => Ok(lidar),
        ChannelKind::Camera(_) | ChannelKind::Surround(_) => Err(another_family(config)),
    }
}

/// Calls `work` with clouds of one point, the centre of the grid's range: x, y, z and the
/// channels of the head, all floats, the channels zero. Cameras are missing.
fn with_empty_frame<T>(
    config: &LidarConfig,
    work: impl FnOnce(&FrameSet<'_>) -> Result<T>,
) -> Result<T> {
    let facts = &config.facts;
    let mut fields = PointFields::new();
    let names = facts.point_channels.iter().filter_map(|channel| match channel {
        PointChannel::Intensity => Some("intensity"),
        PointChannel::Ring => Some("ring"),
        PointChannel::TimeLag => None,
        PointChannel::Named(name) => Some(name.as_str()),
    });
    for (name, offset) in ["x", "y", "z"].into_iter().chain(names).zip((0..).step_by(4)) {
        fields.push(PointField { name, offset, datatype: 7, count: 1 })?;
    }
    let range = facts.grid.range();
    let center = [0, 1, 2].map(|axis| 0.5 * (range.min[axis] + range.max[axis]));
    let mut data: Vec<u8> = center.iter().flat_map(|value: &f32| value.to_le_bytes()).collect();
    data.resize(4 * fields.as_slice().len(), 0);
    let step = data.len() as u32;
    let cloud = CloudView::new([1, 1], [step, step], false, fields, &data)?;
    let input = || {
        let input = FrameInput::cloud(Header::default(), &cloud);
        match config.clouds.target_frame {
            Some(_) => input.with_pose(Isometry3::identity()),
            None => input,
        }
    };
    let mut inputs: Vec<_> = (0..config.clouds.num_inputs).map(|_| Some(input())).collect();
    let num_cameras = config.cameras.as_ref().map_or(0, |cameras| cameras.facts.num_cameras);
    inputs.extend((0..num_cameras).map(|_| None));
    work(&FrameSet { stamp: Stamp::default(), inputs: &inputs, target_pose: None })
}

/// The values to read from clouds.
fn unpack_params(config: &LidarConfig) -> UnpackParams {
    let facts = &config.facts;
    // A point outside may be inside after the vehicle has moved.
    let is_alone = config.densification.num_past_sweeps == 0;
    UnpackParams {
        channels: facts.point_channels.clone(),
        intensity_scale: facts.intensity_scale,
        range: is_alone.then(|| facts.grid.range()),
    }
}

/// The grid of a channel and its limits.
pub(super) fn voxelize_params(config: &LidarConfig) -> VoxelizeParams {
    VoxelizeParams {
        grid: config.facts.grid,
        max_points_per_voxel: config.facts.max_points_per_voxel,
        voxel_capacity: config.voxel_capacity,
    }
}

/// The channel for the age of a point's sweep.
fn time_lag_channel(facts: &LidarFacts) -> Option<usize> {
    let position = facts.point_channels.iter().position(|c| *c == PointChannel::TimeLag);
    position.map(|channel| 3 + channel)
}
