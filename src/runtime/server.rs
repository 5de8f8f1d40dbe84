//! What serves a channel's frames: a pipeline of this process, or one in a
//! process of its own. Both give the same detections.

use super::isolated::{Isolated, this_program};
use crate::config::{CameraConfig, ChannelConfig, ChannelKind, LidarConfig};
use crate::detectors::{CameraPipeline, LidarFrame, LidarPipeline, Processed};
use crate::device::{Device, PayloadMemory};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Detection2d, Detection3d, DeviceChoice, ImagePayload};

/// A pipeline `P` that finds `T`s.
pub enum Server<P, T> {
    /// A pipeline and the device it holds.
    Here(Box<P>, Opened),
    /// A process.
    Isolated(Box<Isolated<T>>),
}

/// What serves the frames of a camera.
pub type CameraServer = Server<CameraPipeline, Detection2d>;

/// What serves the sweeps of a lidar.
pub type LidarServer = Server<LidarPipeline, Detection3d>;

/// An open device and its name for reports.
pub struct Opened {
    device: Device,
    name: String,
}

impl Opened {
    fn new(choice: DeviceChoice) -> Result<Self> {
        let device = Device::open(choice)?;
        let name = device.to_string();
        Ok(Self { device, name })
    }
}

impl<P, T> Server<P, T> {
    /// Makes the device fail, to show that the channel survives that.
    ///
    /// # Errors
    /// `Device` when the channel's process is lost.
    pub fn fail(&mut self) -> Result<()> {
        match self {
            Self::Here(_, opened) => opened.device.fail(),
            Self::Isolated(isolated) => isolated.fail()?,
        }
        Ok(())
    }

    /// Where the frames run, by its number.
    pub fn device(&self) -> DeviceChoice {
        match self {
            Self::Here(_, opened) => opened.device.choice(),
            Self::Isolated(isolated) => isolated.device(),
        }
    }

    /// Where the frames run, for reports.
    pub fn device_name(&self) -> &str {
        match self {
            Self::Here(_, opened) => &opened.name,
            Self::Isolated(isolated) => isolated.device_name(),
        }
    }

    /// Memory for payloads to be served from. Those for another process are
    /// copied once more, into memory that both map.
    pub fn payload_memory(&self) -> PayloadMemory {
        match self {
            Self::Here(_, opened) => PayloadMemory::of(&opened.device),
            Self::Isolated(_) => PayloadMemory::default(),
        }
    }

    /// The process that serves the frames, where it is not this one.
    pub fn process_id(&self) -> Option<u32> {
        match self {
            Self::Here(..) => None,
            Self::Isolated(isolated) => Some(isolated.process_id()),
        }
    }
}

impl CameraServer {
    /// Opens the device and loads the network, here or in a new process, as the
    /// channel says.
    ///
    /// # Errors
    /// Those of [`Device::open`], [`CameraPipeline::new`] and
    /// [`Isolated::start`]; `Config` for a channel of another sensor.
    pub fn open(config: &ChannelConfig, device: DeviceChoice) -> Result<Self> {
        let camera = camera(config)?;
        if config.is_isolated {
            let isolated = Isolated::start(&this_program(), config, device)?;
            return Ok(Self::Isolated(Box::new(isolated)));
        }
        let opened = Opened::new(device)?;
        Ok(Self::Here(Box::new(CameraPipeline::new(camera, &opened.device)?), opened))
    }

    /// Detects objects in a picture.
    ///
    /// # Errors
    /// Those of [`CameraPipeline::process`] and [`Isolated::process_picture`].
    pub fn process(&mut self, payload: &ImagePayload<'_>) -> Result<Processed<'_, Detection2d>> {
        match self {
            Self::Here(pipeline, _) => pipeline.process(payload),
            Self::Isolated(isolated) => isolated.process_picture(payload),
        }
    }

    /// Takes over what may change between frames.
    ///
    /// # Errors
    /// Those of [`CameraPipeline::reconfigure`] and [`Isolated::reconfigure`].
    pub fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        match self {
            Self::Here(pipeline, _) => pipeline.reconfigure(camera(config)?),
            Self::Isolated(isolated) => isolated.reconfigure(config),
        }
    }

    /// Name and version of the engine that runs the network.
    pub fn engine_name(&self) -> &str {
        match self {
            Self::Here(pipeline, _) => pipeline.engine_name(),
            Self::Isolated(isolated) => isolated.engine_name(),
        }
    }
}

impl LidarServer {
    /// Opens the device and loads the networks, here or in a new process, as the
    /// channel says.
    ///
    /// # Errors
    /// Those of [`Device::open`], [`LidarPipeline::new`] and
    /// [`Isolated::start`]; `Config` for a channel of another sensor.
    pub fn open(config: &ChannelConfig, device: DeviceChoice) -> Result<Self> {
        let lidar = lidar(config)?;
        if config.is_isolated {
            let isolated = Isolated::start(&this_program(), config, device)?;
            return Ok(Self::Isolated(Box::new(isolated)));
        }
        let opened = Opened::new(device)?;
        Ok(Self::Here(Box::new(LidarPipeline::new(lidar, &opened.device)?), opened))
    }

    /// Detects objects in a sweep.
    ///
    /// # Errors
    /// Those of [`LidarPipeline::process`] and [`Isolated::process_cloud`].
    pub fn process(&mut self, frame: &LidarFrame<'_>) -> Result<Processed<'_, Detection3d>> {
        match self {
            Self::Here(pipeline, _) => pipeline.process(frame),
            Self::Isolated(isolated) => isolated.process_cloud(frame),
        }
    }

    /// Takes over what may change between frames.
    ///
    /// # Errors
    /// Those of [`LidarPipeline::reconfigure`] and [`Isolated::reconfigure`].
    pub fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        match self {
            Self::Here(pipeline, _) => pipeline.reconfigure(lidar(config)?),
            Self::Isolated(isolated) => isolated.reconfigure(config),
        }
    }

    /// Forgets past sweeps.
    ///
    /// # Errors
    /// `Device` when the channel's process is lost.
    pub fn forget_sweeps(&mut self) -> Result<()> {
        match self {
            Self::Here(pipeline, _) => pipeline.forget_sweeps(),
            Self::Isolated(isolated) => isolated.forget_sweeps()?,
        }
        Ok(())
    }

    /// Whether past sweeps join, so that frames want a transform.
    pub fn densifies(&self) -> bool {
        match self {
            Self::Here(pipeline, _) => pipeline.densifies(),
            Self::Isolated(isolated) => isolated.densifies(),
        }
    }

    /// Names and versions of the engines that run the networks.
    pub fn engine_name(&self) -> &str {
        match self {
            Self::Here(pipeline, _) => pipeline.engine_name(),
            Self::Isolated(isolated) => isolated.engine_name(),
        }
    }
}

fn camera(config: &ChannelConfig) -> Result<&CameraConfig> {
    match &config.kind {
        ChannelKind::Camera(camera) => Ok(camera),
        ChannelKind::Lidar(_) => Err(another_sensor(config)),
    }
}

fn lidar(config: &ChannelConfig) -> Result<&LidarConfig> {
    match &config.kind {
        ChannelKind::Lidar(lidar) => Ok(lidar),
        ChannelKind::Camera(_) => Err(another_sensor(config)),
    }
}

fn another_sensor(config: &ChannelConfig) -> Error {
    let message = format!("{}: the kind of sensor is fixed", config.name);
    Error::new(ErrorKind::Config, "channel", message)
}
