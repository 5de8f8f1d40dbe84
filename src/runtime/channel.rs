//! A channel: from frames to detections, in a replay and in the live node.

use std::sync::Arc;

use nalgebra::Isometry3;
use tracing::field::Empty;
use tracing::{Span, trace_span};

use super::Factory;
use super::frame_builder::Sequence;
use super::frame_inputs::{Corrections, check};
use super::in_flight::{FrameInFlight, FramesInFlight};
use super::poses::{TransformLookup, look_up_poses, take_unknown_pose};
use super::stamps::{StampOrder, StampWatch};
use super::supervisor::{Health, Supervisor};
use super::video_decoder::VideoPlace;
use crate::config::{ChannelConfig, InputConfig};
use crate::detectors::{
    Detector, DetectorInfo, FrameInput, FrameSet, InputNeeds, PayloadKind, TargetFrame,
};
use det_post_ops::device::PayloadMemory;
use det_post_ros::calibration_files::read_camera;
use det_post_ros::middleware::InputKind;
use det_post_types::{
    CameraCalibration, Count, Detections, DeviceChoice, Error, ErrorKind, FRAME_SPANS, FrameReport,
    Header, Result, Stage, Stamp,
};

/// A channel whose networks are loaded.
pub struct Channel {
    config: ChannelConfig,
    factory: Factory,
    supervisor: Supervisor,
    needs: Vec<InputNeeds>,
    target: Option<TargetFrame>,
    /// By input, the calibration that a file states.
    calibrations: Vec<Option<Arc<CameraCalibration>>>,
    stamps: StampWatch,
    /// The position of the next frame in the sequence.
    sequence: Sequence,
    corrections: Corrections,
    in_flight: FramesInFlight,
    /// The frame that was collected last.
    collected: Option<FrameInFlight>,
}

/// The result of a frame, valid until the next.
#[derive(Debug)]
pub struct ChannelFrame<'a> {
    /// The configuration in force.
    pub config: &'a ChannelConfig,
    /// Stamp of the reference input and coordinate frame of the detections: that of the
    /// reference input, unless the detector has a target frame.
    pub header: Header<'a>,
    /// The detections.
    pub detections: Detections<'a>,
    /// Durations and counters.
    pub report: &'a FrameReport,
    /// The pose of the target frame, as in [`FrameSet`].
    pub target_pose: Option<&'a Result<Isometry3<f64>>>,
    /// The order of the stamp and the previous one.
    pub order: StampOrder,
    /// The reason why a pose is unknown, without which the frame was processed.
    pub degraded: Option<Error>,
}

impl Channel {
    /// Opens the device and loads the networks.
    ///
    /// # Errors
    /// Returns the errors of [`super::open_detector`] and of reading calibration files, and
    /// `Config` when the detector has another number of inputs than the channel.
    pub fn open(config: &ChannelConfig) -> Result<Self> {
        Self::with_factory(config, Arc::new(super::open_detector))
    }

