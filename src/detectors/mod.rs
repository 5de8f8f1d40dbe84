//! From the inputs of a frame to detections: one folder a family of networks.
//!
//! A [`Detector`] owns everything that its frames need (device, engine,
//! tensors, workspaces) from its construction on; detecting allocates nothing
//! once the first frames have shown the sizes. It does no input or output, and
//! keeps nothing of a frame but what it declares (past sweeps). An error drops
//! the frame and leaves the detector ready for the next.
//!
//! | family | inputs | stages on the CPU |
//! |---|---|---|
//! | [`image2d`] | one image | decompress, letterbox, infer, decode, select, suppress, gather |
//! | [`pillars`] | one cloud | unpack, densify, voxelize, pillar features, encode, scatter, infer, decode, select, suppress, gather |
//!
//! Each family has a `cpu` and a `cuda` file, which implement [`Detector`] with
//! the same stages in the same order, and a `head`: what the network's tensors
//! mean, and whether a network fits.

mod frame_set;
#[cfg(feature = "cuda")]
mod frame_stream;
pub mod image2d;
pub mod pillars;
#[cfg(feature = "cuda")]
mod stopwatch;

pub use frame_set::{FrameInput, FrameSet, InputNeeds, MAX_INPUTS, Payload, PayloadKind};

use crate::config::{ChannelConfig, ChannelKind};
use crate::device::{Device, PayloadMemory};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Detections, DeviceChoice, FrameReport, Stage};

/// Finds objects in the inputs of a frame.
///
/// ```
/// use std::path::PathBuf;
///
/// use det_post::detectors::PayloadKind;
/// use det_post::{Config, Detector, open_detector};
///
/// let config = Config::load(&[PathBuf::from("config/demo.param.yaml")], &[])?;
/// let lidar = config.channel("lidar").expect("the demo has a LiDAR");
/// let mut detector: Box<dyn Detector> = open_detector(lidar, "cpu".parse()?)?;
/// let [input] = detector.inputs() else { unreachable!("one cloud per frame") };
/// assert_eq!(input.kind, PayloadKind::Cloud);
/// assert_eq!(input.pose_in.as_deref(), Some("map"), "past sweeps are moved in this frame");
/// detector.warm_up()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Detector: Send {
    /// What it needs of each input; the order is that of [`FrameSet::inputs`].
    /// Fixed from construction on.
    fn inputs(&self) -> &[InputNeeds];

    /// Where and by what its frames are processed. Fixed from construction on.
    fn info(&self) -> &DetectorInfo;

    /// Finds the objects of a frame: detections in the total order of score,
    /// class and source, valid until the next call. Adds durations, losses and
    /// moved bytes to `report`.
    ///
    /// # Errors
    /// Why the frame is dropped; the detector stays usable, except after
    /// `Device` (it is to be made again) and `DeviceLost` (no detector of this
    /// process can use the device any more).
    fn detect<'a>(
        &'a mut self,
        frame: &FrameSet<'_>,
        report: &mut FrameReport,
    ) -> Result<Detections<'a>>;

    /// Takes over what may change between frames: thresholds, limits, classes,
    /// suppression. The rest of `config` is that of construction.
    ///
    /// # Errors
    /// `Config` for another family, and those of construction; the configuration
    /// of before stays in force.
    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()>;

    /// Forgets past frames: the clock of the inputs starts over.
    ///
    /// # Errors
    /// `Device` when that fails.
    fn reset(&mut self) -> Result<()>;

    /// Runs the networks once on an empty frame, so that the first real one
    /// finds them warm. Leaves no trace.
    ///
    /// # Errors
    /// As [`Detector::detect`].
    fn warm_up(&mut self) -> Result<()>;

    /// Memory from which payloads reach the device in the fewest copies.
    fn payload_memory(&self) -> PayloadMemory;
}

/// Where and by what a detector's frames are processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectorInfo {
    /// The device by its number; never `Auto`.
    pub device: DeviceChoice,
    /// The device, for reports.
    pub device_name: String,
    /// Name and version of the engine that runs the network.
    pub engine_name: String,
    /// The process, where it is not this one.
    pub process_id: Option<u32>,
    /// The stages that it reports, in the order they run. No other appears in
    /// a report.
    pub stages: Vec<Stage>,
}

impl DetectorInfo {
    /// A detector of this process.
    pub fn new(device: &Device, engine_name: &str, stages: &[Stage]) -> Self {
        Self {
            device: device.choice(),
            device_name: device.to_string(),
            engine_name: engine_name.to_owned(),
            process_id: None,
            stages: stages.to_vec(),
        }
    }
}

/// Opens the device and loads the networks of a channel, in this process.
///
/// # Errors
/// `Device` when the device is not usable or has not enough memory, `Model`
/// when a network cannot be loaded or does not fit its head, `Argument` when
/// the device has no implementation of what is configured.
pub fn open(config: &ChannelConfig, device: DeviceChoice) -> Result<Box<dyn Detector>> {
    let device = Device::open(device)?;
    match &config.kind {
        ChannelKind::Camera(camera) => image2d::open(camera, &device),
        ChannelKind::Lidar(lidar) => pillars::open(lidar, &device),
    }
}

/// The error of a detector that is given the configuration of another family.
fn another_family(config: &ChannelConfig) -> Error {
    let message = format!("{}: the kind of sensor is fixed", config.name);
    Error::new(ErrorKind::Config, "channel", message)
}
