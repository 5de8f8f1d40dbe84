//! Frames of a channel of a replay in flight: each is passed on with the inputs that it was
//! submitted with.

use super::ReplayChannel;
use super::kept::SubmittedMessages;
use crate::detectors::{FrameInput, FrameSet};
use crate::replay::context::{ReplayContext, lock};
use crate::runtime::frame_builder::SharedMessage;
use crate::runtime::frame_messages::FrameMessages;
use det_post_ros::bag::{BagMessage, check_log_time};
use det_post_ros::middleware::InputKind;
use det_post_types::{Result, Stamp};

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
        self.inputs.first().map_or(Ok(()), |input| input.topic.check_type(message))?;
        let spare = self.spare.pop().unwrap_or_default();
        let mut submitted = spare.lent(self.calibration(0));
        let feed = context.transforms.as_ref();
        let lookup = feed.map(|feed| |to: &str, from: &str, at| lock(feed).lookup(to, from, at));
        let lookup = lookup.as_ref().map(|lookup| lookup as _);
        let kind = self.single_kind();
        let Self { channel, unpacked, .. } = self;
        let max_bytes = channel.config().live.max_payload_bytes;
        let begun = submitted
            .unpack(kind, message.data, unpacked, max_bytes)
            .and_then(|()| {
                submitted.with_input(kind, message.data, |inputs| channel.submit(inputs, lookup))
            })
            .flatten();
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
        let mut messages = SubmittedMessages::new(messages);
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
    /// Returns the errors of [`Replay::run`](crate::replay::Replay::run)'s closure; nothing else
    /// ends the replay.
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
                    account.add_clouds(frame.report);
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
        self.spare.extend(message.map(|message| message.lent(None)));
        match ended {
            Ok(passed_on) => passed_on,
            Err(error) => self.drop_frame(&error, due, context),
        }
    }

    /// The kind of the messages of the first input, as they are recorded.
    fn single_kind(&self) -> InputKind {
        self.inputs.first().map_or(InputKind::Image, |input| input.topic.kind)
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
