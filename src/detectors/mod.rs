//! From the inputs of a frame to detections: one folder per family of networks.
//!
//! A [`Detector`] owns its device, engines, tensors and workspaces; detecting allocates
//! nothing once these have grown to the sizes of the frames. It performs no input or
//! output. Between frames it keeps past sweeps, and of surround cameras the memory of the
//! network, the last pose and prepared images; [`Detector::reset`] discards them. An error
//! drops the frame and leaves the detector ready for the next.
//!
//! | family | inputs | stages on the CPU |
//! |---|---|---|
//! | [`image2d`] | one image | decompress, letterbox, infer, decode, select, suppress, gather |
//! | [`image2d`] | one list of tensors | decode, select, suppress, gather |
//! | [`pillars`] | clouds of one or several LiDARs | unpack, densify, voxelize, pillar features, encode, scatter, infer, decode, select, suppress, gather |
//! | [`voxels`] | clouds of one or several LiDARs | unpack, densify, voxelize, voxel mean, encode, infer, decode, select, suppress, gather |
//! | [`proposals`] | clouds of one or several LiDARs | unpack, densify, voxelize, infer, decode, select, suppress, gather |
//! | [`sites`] | clouds of one or several LiDARs | unpack, densify, voxelize, voxel mean, encode, infer, decode, select, suppress, gather |
//! | [`fused`] | a cloud, and images of all cameras | unpack, densify, voxelize, decompress, letterbox, voxel mean, encode, infer, decode, select, suppress, gather |
//! | [`surround`] | images of all cameras | decompress, letterbox, infer, encode, decode, select, suppress, gather |
//!
//! Each family has a `cpu` and a `cuda` file with the same stages in the same order. A
//! `head` is the meaning of a network's tensors and the check that a network fits. The
//! families of point clouds differ in what encodes voxels; [`lidar`] is the rest.

mod frame_set;
#[cfg(feature = "cuda")]
mod frame_stream;
pub mod fused;
pub mod image2d;
#[cfg(feature = "cuda")]
mod image_uploads;
pub(crate) mod in_flight;
pub mod lidar;
pub mod motion;
pub mod pillars;
mod postprocess_3d;
pub mod proposals;
#[cfg(feature = "cuda")]
mod shared_jpeg;
pub mod sites;
#[cfg(feature = "cuda")]
mod stopwatch;
pub mod surround;
pub mod voxels;

pub use frame_set::{
    FrameInput, FrameSet, InputNeeds, MAX_INPUTS, Payload, PayloadKind, TargetFrame,
};

use crate::config::{ChannelConfig, ChannelKind, EncoderFacts};
use det_post_ops::device::{Device, PayloadMemory};
use det_post_types::{
    Detections, DeviceChoice, EngineKind, Error, ErrorKind, FrameReport, Result, Stage,
};

/// The most frames in flight of any detector ([`Detector::allow_in_flight`]).
pub const MAX_FRAMES_IN_FLIGHT: usize = 8;

/// Frames in flight for which a camera on a GPU has one instance of its network: one is uploaded
/// while the network runs on the other.
pub const FRAMES_PER_INSTANCE: usize = 2;

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
    /// Its inputs, its device and its engine. Constant.
    fn info(&self) -> &DetectorInfo;

    /// [`DetectorInfo::inputs`].
    fn inputs(&self) -> &[InputNeeds] {
        &self.info().inputs
    }

    /// Does what can be done with a message of an input before its frame is complete, such as
    /// its upload, and keeps the result for [`Detector::submit`], which is faster and has the
    /// same result as without. Messages of an input differ in their stamps, which rise
    /// until [`Detector::reset`]. A message whose frame does not come is replaced by later
    /// ones.
    ///
    /// # Errors
    /// The reason why the message cannot be processed, which is reported again for its
    /// frame; `Device` and `DeviceLost` as there.
    fn prepare(&mut self, input: usize, message: &FrameInput<'_>) -> Result<()> {
        let _ = (input, message);
        Ok(())
    }

    /// Allows up to `num` frames between [`Detector::submit`] and [`Detector::collect`], and
    /// allocates what they need; the first call with more than 1 decides. Returns how many the
    /// detector can have, of which the caller may use fewer; 1 means that a frame is collected
    /// before the next is submitted: the detector takes one frame at a time, or has not enough
    /// memory, which is logged.
    fn allow_in_flight(&mut self, num: usize) -> usize {
        let _ = num;
        1
    }

    /// The number of frames that were submitted and not collected.
    fn num_in_flight(&self) -> usize;

    /// Begins a frame: does or queues its work, and returns once its payload is no longer read.
    /// Its detections are given by the call of [`Detector::collect`] that follows those of the
    /// frames before. Adds durations, counters and copied bytes to `report`, as `collect` does.
    /// While frames are in flight, only these two are called, [`Detector::flush`], and
    /// [`Detector::reset`], which applies to the frames that are submitted after it.
    ///
    /// # Errors
    /// The reason why the frame is dropped; it is not collected, and frames in flight are not
    /// affected. The detector remains usable, except after `Device` (it must be built again) and
    /// `DeviceLost` (no detector of this process can use the device again). `Argument` when as
    /// many frames as allowed are in flight.
    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()>;

    /// Queues the work of the frame that was submitted last, with the same `report`, where it waits
    /// to have its image decoded with those of other detectors. Its errors are those of
    /// [`Detector::collect`], which does the same if it was not called. A caller with frames of
    /// several detectors calls it for some or all of these in a row.
    fn flush(&mut self, report: &mut FrameReport) {
        let _ = report;
    }

    /// Waits for the earliest frame in flight and ends it, with the `report` of its submission.
    /// Detections are in the total order (score, class, source) and valid until the next call.
    ///
    /// # Errors
    /// The reason why that frame is dropped, as of `submit`; `Argument` when none is in flight.
    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>>;

    /// Detects the objects of a frame: [`Detector::submit`] and [`Detector::collect`].
    ///
    /// # Errors
    /// Returns the errors of the two; `Argument` while frames are in flight.
    fn detect<'a>(
        &'a mut self,
        frame: &FrameSet<'_>,
        report: &mut FrameReport,
    ) -> Result<Detections<'a>> {
        if self.num_in_flight() > 0 {
            let message = "frames are in flight: collect them first";
            return Err(Error::new(ErrorKind::Argument, "detector", message));
        }
        self.submit(frame, report)?;
        self.collect(report)
    }

    /// Applies the parameters that may change between frames: thresholds, limits, classes,
    /// suppression. The others are those of construction.
    ///
    /// # Errors
    /// `Config` for another family, and those of construction; then the previous
    /// configuration remains in force.
    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()>;

    /// Discards past frames, when the clock of the inputs starts over. Without state between
    /// frames there is nothing to do.
    ///
    /// # Errors
    /// `Device` when the device fails.
    fn reset(&mut self) -> Result<()> {
        Ok(())
    }

    /// Runs the networks once on an empty frame, so that the first frame is not slower than
    /// others. Keeps no state.
    ///
    /// # Errors
    /// As [`Detector::detect`].
    fn warm_up(&mut self) -> Result<()>;

    /// Memory for payloads from which the device uploads with the fewest copies: pageable,
    /// unless the detector runs on a GPU.
    fn payload_memory(&self) -> PayloadMemory {
        PayloadMemory::default()
    }
}

