//! Frames of a channel of a replay in flight: each is passed on with the inputs that it was
//! submitted with.

use std::ops::Range;
use std::sync::Arc;

use nalgebra::Isometry3;

use super::ReplayChannel;
use crate::detectors::{FrameInput, FrameSet, MAX_INPUTS};
use crate::error::{Error, ErrorKind, Result};
use crate::replay::context::{ReplayContext, lock};
use crate::replay::input::{ReplayInput, frame_input};
use crate::runtime::assembler::SharedMessage;
use crate::runtime::frame_messages::FrameMessages;
use crate::transport::bag::{BagMessage, Mapped, check_log_time};
use crate::transport::middleware::{InputKind, deliver};
use crate::types::{CameraCalibration, Stamp};

/// A message of the recording whose frame is in flight.
#[derive(Default)]
pub(super) struct SubmittedMessage {
    data: MessageData,
    /// Memory for a copy of the message, which is used again.
    copy: Vec<u8>,
    calibration: Option<Arc<CameraCalibration>>,
    pose: Option<Result<Isometry3<f64>>>,
}

/// Where the bytes of a message are.
#[derive(Default)]
enum MessageData {
    /// With the reader, until its next message.
    #[default]
    Lent,
    /// In a mapped file.
    Mapped(Mapped, Range<usize>),
    /// In the copy: the reader reuses its buffer.
    Copied,
}

/// The messages in buffers whose frame is in flight.
pub(super) struct SubmittedMessages {
    messages: FrameMessages,
    poses: Poses,
}

/// The poses of the sensors of a frame, by input.
type Poses = [Option<Result<Isometry3<f64>>>; MAX_INPUTS];

