//! Boxes in space from the images of several cameras around the vehicle.
//!
//! Boxes are in the target frame of the configuration, which is fixed to the vehicle, at the
//! stamp of the reference camera. A backbone turns the images into feature maps; a decoder
//! turns these, the matrices of the cameras and the memory of past frames into boxes:
//!
//! | head | decoder | a camera may be missing | memory |
//! |---|---|---|---|
//! | `streampetr` | [`streampetr`]: two more networks in engines | no | queries |
//! | `detr3d` | [`infer::view_decoder::detr3d`](det_post_infer::view_decoder::detr3d) | yes | none |
//! | `sparse4d` | [`infer::view_decoder::sparse4d`](det_post_infer::view_decoder::sparse4d) | yes | anchors |
//!
//! Every frame needs, for each camera, its calibration and its pose at the stamp of its
//! image, and the pose of the target frame in the world. Without one of them the frame is
//! dropped with its reason; nothing is replaced by an identity or by an older value.
//! Matrices follow the calibration: when it changes, they and what depends on them are
//! computed again ([`Cameras`]). The memory is cleared after a gap between frames
//! ([`EgoMotion`]).
//!
//! A family of heads is a folder here: it implements `Family`, which loads its
//! networks, and `Decoder`, which runs them, and has an arm in
//! `family::family_of`. The detectors, one per device, know no family.

mod cameras;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod decoder;
mod ego_motion;
mod family;
mod images;
mod matrices;
pub mod on_arrays;
pub mod streampetr;
mod views;

pub use cameras::{Camera, Cameras, CamerasParams, camera_from_target};
pub use cpu::CpuDetector;
#[cfg(feature = "cuda")]
pub use cuda::CudaDetector;
pub use decoder::Networks;
pub use ego_motion::{EgoMotion, Step};
pub(super) use images::CpuImages;
#[cfg(feature = "cuda")]
pub(super) use images::CudaImages;
pub use matrices::RigMatrices;
pub use views::ViewFamily;

pub use det_post_ops::view::map_statistics::MapStatistics;

use nalgebra::Isometry3;

use super::{
    Detector, DetectorInfo, FrameSet, InputNeeds, PayloadKind, TargetFrame, another_family,
};
use crate::config::{ChannelConfig, ChannelKind, SurroundConfig, SurroundFacts};
use det_post_ops::device::Device;
use det_post_ops::image::resample::ResampleParams;
use det_post_types::{Error, ErrorKind, Result, Stage};

const STAGE: &str = "surround";

/// Loads the networks for a device and a number of cameras, and allocates all memory that
/// the configuration bounds.
///
/// # Errors
/// `Model` when a network cannot be loaded, does not fit its head or takes another number
/// of cameras; `Argument` when the device has no implementation of the head or the
/// suppression; `Device` when there is not enough memory.
pub fn open(
    config: &SurroundConfig,
    num_cameras: usize,
    device: &Device,
) -> Result<Box<dyn Detector>> {
    match device {
        Device::Cpu => Ok(Box::new(CpuDetector::load(config, num_cameras)?)),
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            Ok(Box::new(CudaDetector::load(config, num_cameras, &device.stream()?)?))
        }
    }
}

/// Of every camera its image, its calibration and its pose: in the world where matrices
/// contain the motion between the stamps, else in the target frame.
fn info(
    config: &SurroundConfig,
    num_cameras: usize,
    device: &Device,
    engine_name: &str,
    stages: &[Stage],
) -> DetectorInfo {
    let SurroundConfig { target_frame, world_frame, compensate_skew, .. } = config;
    let pose_in = Some(if *compensate_skew { world_frame } else { target_frame }.clone());
    let camera = InputNeeds { pose_in, calibration: true, ..InputNeeds::of(PayloadKind::Image) };
    DetectorInfo {
        target: Some(TargetFrame {
            frame_id: target_frame.clone(),
            pose_in: Some(world_frame.clone()),
        }),
        prepares: true,
        ..DetectorInfo::new(vec![camera; num_cameras], device, engine_name, stages)
    }
}

fn family(config: &ChannelConfig) -> Result<&SurroundConfig> {
    match &config.kind {
        ChannelKind::Surround(surround) => Ok(surround),
        ChannelKind::Camera(_) | ChannelKind::Lidar(_) => Err(another_family(config)),
    }
}

/// The pose of the target frame in the world.
///
/// # Errors
/// `Transform` when it is unknown.
fn world_from_target(frame: &FrameSet<'_>) -> Result<Isometry3<f64>> {
    known(frame.target_pose, "the pose of the target frame")
}

/// A pose that a frame needs.
fn known(pose: Option<&Result<Isometry3<f64>>>, what: &str) -> Result<Isometry3<f64>> {
    match pose {
        Some(Ok(pose)) => Ok(*pose),
        Some(Err(error)) => {
            Err(Error::new(error.kind(), STAGE, format!("{what}: {}", error.message())))
        }
        None => Err(Error::new(ErrorKind::Transform, STAGE, format!("{what} is not given"))),
    }
}

/// Compares the cameras of the networks with those of the channel.
fn check_cameras(of_network: usize, of_channel: usize) -> Result<()> {
    if of_network == of_channel {
        return Ok(());
    }
    let message = format!("the network takes {of_network} cameras, the channel has {of_channel}");
    Err(Error::new(ErrorKind::Model, STAGE, message))
}

/// How images become input images of the network.
fn resample_params(config: &SurroundConfig) -> ResampleParams {
    let SurroundFacts { channel_order, normalization, .. } = config.facts;
    // Nothing of an image that is cut is padding; an undistorted one may have black corners.
    ResampleParams { channel_order, normalization, pad_value: 0.0 }
}
