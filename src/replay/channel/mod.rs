//! One channel of a replay: messages of its inputs in, detections out.

mod accounting;
mod gpu;
mod kept;
mod submitted;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::config::ChannelConfig;
use crate::replay::context::ReplayContext;
use crate::replay::input::{CalibrationTopic, InputTopic, ReplayInput};
use crate::replay::unpacked::{Readable, Unpacked};
use crate::runtime::Factory;
use crate::runtime::account::Account;
use crate::runtime::channel::Channel;
use crate::runtime::frame_builder::{FrameBuilder, Sequence, SharedMessage, sole};
use crate::runtime::frame_messages::Calibrations;
use crate::runtime::message_buffer::MessageBuffer;
use crate::runtime::slot::Loss;
use det_post_ops::device::PayloadMemory;
use det_post_ros::bag::{BagMessage, TopicInfo, check_log_time};
use det_post_ros::middleware::{InputKind, deliver};
use det_post_types::{CameraCalibration, Result, Stamp};
use kept::{SubmittedMessage, SubmittedMessages};

/// A channel and where its messages come from and go to.
pub(super) struct ReplayChannel {
    /// Its place among the channels that run.
    index: usize,
    channel: Channel,
    inputs: Vec<ReplayInput>,
    /// Where messages of several inputs become frames.
    frames: Option<Frames>,
    account: Account,
    /// The messages whose frames are in flight, earliest first, of a channel with one input.
    submitted: VecDeque<SubmittedMessage>,
    /// The messages of the frame in flight that are in buffers.
    messages: Option<SubmittedMessages>,
    /// Memory of frames that are over, to be used again.
    spare: Vec<SubmittedMessage>,
    unpacked: Unpacked,
}

/// A frame of several inputs that is closed: when, and why it is refused.
pub(super) struct Closed {
    pub(super) at: Stamp,
    pub(super) usable: Result<()>,
}

struct Frames {
    builder: FrameBuilder,
    /// Of each input the buffer that is filled next.
    buffers: Vec<SharedMessage>,
    chosen: Vec<Option<SharedMessage>>,
}

impl ReplayChannel {
    /// Loads the networks of a channel, whose inputs are topics of the
    /// recording.
    ///
    /// # Errors
    /// `Config` when the channel cannot take the type of a topic, `Model` when a
    /// network cannot be loaded or does not fit.
    pub(super) fn open(
        index: usize,
        config: &ChannelConfig,
        topics: &[TopicInfo],
        factory: Factory,
    ) -> Result<Self> {
        let channel = Channel::with_factory(config, factory)?;
        let mut inputs = Vec::new();
        for (index, input) in config.inputs.iter().enumerate() {
            inputs.push(ReplayInput::find(&channel, index, input, topics)?);
        }
        let frames = (inputs.len() > 1).then(|| {
            let memory = || channel.payload_memory();
            let (builder, buffers) = FrameBuilder::new(&config.inputs, &config.sync, memory);
            Frames { builder, buffers, chosen: Vec::with_capacity(inputs.len()) }
        });
        let unpacked = Unpacked::new(channel.video_place());
        Ok(Self {
            index,
            channel,
            inputs,
            frames,
            account: Account::new(),
            submitted: VecDeque::new(),
            messages: None,
            spare: Vec::new(),
            unpacked,
        })
    }

    /// Its place among the channels that run.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Its configuration.
    pub(super) fn config(&self) -> &ChannelConfig {
        self.channel.config()
    }

