//! Boxes in space from a cloud and the images of several cameras (BEVFusion as AWML exports it for
//! Autoware).
//!
//! Two files: a backbone from images `[N, 3, H, W]`, red first, values of 0 to 255, to their features
//! `[N, C, h, w]`, and a network of points and features to proposals. The second one falls into four parts:
//!
//! | part | by | from | to |
//! |---|---|---|---|
//! | encoder | layers of our own, as in [`voxels`] | voxels | map of the points |
//! | cameras | an engine | features of images, images of depths ([`depth_image`](det_post_ops::view::depth_image)) | depths and features of pixels |
//! | pool | [`bev_pool`](det_post_ops::view::bev_pool) | depths and features of pixels | map of the cameras |
//! | behind the maps | an engine | both maps | proposals |
//!
//! Points and boxes are in the target frame, at the stamp of the cloud. Images are resized to the size of
//! the network with an antialiased filter and cut, excess height at the top, excess width on both sides. They are
//! not rounded to bytes. The points of the frustums follow from calibrations and mounts of the cameras:
//! the table of the pool is made again when one changes. The motion of the vehicle between the stamps of
//! an image and of its cloud is not in it, as published.
//!
//! A camera that a frame lacks, which `sync.min_cameras` may allow, adds nothing to the map. A frame
//! without voxels has no detections.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod geometry;

pub use cpu::{CpuDetector, FusedInput};
#[cfg(feature = "cuda")]
pub use cuda::{CudaDetector, DeviceFusedInput};

use super::surround::CamerasParams;
use super::{Detector, voxels};
use crate::config::{FusedCamerasConfig, LidarConfig, available_bytes};
use det_post_infer::ExpectedDim::Exactly;
use det_post_infer::sparse::{CameraNetwork, MAP_OF_CAMERAS, SparseFile};
use det_post_infer::{Expected, Side, bind};
use det_post_ops::device::Device;
use det_post_ops::image::resample::ResampleParams;
use det_post_types::{
    ChannelOrder, ElementType, EngineOptions, Error, ErrorKind, NetworkPart, Normalization,
    PixelConvention, Resize, Result, TensorSpec,
};

const STAGE: &str = "fused";

/// The filter of the published networks.
const RESIZE: Resize = Resize::Antialias;

/// Loads the networks for a device and allocates all memory that the configuration bounds.
///
/// # Errors
/// `Model` when a network cannot be loaded or does not fit its head; `Config` when the capacities do not
/// fit into memory; `Argument` when the device has no implementation of the suppression, or a limit
/// is above the device's; `Device` when it has not enough memory.
pub fn open(
    config: &LidarConfig,
    cameras: &FusedCamerasConfig,
    file: SparseFile,
    device: &Device,
) -> Result<Box<dyn Detector>> {
    let Some(network) = file.cameras else {
        let message =
            "the network takes no cameras (QuickCumsumCuda): leave `cameras` out of its head";
        return Err(Error::new(ErrorKind::Model, STAGE, message));
    };
    let plan = voxels::plan_of(config, file)?;
    let branch = Branch { config: cameras, network, engine: &config.engine };
    tracing::info!(
        "cameras: {} of {}x{}, {} depths of {} channels, a map of {} x {} cells",
        cameras.facts.num_cameras,
        cameras.facts.input_size.width,
        cameras.facts.input_size.height,
        network.num_depths,
        network.num_channels,
        network.rows,
        network.columns
    );
    Ok(match device {
        Device::Cpu => {
            voxels::check_memory(&plan, available_bytes())?;
            Box::new(CpuDetector::load(config, plan, &branch)?)
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            Box::new(CudaDetector::load(config, plan, &branch, &device.stream()?)?)
        }
    })
}

/// Refuses a network with cameras for a head without.
///
/// # Errors
/// `Model` for a network that takes cameras.
pub(super) fn check_without_cameras(file: &SparseFile) -> Result<()> {
    if file.cameras.is_none() {
        return Ok(());
    }
    let message = "the network takes cameras: its head needs `cameras`, as `bevfusion_camera_lidar_autoware` has them";
    Err(Error::new(ErrorKind::Model, STAGE, message))
}

/// The error of a head with cameras whose network has no sparse encoder.
pub(super) fn refuse_without_encoder<T>() -> Result<T> {
    let message =
        "the network has no sparse convolutions (GetIndicePairs): with cameras it needs them";
    Err(Error::new(ErrorKind::Model, STAGE, message))
}

/// The cameras of a channel, and what their network has.
pub struct Branch<'a> {
    config: &'a FusedCamerasConfig,
    network: CameraNetwork,
    engine: &'a EngineOptions,
}

impl Branch<'_> {
    /// Views and matrices of the cameras.
    fn cameras(&self) -> CamerasParams {
        CamerasParams {
            input_size: self.config.facts.input_size,
            undistort: self.config.undistort,
            convention: PixelConvention::Trainer,
            compensate_skew: false,
        }
    }

    /// How images become the input of the backbone, which normalizes them.
    fn resample(&self) -> ResampleParams {
        ResampleParams {
            channel_order: ChannelOrder::Rgb,
            normalization: Normalization::from_mean_std([0.0; 3], [1.0; 3]),
            pad_value: 0.0,
        }
    }

    /// `[N, 3, H, W]`.
    fn images_shape(&self) -> [usize; 4] {
        let (num, size) = (self.config.facts.num_cameras, self.config.facts.input_size);
        [num, 3, size.height as usize, size.width as usize]
    }

    /// `[N, C, h, w]`.
    fn features_shape(&self) -> [usize; 4] {
        let [channels, rows, columns] = self.network.image_features;
        [self.config.facts.num_cameras, channels, rows, columns]
    }

    /// The options of a network; layers that are kept are of the network behind the maps.
    fn options(&self, part: NetworkPart) -> EngineOptions {
        let mut options = EngineOptions { part, ..self.engine.clone() };
        options.gpu.keep_f32.clear();
        options
    }

    fn backbone_options(&self) -> EngineOptions {
        self.options(NetworkPart::FloatInputs)
    }

    fn camera_options(&self) -> EngineOptions {
        let (num_cameras, image_size) =
            (self.config.facts.num_cameras, self.config.facts.input_size);
        self.options(NetworkPart::Cameras { num_cameras, image_size })
    }

    /// Refuses a backbone with other inputs or outputs.
    fn check_backbone(&self, inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Result<()> {
        let tensor = |what, shape: [usize; 4]| Expected {
            what,
            name: None,
            elements: vec![ElementType::F32],
            shapes: vec![shape.map(Exactly).to_vec()],
        };
        bind(Side::Input, &[tensor("images", self.images_shape())], inputs)?;
        bind(Side::Output, &[tensor("features of images", self.features_shape())], outputs)?;
        Ok(())
    }
}

/// The places of the map of the points and of the map of the cameras among the inputs behind them.
fn map_places(inputs: &[TensorSpec]) -> Result<[usize; 2]> {
    let of_cameras = inputs.iter().position(|input| input.name == MAP_OF_CAMERAS);
    match (inputs.len(), of_cameras) {
        (2, Some(place)) => Ok([1 - place, place]),
        _ => {
            let message = "the network behind the maps does not read both of them";
            Err(Error::new(ErrorKind::Model, STAGE, message))
        }
    }
}
