//! A picture in, 2D detections out.
//!
//! A channel runs on one device from end to end. Both sides give the same
//! detections and the same counts, bit for bit when the network's answers are;
//! the story of a frame stands in [`cpu`] and [`cuda`], the same stages in the
//! same order.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod head;

pub use head::YoloHead;

use std::time::Instant;

use super::Processed;
use crate::config::CameraConfig;
use crate::device::Device;
use crate::error::Result;
#[cfg(feature = "cuda")]
use crate::infer::device::DeviceEngine;
use crate::infer::{self, Engine};
use crate::types::{Detection2d, FrameReport, ImagePayload, Stage};

/// Everything one camera channel needs for its frames.
pub struct CameraPipeline {
    side: Side,
    detections: Vec<Detection2d>,
    report: FrameReport,
}

/// Where the frames run.
enum Side {
    Cpu(Box<cpu::Frames>),
    #[cfg(feature = "cuda")]
    Cuda(Box<cuda::Frames>),
}

impl CameraPipeline {
    /// Loads the network for a device and takes all memory the configuration
    /// bounds.
    ///
    /// # Errors
    /// `Model` when the network cannot be loaded or does not fit its head;
    /// `Argument` when the device has no side for the head or the suppression;
    /// `Device` when it has not enough memory.
    pub fn new(config: &CameraConfig, device: &Device) -> Result<Self> {
        match device {
            Device::Cpu => {
                Self::with_engine(config, infer::load(&config.model_path, &config.engine)?)
            }
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => {
                let frames = cuda::Frames::new(config, &device.stream()?)?;
                Ok(Self::on(config, Side::Cuda(Box::new(frames))))
            }
        }
    }

    /// On the CPU, with a network that is loaded already.
    ///
    /// # Errors
    /// `Model` when the network does not fit the head.
    pub fn with_engine(config: &CameraConfig, engine: Box<dyn Engine>) -> Result<Self> {
        let frames = cpu::Frames::new(config, engine)?;
        Ok(Self::on(config, Side::Cpu(Box::new(frames))))
    }

    /// On a GPU, with a network that is loaded already; the frames run on its
    /// stream.
    ///
    /// # Errors
    /// As [`CameraPipeline::new`].
    #[cfg(feature = "cuda")]
    pub fn with_device_engine(
        config: &CameraConfig,
        stream: &crate::device::cuda::Stream,
        engine: DeviceEngine,
    ) -> Result<Self> {
        let frames = cuda::Frames::with_engine(config, stream, engine)?;
        Ok(Self::on(config, Side::Cuda(Box::new(frames))))
    }

    fn on(config: &CameraConfig, side: Side) -> Self {
        let detections = Vec::with_capacity(config.max_detections);
        Self { side, detections, report: FrameReport::new() }
    }

    /// Name and version of the engine that runs the network.
    pub fn engine_name(&self) -> &str {
        match &self.side {
            Side::Cpu(frames) => frames.engine_name(),
            #[cfg(feature = "cuda")]
            Side::Cuda(frames) => frames.engine_name(),
        }
    }

    /// Takes over what may change between frames: thresholds, limits, wanted
    /// classes, suppression. The rest of `config` is that of the start.
    ///
    /// On a GPU thresholds and classes are written to the device; other kinds
    /// and limits are recorded anew, on memory that stays taken.
    ///
    /// # Errors
    /// As [`CameraPipeline::new`]; what held before then holds on.
    pub fn reconfigure(&mut self, config: &CameraConfig) -> Result<()> {
        match &mut self.side {
            Side::Cpu(frames) => frames.reconfigure(config),
            #[cfg(feature = "cuda")]
            Side::Cuda(frames) => frames.reconfigure(config)?,
        }
        self.detections.clear();
        self.detections.reserve(config.max_detections);
        Ok(())
    }

    /// Detects objects in a picture: boxes in its pixels, clipped to it.
    ///
    /// # Errors
    /// `Codec` or `Layout` when the picture does not decode, `Inference` when
    /// the network fails, `Device` when the GPU does. The frame is dropped, the
    /// pipeline stays usable.
    pub fn process(&mut self, payload: &ImagePayload<'_>) -> Result<Processed<'_, Detection2d>> {
        let Self { side, detections, report } = self;
        *report = FrameReport::new();
        let start = Instant::now();
        match side {
            Side::Cpu(frames) => frames.process(payload, report, detections)?,
            #[cfg(feature = "cuda")]
            Side::Cuda(frames) => frames.process(payload, report, detections)?,
        }
        report.add_duration(Stage::Total, start.elapsed());
        Ok(Processed { detections, report })
    }
}