    /// The topics that it reads.
    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        let inputs = self.channel.config().inputs.iter().map(|input| input.topic.as_str());
        inputs.chain(self.calibration_topics().map(|topic| topic.name.as_str()))
    }

    /// The topics of its cameras' calibrations.
    pub(super) fn calibration_topics(&self) -> impl Iterator<Item = &CalibrationTopic> {
        self.inputs.iter().filter_map(|input| input.calibration.as_ref())
    }

    /// Whether a message is to be given to [`Self::submit`] or [`Self::take`]: every message of
    /// the recording moves the time of frames of several inputs.
    pub(super) fn concerns(&self, message: &BagMessage<'_>) -> bool {
        let topic = Some(message.topic);
        self.frames.is_some()
            || self.inputs.iter().any(|input| {
                let calibration = input.calibration.as_ref().map(|topic| topic.number);
                input.topic.has(message) || calibration == topic
            })
    }

    /// The topics of images, which may be video: their names, numbers and kinds.
    pub(super) fn video_topics(&self) -> impl Iterator<Item = (&str, usize, InputKind)> {
        let inputs = self.channel.config().inputs.iter().zip(&self.inputs);
        inputs.filter_map(|(config, ReplayInput { topic, .. })| {
            let is_image = InputKind::IMAGES.contains(&topic.kind);
            topic.number.filter(|_| is_image).map(|number| (&*config.topic, number, topic.kind))
        })
    }

    /// Takes a message before the slice and its warm-up: video is decoded, calibrations are stored.
    pub(super) fn read_in(&mut self, message: &BagMessage<'_>) {
        let max_bytes = self.config().live.max_payload_bytes;
        for (index, input) in self.inputs.iter().enumerate() {
            if let Some(calibration) = &input.calibration {
                calibration.take(message);
            }
            if input.topic.number == Some(message.topic) {
                self.unpacked.skip(index, input.topic.kind, message.data, max_bytes);
            }
        }
    }

    /// Whether a message is a frame by itself, or is dropped as one.
    pub(super) fn is_frame(&self, message: &BagMessage<'_>) -> bool {
        let [ReplayInput { topic, .. }] = &self.inputs[..] else { return false };
        topic.has(message)
    }

    /// The newest calibrations of the cameras whose detector needs them.
    fn calibrations(&self) -> Calibrations {
        std::array::from_fn(|index| self.calibration(index))
    }

    fn calibration(&self, index: usize) -> Option<Arc<CameraCalibration>> {
        let of_file = || self.channel.calibration_of_file(index).cloned();
        self.inputs.get(index)?.calibration().or_else(of_file)
    }

    /// Whether messages are passed to [`Self::prepare`] when they arrive.
    pub(super) fn prepares(&self) -> bool {
        self.channel.prepares()
    }

    /// Prepares a message of a frame that is not complete yet.
    pub(super) fn prepare(&mut self, input: usize, message: &SharedMessage) {
        // An error of the view is that of its frame.
        let Ok(view) = message.view() else { return };
        let calibration = self.calibration(input);
        self.channel.prepare(input, &view.input_with(calibration.as_deref()));
    }

    /// Its inputs, in the order of the configuration.
    pub(super) fn inputs_mut(&mut self) -> &mut [ReplayInput] {
        &mut self.inputs
    }

    /// Runs the networks once, so that the first frame finds them warm.
    ///
    /// # Errors
    /// Returns the errors of the detector.
    pub(super) fn warm_up(&mut self) -> Result<()> {
        self.channel.warm_up()
    }

    /// Whether its detector asks for the poses of sensors.
    pub(super) fn wants_transforms(&self) -> bool {
        self.channel.wants_transforms()
    }

    /// Takes a message of the recording that is not a frame by itself: a calibration, or one of
    /// several inputs, which waits in frames until [`Self::close`]. A message that cannot be
    /// decoded is counted and named in the log.
    pub(super) fn take(&mut self, message: &BagMessage<'_>, context: &ReplayContext<'_>) {
        let input = self.inputs.iter().position(|input| input.topic.has(message));
        if let Err(error) = check_log_time(message.log_time) {
            if let Some(input) = input {
                self.refuse(input, &error, message.log_time, context);
            }
            return;
        }
        self.inputs.iter().filter_map(|input| input.calibration.as_ref()).for_each(|topic| {
            topic.take(message);
        });
        let Some(input) = input else { return };
        let InputTopic { kind, .. } = self.inputs[input].topic;
        if let Err(error) = self.inputs[input].topic.check_type(message) {
            return self.refuse(input, &error, message.log_time, context);
        }
        let mut unpacked = std::mem::take(&mut self.unpacked);
        let max_bytes = self.config().live.max_payload_bytes;
        match unpacked.of(input, kind, message.data, max_bytes) {
            Ok(readable) => self.receive(input, readable, message.log_time, context),
            Err(error) => self.refuse(input, &error, message.log_time, context),
        }
        self.unpacked = unpacked;
    }

    /// Keeps a message of several inputs, or counts why it cannot be used.
    fn receive(
        &mut self,
        input: usize,
        readable: Readable<'_>,
        log_time: Stamp,
        context: &ReplayContext<'_>,
    ) {
        match readable {
            Readable::Message(kind, data) => deliver(kind, data, &mut |received| {
                let fill = |buffer: &mut MessageBuffer| buffer.fill(&received?, usize::MAX);
                self.keep(input, fill, log_time, context);
            }),
            Readable::Picture(header, picture) => {
                let fill = |buffer: &mut MessageBuffer| buffer.swap_picture(&header, picture);
                self.keep(input, fill, log_time, context);
            }
        }
    }

    /// Keeps a message that `fill` writes, or counts its error.
    fn keep(
        &mut self,
        input: usize,
        fill: impl FnOnce(&mut MessageBuffer) -> Result<()>,
        log_time: Stamp,
        context: &ReplayContext<'_>,
    ) {
        match self.wait(input, fill, log_time) {
            Ok(()) => {
                let is_owned = context.owns(log_time);
                self.inputs[input].totals.num_received += u64::from(is_owned);
            }
            Err(error) => self.refuse(input, &error, log_time, context),
        }
    }

    /// Keeps a message for the frames of several inputs.
    fn wait(
        &mut self,
        input: usize,
        fill: impl FnOnce(&mut MessageBuffer) -> Result<()>,
        log_time: Stamp,
    ) -> Result<()> {
        let Some(Frames { builder, buffers, .. }) = &mut self.frames else { return Ok(()) };
        let buffer = &mut buffers[input];
        sole(buffer)
            .and_then(fill)
            .and_then(|()| builder.arrive(log_time, input, buffer))
            .and_then(|()| builder.exchange(input, buffer))
    }

    /// Closes the oldest frame of several inputs if it is due at `log_time`;
    /// [`Self::submit_closed`] must follow.
    pub(super) fn close(&mut self, log_time: Stamp) -> Option<Closed> {
        let Frames { builder, chosen, .. } = self.frames.as_mut()?;
        let (at, usable) = builder.close(log_time, chosen)?;
        self.channel.set_sequence(builder.take_sequence());
        Some(Closed { at, usable })
    }

    /// Submits the frame that was closed last, which is collected before the next one.
    ///
    /// # Errors
    /// The reason why the frame is dropped; it is not counted yet.
    pub(super) fn submit_closed(
        &mut self,
        usable: Result<()>,
        context: &ReplayContext<'_>,
    ) -> Result<()> {
        let Some(mut frames) = self.frames.take() else { return Ok(()) };
        let begun = usable.and_then(|()| self.submit_messages(&frames.chosen, context));
        frames.chosen.clear();
        self.frames = Some(frames);
        begun
    }

    /// Counts the messages that no frame of several inputs will contain, since the last call.
    pub(super) fn count_unused(&mut self, log_time: Stamp, context: &ReplayContext<'_>) {
        let Some(Frames { builder, .. }) = &mut self.frames else { return };
        for (index, input) in self.inputs.iter_mut().enumerate() {
            let num_unused = builder.take_unused(index);
            if context.owns(log_time) {
                input.totals.add_loss(Loss::Unused, num_unused);
            }
        }
    }

    /// Counts the messages that wait for a frame of several inputs at the end of the recording.
    pub(super) fn count_abandoned(&mut self) {
        let Some(Frames { builder, .. }) = &mut self.frames else { return };
        for (index, input) in self.inputs.iter_mut().enumerate() {
            input.totals.add_loss(Loss::Abandoned, builder.remove_all(index));
        }
    }

    /// Detects objects in the messages of a frame and passes them on; `log_time` gives the time on
    /// the clock of the recording.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub(super) fn process_messages(
        &mut self,
        messages: &[Option<SharedMessage>],
        log_time: &dyn Fn() -> Stamp,
        context: &ReplayContext<'_>,
    ) -> Result<()> {
        let due = log_time();
        match self.submit_messages(messages, context) {
            Ok(()) => self.end(due, log_time, &[], context),
            Err(error) => self.drop_frame(&error, due, context),
        }
    }

    /// A reader of its messages, which decodes video where the channel does.
    pub(super) fn unpacked(&self) -> Unpacked {
        Unpacked::new(self.channel.video_place())
    }

    /// Memory from which messages reach the device in the fewest copies.
    pub(super) fn payload_memory(&self) -> PayloadMemory {
        self.channel.payload_memory()
    }

    /// How the next frame relates to the ones before.
    pub(super) fn set_sequence(&mut self, sequence: Sequence) {
        self.channel.set_sequence(sequence);
    }

    /// The account of its frames.
    pub(super) fn account_mut(&mut self) -> &mut Account {
        &mut self.account
    }
}
