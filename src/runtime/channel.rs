//! A channel: frames in, detections out. Replay and the live node run the same.

use std::sync::Arc;
use std::time::Instant;

use nalgebra::Isometry3;

use super::Factory;
use super::assembler::Sequence;
use super::stamps::{StampOrder, StampWatch};
use super::supervisor::{Health, Supervisor};
use crate::config::ChannelConfig;
use crate::detectors::{Detector, DetectorInfo, FrameInput, FrameSet, InputNeeds, PayloadKind};
use crate::device::PayloadMemory;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::middleware::{InputKind, Received};
use crate::types::{
    Count, Detections, DeviceChoice, FrameReport, Header, OutputType, Stage, Stamp,
};

/// A channel whose networks are loaded.
pub struct Channel {
    config: ChannelConfig,
    factory: Factory,
    supervisor: Supervisor,
    needs: Vec<InputNeeds>,
    stamps: StampWatch,
    /// How the next frame stands to the ones before.
    sequence: Sequence,
    report: FrameReport,
}

/// Where a frame of coordinates stood in another at a time: `(target, source,
/// stamp)` to `target_from_source`.
pub type TransformLookup<'a> = dyn Fn(&str, &str, Stamp) -> Result<Isometry3<f64>> + 'a;

/// The result of a frame. Valid until the next.
#[derive(Debug)]
pub struct Served<'a> {
    /// The configuration in force.
    pub config: &'a ChannelConfig,
    /// Time and coordinate frame of the detections: those of the reference input.
    pub header: Header<'a>,
    /// The detections.
    pub detections: Detections<'a>,
    /// Durations and losses.
    pub report: &'a FrameReport,
    /// How the stamp stands to the one before.
    pub order: StampOrder,
    /// Why the first pose that was asked for is not known: the frame was
    /// processed without it.
    pub degraded: Option<Error>,
}

impl Channel {
    /// Opens the device and loads the networks.
    ///
    /// # Errors
    /// Those of [`super::open_detector`], and `Config` when the detector takes
    /// another number of inputs than the channel has.
    pub fn open(config: &ChannelConfig) -> Result<Self> {
        Self::with_factory(config, Arc::new(super::open_detector))
    }

    /// As [`Channel::open`], with another way to make its detector.
    ///
    /// # Errors
    /// Those of `factory`, and `Config` as above.
    pub fn with_factory(config: &ChannelConfig, factory: Factory) -> Result<Self> {
        let ChannelConfig { name, device, failures, .. } = config;
        let make = make_with(&factory, config);
        let supervisor = Supervisor::new(name, *device, *failures, make)?;
        let needs = supervisor.detector().map_or(Vec::new(), |made| made.inputs().to_vec());
        if needs.len() != config.inputs.len() {
            let (found, wanted) = (config.inputs.len(), needs.len());
            let message = format!("{name} has {found} inputs, its detector takes {wanted}");
            return Err(Error::new(ErrorKind::Config, "channel", message));
        }
        Ok(Self {
            config: config.clone(),
            factory,
            supervisor,
            needs,
            stamps: StampWatch::default(),
            sequence: Sequence::Follows,
            report: FrameReport::new(),
        })
    }