    /// As [`Channel::open`], with another function that builds the detector.
    ///
    /// # Errors
    /// Returns the errors of `factory`, and `Config` as above.
    pub fn with_factory(config: &ChannelConfig, factory: Factory) -> Result<Self> {
        let ChannelConfig { name, device, failures, .. } = config;
        let make = make_with(&factory, config);
        let supervisor = Supervisor::new(name, *device, *failures, make)?;
        let info = supervisor.detector().map(Detector::info);
        let needs = info.map_or(Vec::new(), |info| info.inputs.clone());
        let target = info.and_then(|info| info.target.clone());
        if needs.len() != config.inputs.len() {
            let (found, wanted) = (config.inputs.len(), needs.len());
            let message = format!("{name} has {found} inputs, its detector takes {wanted}");
            return Err(Error::new(ErrorKind::Config, "channel", message));
        }
        VideoPlace::check(config, info)?;
        let read =
            |input: &InputConfig| input.calibration_path.as_deref().map(read_camera).transpose();
        let calibrations = config.inputs.iter().map(read).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            config: info.map_or_else(|| config.clone(), |info| info.in_force(config)),
            factory,
            supervisor,
            needs,
            target,
            calibrations: calibrations.into_iter().map(|read| read.map(Arc::new)).collect(),
            stamps: StampWatch::default(),
            sequence: Sequence::Follows,
            corrections: Corrections::default(),
            in_flight: FramesInFlight::default(),
            collected: None,
        })
    }

    /// The kind of an input whose messages have this type.
    ///
    /// # Errors
    /// `Config` when the detector does not support that type for the input.
    pub fn input_kind(&self, input: usize, type_name: &str) -> Result<InputKind> {
        let (takes, kinds) = match self.needs.get(input).map(|needs| needs.kind) {
            Some(PayloadKind::Image) => ("images", &InputKind::IMAGES[..]),
            Some(PayloadKind::Cloud) => ("point clouds", &InputKind::CLOUDS[..]),
            Some(PayloadKind::Tensors) => ("lists of tensors", &[InputKind::TensorList][..]),
            None => ("nothing", &[][..]),
        };
        let kind = kinds.iter().find(|kind| kind.type_name() == type_name).copied();
        kind.ok_or_else(|| {
            let ChannelConfig { name, inputs, .. } = &self.config;
            let topic = inputs.get(input).map_or("", |input| input.topic.as_str());
            let message = format!("{name}.input: {topic} carries {type_name}; it takes {takes}");
            Error::new(ErrorKind::Config, "channel", message)
        })
    }

    /// The kind of a live input.
    pub fn live_input_kind(&self, input: usize) -> InputKind {
        let config = self.config.inputs.get(input);
        let is_compressed = config.is_some_and(|input| input.is_compressed);
        let packed_cloud = config.and_then(|input| input.packed_cloud);
        let video = config.and_then(|input| input.video);
        match self.needs.get(input).map(|needs| needs.kind) {
            Some(PayloadKind::Cloud) => {
                packed_cloud.map_or(InputKind::PointCloud2, InputKind::PackedCloud)
            }
            Some(PayloadKind::Tensors) => InputKind::TensorList,
            _ => match (video, is_compressed) {
                (Some(message), _) => InputKind::Video(message),
                (None, true) => InputKind::CompressedImage,
                (None, false) => InputKind::Image,
            },
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> &ChannelConfig {
        &self.config
    }

    /// The state of the channel, and the number of failures of its device.
    pub fn health(&self) -> (Health, u64) {
        (self.supervisor.health(), self.supervisor.num_failures())
    }

    /// The message of the last failure of its device.
    pub fn last_failure(&self) -> Option<&str> {
        self.supervisor.last_failure()
    }

    /// The device and the engine of its frames; `None` after a failure of the device.
    pub fn detector_info(&self) -> Option<&DetectorInfo> {
        self.supervisor.detector().map(Detector::info)
    }

    /// Memory for payloads from which the device uploads with the fewest copies.
    pub fn payload_memory(&self) -> PayloadMemory {
        self.supervisor.detector().map(Detector::payload_memory).unwrap_or_default()
    }

    /// Where its video is decoded.
    pub fn video_place(&self) -> VideoPlace {
        VideoPlace::of(&self.config, self.detector_info())
    }

    /// Whether its detector uses the pose or the motion of a sensor, or the pose of its target frame.
    pub fn wants_transforms(&self) -> bool {
        self.needs.iter().any(|needs| needs.pose_in.is_some() || needs.motion.is_some())
            || self.target.as_ref().is_some_and(|target| target.pose_in.is_some())
    }

    /// Whether its detector uses the calibration of an input's camera.
    pub fn wants_calibration(&self, input: usize) -> bool {
        self.needs.get(input).is_some_and(|needs| needs.calibration)
    }

    /// The frame in which its detector asks for the pose of an input's sensor.
    pub fn pose_in(&self, input: usize) -> Option<&str> {
        self.needs.get(input)?.pose_in.as_deref()
    }

    /// Whether messages are passed to [`Channel::prepare`] when they arrive.
    pub fn prepares(&self) -> bool {
        self.needs.len() > 1 && self.detector_info().is_some_and(|info| info.prepares)
    }

    /// The calibration of an input's camera that a file states.
    pub fn calibration_of_file(&self, input: usize) -> Option<&Arc<CameraCalibration>> {
        self.calibrations.get(input)?.as_ref()
    }

    /// Does what the detector can do with a message before its frame is complete. A message
    /// that cannot be processed is reported with its frame.
    pub fn prepare(&mut self, input: usize, message: &FrameInput<'_>) {
        let Some((detector, failures)) = self.supervisor.ready_now() else { return };
        let topic = self.config.inputs.get(input).map_or("", |input| input.topic.as_str());
        let span = trace_span!(target: FRAME_SPANS, "prepare", channel = self.config.name, topic);
        let _inside = span.enter();
        if let Err(error) = failures.note(detector.prepare(input, message)) {
            tracing::debug!("channel {}: {topic} is not prepared: {error}", self.config.name);
        }
    }

    /// If stamps started over since the last call: the last time that a pose of the new run can have.
    pub fn take_restart(&mut self) -> Option<Stamp> {
        self.stamps.take_restart()
    }

    /// Allows up to `num` frames between [`Channel::submit`] and [`Channel::collect`]; returns
    /// how many there can be: of one input as many as its detector can have. 1 means that a frame
    /// is collected before the next is submitted, as after a failure of the device until the
    /// detector is built again.
    pub fn allow_in_flight(&mut self, num: usize) -> usize {
        if num < 2 || self.needs.len() > 1 {
            return 1;
        }
        self.supervisor.ready_now().map_or(1, |(detector, _)| detector.allow_in_flight(num))
    }

    /// The number of frames in flight.
    pub fn num_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Begins a frame, whose inputs are in the order of the configuration, and returns once their
    /// payloads are no longer read. [`Channel::collect`] ends it. The stamp is that of the
    /// reference input.
    ///
    /// The poses that the detector uses are looked up in `transforms` and stored with their
    /// inputs. If the stamps start over, the detector is reset.
    ///
    /// # Errors
    /// Returns the errors of the detector, and `Argument` for a frame without its reference or with
    /// another kind of message. The frame is dropped; the channel remains usable. Frames in flight
    /// remain so and must be collected before the next call.
    pub fn submit(
        &mut self,
        inputs: &mut [Option<FrameInput<'_>>],
        transforms: Option<&TransformLookup<'_>>,
    ) -> Result<()> {
        let Self { config, supervisor, needs, target, stamps, .. } = self;
        let Self { sequence, corrections, in_flight, .. } = self;
        let mut header = check(config, needs, inputs)?;
        let sequence = std::mem::take(sequence);
        let order = stamps.note(header.stamp, sequence == Sequence::StartsOver);
        look_up_poses(needs, inputs, transforms);
        let mut target_pose = None;
        if let Some(TargetFrame { frame_id, pose_in }) = target {
            header.frame_id = frame_id;
            let lookup = transforms.zip(pose_in.as_deref());
            target_pose = lookup.map(|(lookup, world)| lookup(world, frame_id, header.stamp));
        }
        let (detector, failures) = supervisor.ready()?;
        if order == StampOrder::Restart || sequence == Sequence::Broken {
            failures.note(detector.reset())?;
        }
        let mut frame = in_flight.begin(&header, order);
        frame.span = trace_span!(
            target: FRAME_SPANS, "frame", channel = config.name, stamp = %header.stamp,
            detections = Empty
        );
        let span = frame.span.clone();
        let _inside = span.enter();
        frame.target_pose = target_pose;
        corrections.note(config, inputs, &mut frame.report);
        let num_missing = inputs.iter().filter(|input| input.is_none()).count();
        frame.report.add_count(Count::InputsMissing, num_missing);
        let target_pose = frame.target_pose.as_ref();
        let set = FrameSet { stamp: header.stamp, inputs, target_pose };
        let submitted = failures.note(detector.submit(&set, &mut frame.report));
        frame.degraded = take_unknown_pose(inputs).or_else(|| {
            let unknown = frame.target_pose.as_ref()?.as_ref().err()?;
            Some(Error::new(unknown.kind(), unknown.stage(), unknown.message()))
        });
        match submitted {
            Ok(()) => in_flight.push(frame),
            Err(_) => in_flight.reuse(frame),
        }
        submitted
    }

    /// Queues the work of the frame that was submitted last, where it waits for those of other
    /// channels ([`Detector::flush`]).
    pub fn flush(&mut self) {
        let Self { supervisor, in_flight, .. } = self;
        if let Some(((detector, _), frame)) = supervisor.in_use().zip(in_flight.last_mut()) {
            let _inside = frame.span.enter();
            detector.flush(&mut frame.report);
        }
    }

    /// Waits for the earliest frame in flight and returns its detections.
    ///
    /// # Errors
    /// The reason why that frame is dropped; the others in flight remain so. `Argument` when no
    /// frame is in flight.
    pub fn collect(&mut self) -> Result<ChannelFrame<'_>> {
        let Self { config, supervisor, in_flight, collected, .. } = self;
        if let Some(before) = collected.take() {
            in_flight.reuse(before);
        }
        let none = || Error::new(ErrorKind::Argument, "channel", "no frame is in flight");
        let frame = collected.insert(in_flight.pop().ok_or_else(none)?);
        let FrameInFlight { stamp, frame_id, order, target_pose, degraded, start, report, span } =
            frame;
        let span = std::mem::replace(span, Span::none()).entered();
        let (detector, failures) = supervisor.in_use().ok_or_else(|| {
            let lost = "the detector has ended, and the frame is lost with it";
            Error::new(ErrorKind::Device, "channel", lost)
        })?;
        let detections = failures.note(detector.collect(report))?;
        report.add_duration(Stage::Total, start.elapsed());
        span.record("detections", detections.len());
        // The best candidate of a frame survives every suppression: a frame with
        // any score above 1 has a detection with one.
        report.add_count(Count::ScoresOutOfRange, detections.num_scores_out_of_range());
        Ok(ChannelFrame {
            config,
            header: Header { stamp: *stamp, frame_id },
            detections,
            report,
            target_pose: target_pose.as_ref(),
            order: *order,
            degraded: degraded.take(),
        })
    }

    /// Sets the position of the next frame in the sequence. The detector is reset before a
    /// frame that does not follow the previous one.
    pub fn set_sequence(&mut self, sequence: Sequence) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Applies the parameters that may change between frames. While the device has failed, they
    /// are those of the detector that is built next.
    ///
    /// # Errors
    /// `Config` when `config` differs in others; then nothing changes.
    pub fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        // Failures to build a detector are reported with the state of the channel.
        if let Ok((detector, failures)) = self.supervisor.ready() {
            match failures.note(detector.reconfigure(config)) {
                Err(error) if !error.kind().is_of_device() => return Err(error),
                _ => {}
            }
        }
        self.supervisor.make_with(make_with(&self.factory, config));
        let in_force = self.detector_info().map(|info| info.in_force(config));
        self.config = in_force.unwrap_or_else(|| config.clone());
        Ok(())
    }

    /// Runs the networks once on an empty frame, so that the first frame is not slower than
    /// others. Keeps no state.
    ///
    /// # Errors
    /// Returns the errors of the detector.
    pub fn warm_up(&mut self) -> Result<()> {
        let (detector, failures) = self.supervisor.ready()?;
        failures.note(detector.warm_up())
    }
}

/// The function that builds the detector of a configuration.
fn make_with(
    factory: &Factory,
    config: &ChannelConfig,
) -> impl FnMut(DeviceChoice) -> Result<Box<dyn Detector>> + Send + use<> {
    let (factory, config) = (Arc::clone(factory), config.clone());
    move |device| factory(&config, device)
}