/// The inputs, the device and the engine of a detector's frames.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorInfo {
    /// The requirements for each input, in the order of [`FrameSet::inputs`].
    pub inputs: Vec<InputNeeds>,
    /// The coordinate frame of the detections, if it is not that of the reference input.
    pub target: Option<TargetFrame>,
    /// Whether [`Detector::prepare`] does anything.
    pub prepares: bool,
    /// The device, never `Auto`.
    pub device: DeviceChoice,
    /// The device, for reports.
    pub device_name: String,
    /// Name and version of the engine that runs the network.
    pub engine_name: String,
    /// The process of the detector, if it is not this one.
    pub process_id: Option<u32>,
    /// The score threshold of the suppression that its network ends in, where that holds in
    /// place of `score_threshold` and `nms.*` of the configuration.
    pub score_threshold: Option<f32>,
    /// The stages of its reports, in the order in which they run.
    pub stages: Vec<Stage>,
}

impl DetectorInfo {
    /// A detector in this process that prepares nothing.
    pub fn new(
        inputs: impl Into<Vec<InputNeeds>>,
        device: &Device,
        engine_name: &str,
        stages: &[Stage],
    ) -> Self {
        Self {
            inputs: inputs.into(),
            target: None,
            prepares: false,
            device: device.choice(),
            device_name: device.to_string(),
            engine_name: engine_name.to_owned(),
            process_id: None,
            score_threshold: None,
            stages: stages.to_vec(),
        }
    }

    /// The GPU of its frames, if they run in this process.
    pub fn gpu(&self) -> Option<u32> {
        match self.device {
            DeviceChoice::Cuda(gpu) if self.process_id.is_none() => Some(gpu),
            _ => None,
        }
    }

    /// The configuration as it holds: with the score threshold of the network.
    pub fn in_force(&self, config: &ChannelConfig) -> ChannelConfig {
        let mut config = config.clone();
        if let (ChannelKind::Camera(camera), Some(threshold)) =
            (&mut config.kind, self.score_threshold)
        {
            camera.score_threshold = threshold;
        }
        config
    }
}

/// Opens the device and loads the networks of a channel, in this process.
///
/// # Errors
/// `Config` when a file of the channel is missing, with the places where it was looked for;
/// `Device` when the device is not usable or has not enough memory, `Model`
/// when a network cannot be loaded or does not fit its head, with the parameter that names it;
/// `Argument` when the device has no implementation of what is configured.
pub fn open(config: &ChannelConfig, device: DeviceChoice) -> Result<Box<dyn Detector>> {
    config.check_files()?;
    open_networks(config, device).map_err(|error| config.name_network(error))
}

fn open_networks(config: &ChannelConfig, device: DeviceChoice) -> Result<Box<dyn Detector>> {
    // Without a network there is nothing to compute on a device.
    if let ChannelKind::Camera(camera) = &config.kind
        && camera.engine.kind == EngineKind::External
    {
        return image2d::open_received(camera);
    }
    let device = Device::open(device)?;
    match &config.kind {
        ChannelKind::Camera(camera) => image2d::open(camera, &device),
        ChannelKind::Lidar(lidar) => match &lidar.facts.encoder {
            EncoderFacts::Pillars(_) => pillars::open(lidar, &device),
            EncoderFacts::Voxels(_) => match lidar.cameras.as_ref() {
                Some(cameras) => fused::open_files(lidar, cameras, &device),
                None => voxels::open(lidar, &device),
            },
            EncoderFacts::Sites(_) => sites::open(lidar, &device),
            EncoderFacts::None(_) => proposals::open(lidar, &device),
        },
        ChannelKind::Surround(surround) => surround::open(surround, config.inputs.len(), &device),
    }
}

/// The error of a configuration of another family.
fn another_family(config: &ChannelConfig) -> Error {
    let message = format!("{}: the kind of sensor is fixed", config.name);
    Error::new(ErrorKind::Config, "channel", message)
}
