//! A point cloud in, 3D detections out.
//!
//! A channel runs on one device from end to end. Both sides give the same
//! detections and the same counts, bit for bit up to the encoder and, but for
//! the last place of an exponential, from the network's answers on; the story
//! of a frame stands in [`cpu`] and [`cuda`], the same stages in the same order.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod head;

#[cfg(feature = "cuda")]
pub use head::LidarDecoder;
pub use head::{CenterOutputs, LidarHead, PillarEncoder};

use std::time::Instant;

use nalgebra::Isometry3;

use super::Processed;
use crate::config::{LidarConfig, LidarFacts};
use crate::device::Device;
use crate::error::Result;
#[cfg(feature = "cuda")]
use crate::infer::device::DeviceEngine;
use crate::infer::{self, Engine};
use crate::ops::unpack::UnpackParams;
use crate::ops::voxelize::VoxelizeParams;
use crate::types::{CloudView, Detection3d, FrameReport, PointChannel, Stage, Stamp};

/// One sweep, as a lidar channel takes it.
#[derive(Clone, Copy, Debug)]
pub struct LidarFrame<'a> {
    /// The points as they lie in the message.
    pub cloud: &'a CloudView<'a>,
    /// Acquisition time of the sweep.
    pub stamp: Stamp,
    /// Where the sensor stood in the world at that time. Without it the sweep
    /// is processed alone: past sweeps cannot join, which is counted.
    pub world_from_sensor: Option<&'a Isometry3<f64>>,
}

/// Everything one lidar channel needs for its frames.
pub struct LidarPipeline {
    side: Side,
    densifies: bool,
    detections: Vec<Detection3d>,
    report: FrameReport,
}

/// Where the frames run.
enum Side {
    Cpu(Box<cpu::Frames>),
    #[cfg(feature = "cuda")]
    Cuda(Box<cuda::Frames>),
}

impl LidarPipeline {
    /// Loads both networks for a device and takes all memory the configuration
    /// bounds.
    ///
    /// # Errors
    /// `Model` when a network cannot be loaded or does not fit its head;
    /// `Argument` when the device has no side for the suppression or a limit is
    /// above the device's; `Device` when it has not enough memory.
    pub fn new(config: &LidarConfig, device: &Device) -> Result<Self> {
        match device {
            Device::Cpu => {
                let encoder = infer::load(&config.encoder_path, &config.engine)?;
                let engine = infer::load(&config.model_path, &config.engine)?;
                Self::with_engines(config, encoder, engine)
            }
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => {
                let frames = cuda::Frames::new(config, &device.stream()?)?;
                Ok(Self::on(config, Side::Cuda(Box::new(frames))))
            }
        }
    }

    /// On the CPU, with networks that are loaded already.
    ///
    /// # Errors
    /// `Model` when a network does not fit the head.
    pub fn with_engines(
        config: &LidarConfig,
        encoder: Box<dyn Engine>,
        engine: Box<dyn Engine>,
    ) -> Result<Self> {
        let frames = cpu::Frames::new(config, encoder, engine)?;
        Ok(Self::on(config, Side::Cpu(Box::new(frames))))
    }

    /// On a GPU, with networks that are loaded already; the frames run on their
    /// stream.
    ///
    /// # Errors
    /// As [`LidarPipeline::new`].
    #[cfg(feature = "cuda")]
    pub fn with_device_engines(
        config: &LidarConfig,
        stream: &crate::device::cuda::Stream,
        encoder: DeviceEngine,
        engine: DeviceEngine,
    ) -> Result<Self> {
        let frames = cuda::Frames::with_engines(config, stream, encoder, engine)?;
        Ok(Self::on(config, Side::Cuda(Box::new(frames))))
    }

    fn on(config: &LidarConfig, side: Side) -> Self {
        let densifies = config.densification.num_past_sweeps > 0;
        let detections = Vec::with_capacity(config.max_detections);
        Self { side, densifies, detections, report: FrameReport::new() }
    }

    /// Name and version of the engine that runs the network.
    pub fn engine_name(&self) -> &str {
        match &self.side {
            Side::Cpu(frames) => frames.engine_name(),
            #[cfg(feature = "cuda")]
            Side::Cuda(frames) => frames.engine_name(),
        }
    }

    /// Whether past sweeps join, so that frames want a transform.
    pub fn densifies(&self) -> bool {
        self.densifies
    }

    /// Takes over what may change between frames: thresholds, limits,
    /// suppression, the age of sweeps. The rest of `config` is that of the start.
    ///
    /// On a GPU thresholds are written to the device; other kinds and limits are
    /// recorded anew, on memory that stays taken.
    ///
    /// # Errors
    /// As [`LidarPipeline::new`]; what held before then holds on.
    pub fn reconfigure(&mut self, config: &LidarConfig) -> Result<()> {
        match &mut self.side {
            Side::Cpu(frames) => frames.reconfigure(config),
            #[cfg(feature = "cuda")]
            Side::Cuda(frames) => frames.reconfigure(config)?,
        }
        self.detections.clear();
        self.detections.reserve(config.max_detections);
        Ok(())
    }

    /// Forgets past sweeps: for a clock that starts over.
    pub fn forget_sweeps(&mut self) {
        match &mut self.side {
            Side::Cpu(frames) => frames.forget_sweeps(),
            #[cfg(feature = "cuda")]
            Side::Cuda(frames) => frames.forget_sweeps(),
        }
    }

    /// Detects objects in a sweep: boxes in the cloud's frame. Without a usable
    /// point, those of past sweeps included, there are no detections.
    ///
    /// # Errors
    /// `PointField` when a needed field is missing or unusable, `Inference`
    /// when a network fails, `Device` when the GPU does. The frame is dropped,
    /// the pipeline stays usable.
    pub fn process(&mut self, frame: &LidarFrame<'_>) -> Result<Processed<'_, Detection3d>> {
        let Self { side, detections, report, .. } = self;
        *report = FrameReport::new();
        let start = Instant::now();
        match side {
            Side::Cpu(frames) => frames.process(frame, report, detections)?,
            #[cfg(feature = "cuda")]
            Side::Cuda(frames) => frames.process(frame, report, detections)?,
        }
        report.add_duration(Stage::Total, start.elapsed());
        Ok(Processed { detections, report })
    }
}

/// What to read from clouds.
fn unpack_params(config: &LidarConfig) -> UnpackParams {
    let facts = &config.facts;
    // A point outside today may be inside after the vehicle moved.
    let is_alone = config.densification.num_past_sweeps == 0;
    UnpackParams {
        channels: facts.point_channels.clone(),
        intensity_scale: facts.intensity_scale,
        range: is_alone.then(|| facts.grid.range()),
    }
}

fn voxelize_params(facts: &LidarFacts) -> VoxelizeParams {
    VoxelizeParams {
        grid: facts.grid,
        max_points_per_voxel: facts.max_points_per_voxel,
        voxel_capacity: facts.voxel_capacity,
    }
}

/// The channel of points that gets the age of their sweep.
fn time_lag_channel(facts: &LidarFacts) -> Option<usize> {
    let position = facts.point_channels.iter().position(|c| *c == PointChannel::TimeLag);
    position.map(|channel| 3 + channel)
}