    /// The messages of an input, given the name of their type.
    ///
    /// # Errors
    /// `Config` when the detector does not take that type there.
    pub fn input_kind(&self, input: usize, type_name: &str) -> Result<InputKind> {
        let (takes, kinds) = match self.needs.get(input).map(|needs| needs.kind) {
            Some(PayloadKind::Image) => {
                ("images", &[InputKind::Image, InputKind::CompressedImage][..])
            }
            Some(PayloadKind::Cloud) => ("point clouds", &[InputKind::PointCloud2][..]),
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

    /// The messages that a live input carries.
    pub fn live_input_kind(&self, input: usize) -> InputKind {
        let is_compressed = self.config.inputs.get(input).is_some_and(|input| input.is_compressed);
        match self.needs.get(input).map(|needs| needs.kind) {
            Some(PayloadKind::Cloud) => InputKind::PointCloud2,
            _ if is_compressed => InputKind::CompressedImage,
            _ => InputKind::Image,
        }
    }

    /// Its configuration.
    pub fn config(&self) -> &ChannelConfig {
        &self.config
    }

    /// How it is doing, and how often its device has failed so far.
    pub fn health(&self) -> (Health, u64) {
        (self.supervisor.health(), self.supervisor.num_failures())
    }

    /// The last failure of its device, in words.
    pub fn last_failure(&self) -> Option<&str> {
        self.supervisor.last_failure()
    }

    /// Where and by what its frames are processed; `None` while the device has
    /// failed.
    pub fn detector_info(&self) -> Option<&DetectorInfo> {
        self.supervisor.detector().map(Detector::info)
    }

    /// Memory from which payloads reach the device in the fewest copies.
    pub fn payload_memory(&self) -> PayloadMemory {
        self.supervisor.detector().map(Detector::payload_memory).unwrap_or_default()
    }

    /// The message that its detections are published as.
    pub fn output_type(&self) -> OutputType {
        self.config.output_type
    }

    /// Whether its detector asks for the pose of a sensor.
    pub fn wants_transforms(&self) -> bool {
        self.needs.iter().any(|needs| needs.pose_in.is_some())
    }

    /// Whether its detector asks for the calibration of an input's camera.
    pub fn wants_calibration(&self, input: usize) -> bool {
        self.needs.get(input).is_some_and(|needs| needs.calibration)
    }

    /// Finds the objects of a frame, whose inputs are in the order of the
    /// configuration. The reference input gives the stamp.
    ///
    /// `transforms` is asked for the poses that the detector wants; each answer
    /// is stored with its input. When the stamps start over, the detector
    /// forgets the past.
    ///
    /// # Errors
    /// Those of the detector, and `Argument` for a frame without its reference
    /// or with another kind of message. The frame is dropped, the channel stays
    /// usable.
    pub fn process<'a, 'm: 'a>(
        &'a mut self,
        inputs: &mut [Option<FrameInput<'m>>],
        transforms: Option<&TransformLookup<'_>>,
    ) -> Result<Served<'a>> {
        let Self { config, supervisor, needs, stamps, sequence, report, .. } = self;
        let header = check(config, needs, inputs)?;
        let sequence = std::mem::take(sequence);
        let order = stamps.note(header.stamp, sequence == Sequence::StartsOver);
        look_up_poses(needs, inputs, transforms);
        *report = FrameReport::new();
        let (detector, failures) = supervisor.ready()?;
        if order == StampOrder::Restart || sequence == Sequence::Broken {
            failures.note(detector.reset())?;
        }
        let start = Instant::now();
        let frame = FrameSet { stamp: header.stamp, inputs };
        let detections = failures.note(detector.detect(&frame, report))?;
        report.add_duration(Stage::Total, start.elapsed());
        // The best candidate of a frame survives every suppression: a frame with
        // any score above 1 has a detection with one.
        report.add_count(Count::ScoresOutOfRange, detections.num_scores_out_of_range());
        let degraded = inputs.iter_mut().flatten().find_map(|i| i.pose.take()?.err());
        Ok(Served { config, header, detections, report, order, degraded })
    }

    /// How the next frame stands to the ones before. Where it does not follow
    /// them, the detector forgets the past first.
    pub fn set_sequence(&mut self, sequence: Sequence) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Takes over what may change between frames.
    ///
    /// # Errors
    /// `Config`, and nothing changes, when `config` differs in more than that.
    pub fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let (detector, failures) = self.supervisor.ready()?;
        failures.note(detector.reconfigure(config))?;
        self.supervisor.make_with(make_with(&self.factory, config));
        self.config = config.clone();
        Ok(())
    }

    /// Runs the networks once on an empty frame, so that the first real one
    /// finds them warm. Leaves no trace.
    ///
    /// # Errors
    /// Those of the detector.
    pub fn warm_up(&mut self) -> Result<()> {
        let (detector, failures) = self.supervisor.ready()?;
        failures.note(detector.warm_up())
    }
}

/// How a channel of this configuration makes its detector, again after a
/// failure.
fn make_with(
    factory: &Factory,
    config: &ChannelConfig,
) -> impl FnMut(DeviceChoice) -> Result<Box<dyn Detector>> + Send + use<> {
    let (factory, config) = (Arc::clone(factory), config.clone());
    move |device| factory(&config, device)
}

/// The header of the reference, once every input is what the detector takes.
fn check<'a>(
    config: &ChannelConfig,
    needs: &[InputNeeds],
    inputs: &[Option<FrameInput<'a>>],
) -> Result<Header<'a>> {
    let refuse = |what: &str| {
        let message = format!("{} was given {what}", config.name);
        Error::new(ErrorKind::Argument, "channel", message)
    };
    let is_taken = |(needs, input): (&InputNeeds, &Option<FrameInput<'_>>)| {
        input.as_ref().is_none_or(|input| input.payload.kind() == needs.kind)
    };
    if inputs.len() != needs.len() || !needs.iter().zip(inputs).all(is_taken) {
        return Err(refuse("a message of another sensor"));
    }
    let reference = inputs.get(config.sync.reference).and_then(Option::as_ref);
    reference.map(|input| input.header).ok_or_else(|| refuse("a frame without its reference"))
}

/// Stores the poses that the detector asks for with their inputs.
fn look_up_poses(
    needs: &[InputNeeds],
    inputs: &mut [Option<FrameInput<'_>>],
    transforms: Option<&TransformLookup<'_>>,
) {
    let Some(lookup) = transforms else { return };
    for (needs, input) in needs.iter().zip(inputs) {
        if let (Some(world), Some(input)) = (&needs.pose_in, input) {
            input.pose = Some(lookup(world, input.header.frame_id, input.header.stamp));
        }
    }
}

/// A message of a sensor as an input of a frame; `None` for any other.
pub fn frame_input<'a>(message: &Received<'a>) -> Option<FrameInput<'a>> {
    match *message {
        Received::Picture { header, payload } => Some(FrameInput::image(header, payload)),
        Received::Cloud { header, view } => Some(FrameInput::cloud(header, view)),
        Received::CameraInfo(_) | Received::Transform { .. } | Received::Clock(_) => None,
    }
}