impl SubmittedMessages {
    /// Calls `work` with the inputs of the frame. The poses that it stores with them are those of
    /// the next call.
    ///
    /// # Errors
    /// Those of the views of the messages.
    fn with_inputs<T>(
        &mut self,
        work: impl FnOnce(&mut [Option<FrameInput<'_>>]) -> T,
    ) -> Result<T> {
        let Self { messages, poses } = self;
        let views = messages.views()?;
        let mut inputs = messages.inputs(&views);
        for (input, pose) in inputs.iter_mut().zip(poses.iter_mut()) {
            if let Some(input) = input {
                input.pose = pose.take();
            }
        }
        let done = work(&mut inputs[..messages.num_inputs()]);
        for (pose, input) in poses.iter_mut().zip(inputs) {
            *pose = input.and_then(|input| input.pose);
        }
        Ok(done)
    }
}

impl SubmittedMessage {
    /// Keeps the bytes of the message beyond the reader's loan, without a copy where they are in a
    /// mapped file.
    fn keep(&mut self, message: &BagMessage<'_>) {
        self.data = match message.place() {
            Some((file, place)) => MessageData::Mapped(file.clone(), place),
            None => {
                self.copy.clear();
                self.copy.extend_from_slice(message.data);
                MessageData::Copied
            }
        };
    }

    /// Calls `work` with the input of the frame, whose bytes are `lent` unless they are kept. The
    /// pose that it stores with the input is that of the next call.
    ///
    /// # Errors
    /// The reason why the message cannot be decoded.
    fn with_input<T>(
        &mut self,
        kind: InputKind,
        lent: &[u8],
        work: impl FnOnce(&mut [Option<FrameInput<'_>>]) -> T,
    ) -> Result<T> {
        let Self { data, copy, calibration, pose } = self;
        let data = match data {
            MessageData::Lent => lent,
            MessageData::Mapped(file, place) => file.get(place.clone()).unwrap_or_default(),
            MessageData::Copied => &copy[..],
        };
        let (mut work, mut done) = (Some(work), None);
        deliver(kind, data, &mut |received| {
            let Some(work) = work.take() else { return };
            done = Some(received.map(|received| {
                let calibration = calibration.as_deref();
                let input = frame_input(&received);
                let mut inputs =
                    [input.map(|input| FrameInput { calibration, pose: pose.take(), ..input })];
                let done = work(&mut inputs);
                let [input] = inputs;
                *pose = input.and_then(|input| input.pose);
                done
            }));
        });
        let none = || Err(Error::new(ErrorKind::Message, "replay", "not a sensor's message"));
        done.unwrap_or_else(none)
    }
}

impl ReplayChannel {
    /// The most frames in flight of the wanted number.
    pub(in crate::replay) fn max_in_flight(&mut self, wanted: usize) -> usize {
        self.channel.allow_in_flight(wanted).min(wanted)
    }

    /// The number of frames in flight.
    pub(in crate::replay) fn num_in_flight(&self) -> usize {
        self.channel.num_in_flight()
    }

    /// Submits the frame of a message of the one input. If `is_kept`, the frame may be collected
    /// after the next message of the recording, else before.
    ///
    /// # Errors
    /// The reason why the frame is dropped; it is not counted yet.
    pub(in crate::replay) fn submit(
        &mut self,
        message: &BagMessage<'_>,
        is_kept: bool,
        context: &ReplayContext<'_>,
    ) -> Result<()> {
        check_log_time(message.log_time)?;
        let mut submitted = self.spare.pop().unwrap_or_default();
        (submitted.data, submitted.pose) = (MessageData::Lent, None);
        submitted.calibration = self.calibration(0);
        let kind = self.single_kind();
        let feed = context.transforms.as_ref();
        let lookup = feed.map(|feed| |to: &str, from: &str, at| lock(feed).lookup(to, from, at));
        let lookup = lookup.as_ref().map(|lookup| lookup as _);
        let channel = &mut self.channel;
        let begun =
            submitted.with_input(kind, message.data, |inputs| channel.submit(inputs, lookup));
        let begun = begun.flatten();
        if begun.is_ok() {
            if is_kept {
                submitted.keep(message);
            }
            self.submitted.push_back(submitted);
        } else {
            self.spare.push(submitted);
        }
        self.forget_poses(context);
        begun
    }

    /// Submits a frame of messages in buffers, which is collected before the next one.
    ///
    /// # Errors
    /// The reason why the frame is dropped; it is not counted yet.
    pub(super) fn submit_messages(
        &mut self,
        messages: &[Option<SharedMessage>],
        context: &ReplayContext<'_>,
    ) -> Result<()> {
        let messages = FrameMessages::new(messages, self.calibrations());
        let mut messages = SubmittedMessages { messages, poses: [const { None }; MAX_INPUTS] };
        let feed = context.transforms.as_ref();
        let lookup = feed.map(|feed| |to: &str, from: &str, at| lock(feed).lookup(to, from, at));
        let lookup = lookup.as_ref().map(|lookup| lookup as _);
        let channel = &mut self.channel;
        let begun = messages.with_inputs(|inputs| channel.submit(inputs, lookup)).flatten();
        if begun.is_ok() {
            self.messages = Some(messages);
        }
        self.forget_poses(context);
        begun
    }

    /// Queues the work of the frame that was submitted last, where it waits for those of other
    /// channels.
    pub(in crate::replay) fn flush(&mut self) {
        self.channel.flush();
    }

    /// Collects the earliest frame in flight, which was due at `due`, and passes it on; `log_time`
    /// gives, once its objects are found, their time on the clock of the recording. `lent` is the
    /// data of the message that is processed.
    ///
    /// # Errors
    /// Those of [`Replay::run`](crate::replay::Replay::run)'s closure; nothing else ends the replay.
    pub(in crate::replay) fn end(
        &mut self,
        due: Stamp,
        log_time: &dyn Fn() -> Stamp,
        lent: &[u8],
        context: &ReplayContext<'_>,
    ) -> Result<()> {
        let kind = self.single_kind();
        let Self { index, channel, account, .. } = self;
        let mut messages = self.messages.take();
        let mut message = if messages.is_none() { self.submitted.pop_front() } else { None };
        let ended = match channel.collect() {
            Ok(_) if !context.owns(due) => Ok(Ok(())),
            Ok(frame) => {
                let pass_on = |inputs: &mut [Option<FrameInput<'_>>]| {
                    let (stamp, target_pose) = (frame.header.stamp, frame.target_pose);
                    account.add_times(stamp, inputs, Some(due));
                    let inputs = FrameSet { stamp, inputs, target_pose };
                    context.pass_on(*index, account, &frame, inputs, log_time)
                };
                match (&mut messages, &mut message) {
                    (Some(messages), _) => messages.with_inputs(pass_on),
                    (None, Some(message)) => message.with_input(kind, lent, pass_on),
                    (None, None) => Ok(Ok(())),
                }
            }
            Err(error) => Err(error),
        };
        if let Some(mut message) = message {
            message.data = MessageData::Lent;
            self.spare.push(message);
        }
        match ended {
            Ok(passed_on) => passed_on,
            Err(error) => self.drop_frame(&error, due, context),
        }
    }

    /// The kind of the messages of the first input.
    fn single_kind(&self) -> InputKind {
        self.inputs.first().map_or(InputKind::Image, |ReplayInput { kind, .. }| *kind)
    }

    /// Forgets the poses of the previous run if the stamps have started over.
    fn forget_poses(&mut self, context: &ReplayContext<'_>) {
        if let Some(latest) = self.channel.take_restart()
            && self.wants_transforms()
        {
            context.forget_after(latest);
        }
    }
}
