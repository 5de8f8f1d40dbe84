//! Boxes in space from a cloud and the images of several cameras (BEVFusion), in two forms: as AWML exports
//! it for Autoware, and as NVIDIA's CUDA-BEVFusion has it.
//!
//! Autoware's form is two files: a backbone from images `[N, 3, H, W]`, red first, values of 0 to 255, to their
//! features `[N, C, h, w]`, and a network of points and features to proposals, which falls into four parts.
//! NVIDIA's form is five files.
//!
//! | part | by | from | to | NVIDIA's file |
//! |---|---|---|---|---|
//! | encoder | layers of our own, as in [`voxels`] | voxels | map of the points | `lidar.backbone.xyz` |
//! | cameras | an engine | features of images (NVIDIA: images), images of depths ([`depth_image`](det_post_ops::view::depth_image)) | depths and features of pixels | `camera.backbone` |
//! | pool | [`bev_pool`](det_post_ops::view::bev_pool) | depths and features of pixels | map of the cameras | |
//! | behind the maps | an engine (NVIDIA: three) | both maps | proposals | `camera.vtransform`, `fuser`, `head.bbox` |
//!
//! Points and boxes are in the target frame, at the stamp of the cloud. Images are resized and cut, excess height
//! at the top, excess width on both sides; they are not rounded to bytes. Autoware's fill the network's input by an
//! antialiased filter. NVIDIA's have a factor (`image_scale`), the four nearest pixels, and the means and deviations of ImageNet.
//! The points of the frustums follow from calibrations and mounts of the cameras:
//! the table of the pool is made again when one changes. The motion of the vehicle between the stamps of
//! an image and of its cloud is not in it.
//!
//! A camera that a frame lacks, which `sync.min_cameras` may allow, adds nothing to the map. A frame
//! without voxels has no detections.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod files;
mod geometry;

pub use cpu::{CpuDetector, FusedInput};
#[cfg(feature = "cuda")]
pub use cuda::{CudaDetector, DeviceFusedInput};

use self::files::Files;
use super::surround::CamerasParams;
use super::{Detector, voxels};
use crate::config::{FusedCamerasConfig, LidarConfig, available_bytes};
use det_post_infer::ExpectedDim::Exactly;
use det_post_infer::sparse::{CameraNetwork, MAP_OF_CAMERAS, Plan, SparseFile};
use det_post_infer::{Expected, Side, bind};
use det_post_ops::device::Device;
use det_post_ops::image::resample::ResampleParams;
use det_post_types::{
    ChannelOrder, ElementType, EngineOptions, Error, ErrorKind, NetworkPart, Normalization,
    PixelConvention, Resize, Result, TensorSpec,
};

const STAGE: &str = "fused";

/// Means and deviations of the images of CUDA-BEVFusion, red first, in units of 0 to 255 (`src/main.cpp`).
const MEAN: [f32; 3] = [123.675, 116.28, 103.53];
const DEVIATION: [f32; 3] = [58.395, 57.12, 57.375];

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
    let branch = Branch { config: cameras, network, files: None, engine: &config.engine };
    open_branch(config, plan, &branch, device)
}

/// As [`open`], of the five files of NVIDIA's form.
///
/// # Errors
/// As [`open`]; `Model` also when a file quantizes or does not fit the others.
pub fn open_files(
    config: &LidarConfig,
    cameras: &FusedCamerasConfig,
    device: &Device,
) -> Result<Box<dyn Detector>> {
    let plan = voxels::plan(config)?;
    open_branch(config, plan.clone(), &Branch::of_files(config, cameras, &plan)?, device)
}

/// What the cameras of a channel of NVIDIA's form are, once its files are there; `None` for others.
///
/// # Errors
/// `Io` or `Model` when a file cannot be read, quantizes, or does not fit the head or the others.
pub fn describe_files(config: &LidarConfig) -> Result<Option<String>> {
    let Some(cameras) = config.cameras.as_ref().filter(|cameras| cameras.fuser.is_some()) else {
        return Ok(None);
    };
    if !config.model_paths().all(|(_, path)| path.is_file()) {
        return Ok(None);
    }
    Ok(Some(Branch::of_files(config, cameras, &voxels::plan(config)?)?.in_words()))
}

fn open_branch(
    config: &LidarConfig,
    plan: Plan,
    branch: &Branch<'_>,
    device: &Device,
) -> Result<Box<dyn Detector>> {
    tracing::info!("{}", branch.in_words());
    Ok(match device {
        Device::Cpu => {
            voxels::check_memory(&plan, available_bytes())?;
            Box::new(CpuDetector::load(config, plan, branch)?)
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            Box::new(CudaDetector::load(config, plan, branch, &device.stream()?)?)
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
    /// Of NVIDIA's form.
    files: Option<Files<'a>>,
    engine: &'a EngineOptions,
}

impl<'a> Branch<'a> {
    fn of_files(
        config: &'a LidarConfig,
        cameras: &'a FusedCamerasConfig,
        plan: &Plan,
    ) -> Result<Self> {
        let Some(paths) = &cameras.fuser else {
            let message = format!("head {}: it has no files behind the cameras' map", config.head);
            return Err(Error::new(ErrorKind::Config, STAGE, message));
        };
        let files = Files::read(config, cameras, paths, plan)?;
        let network = files.sizes;
        Ok(Self { config: cameras, network, files: Some(files), engine: &config.engine })
    }

    fn in_words(&self) -> String {
        let (facts, network) = (self.config.facts, self.network);
        format!(
            "cameras: {} of {}x{}, {} depths of {} channels, a map of {} x {} cells",
            facts.num_cameras,
            facts.input_size.width,
            facts.input_size.height,
            network.num_depths,
            network.num_channels,
            network.rows,
            network.columns
        )
    }

    /// The filter of the published networks.
    fn resize(&self) -> Resize {
        if self.files.is_some() { Resize::Bilinear } else { Resize::Antialias }
    }

    /// Views and matrices of the cameras.
    fn cameras(&self) -> CamerasParams {
        CamerasParams {
            input_size: self.config.facts.input_size,
            scale: self.config.facts.image_scale,
            undistort: self.config.undistort,
            convention: PixelConvention::Trainer,
            compensate_skew: false,
        }
    }

    /// How images become the input of the backbone; Autoware's normalizes them.
    fn resample(&self) -> ResampleParams {
        let (mean, deviation) = match &self.files {
            Some(_) => (MEAN, DEVIATION),
            None => ([0.0; 3], [1.0; 3]),
        };
        ResampleParams {
            channel_order: ChannelOrder::Rgb,
            normalization: Normalization::from_mean_std(mean, deviation),
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

    /// The options of the network that gives the proposals.
    fn head_options(&self) -> EngineOptions {
        let part = match &self.files {
            Some(_) => NetworkPart::Proposals,
            None => NetworkPart::Whole,
        };
        EngineOptions { part, ..self.engine.clone() }
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
