//! The thread of a live channel: takes the newest frame, processes it, publishes
//! the detections, and takes the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::channel_state::{ChannelState, lock};
use super::clock::NodeClock;
use super::outputs::ChannelOutputs;
use super::transforms::LiveTransforms;
use crate::detectors::FrameInput;
use crate::runtime::channel::{Channel, ChannelFrame};
use crate::runtime::frame_builder::{Sequence, SharedMessage};
use crate::runtime::frame_messages::FrameMessages;
use crate::runtime::message_buffer::MessageBuffer;
use crate::runtime::slot::{SlotEvent, SlotReader};
use det_post_types::{CameraCalibration, Error, ErrorKind, FRAME_SPANS, Result, Stamp};

/// Tolerated lead of stamps over the node's clock, for clocks of two machines.
const FUTURE_TOLERANCE: Duration = Duration::from_millis(100);

/// A channel and its outputs, which move to the thread and back.
pub struct Worker {
    /// The channel.
    pub channel: Channel,
    /// Its publishers.
    pub outputs: ChannelOutputs,
    /// The frames in flight, earliest first.
    in_flight: VecDeque<InFlightFrame>,
}

/// What a frame in flight is published with.
struct InFlightFrame {
    start: Instant,
    /// The time of the node when it began, where it is known.
    begun_at: Option<Stamp>,
    /// When its reference message arrived.
    arrived: Option<Instant>,
    messages: FrameMessages,
}

/// What the frames of a channel are processed and published with.
#[derive(Clone, Copy)]
struct FrameContext<'a> {
    state: &'a ChannelState,
    clock: &'a NodeClock,
    transforms: &'a LiveTransforms,
    /// Whether the channel uses transforms: only then its stamps and theirs are of one clock.
    wants_transforms: bool,
}

impl Worker {
    /// A channel and its publishers.
    pub fn new(channel: Channel, outputs: ChannelOutputs) -> Self {
        Self { channel, outputs, in_flight: VecDeque::new() }
    }

    /// Applies the pending configuration, if there is one.
    pub fn apply_pending(&mut self, state: &ChannelState, clock: &NodeClock) {
        let Some(config) = state.take_pending() else { return };
        let name = config.name.clone();
        let labels = |channel: &Channel| {
            let kind = &channel.config().kind;
            (kind.lowest_score_threshold().to_bits(), kind.class_names().to_vec())
        };
        let before = labels(&self.channel);
        if let Err(error) = self.channel.reconfigure(&config) {
            tracing::error!("channel {name}: the parameters are not applied: {error}");
            return;
        }
        if before != labels(&self.channel) {
            self.note_failure(state, |worker| {
                let now = clock.now().unwrap_or_default();
                worker.outputs.publish_labels(worker.channel.config(), now)
            });
        }
    }

    /// Processes frames until the slot is closed. The frames in flight are finished.
    ///
    /// With `frames_in_flight: 2` a frame that waits begins before the one in flight ends.
    #[must_use]
    pub fn run(
        mut self: Box<Self>,
        mut slot: SlotReader,
        state: &ChannelState,
        clock: &NodeClock,
        transforms: &LiveTransforms,
    ) -> Box<Self> {
        let wants_transforms = self.channel.wants_transforms();
        let context = FrameContext { state, clock, transforms, wants_transforms };
        loop {
            let event = if self.in_flight.is_empty() {
                let Some(event) = slot.take() else { return self };
                self.apply_pending(state, clock);
                Some(event)
            } else if state.has_pending() {
                None
            } else {
                slot.try_take()
            };
            let mut is_submitted = false;
            match event {
                Some(SlotEvent::Frame { messages, sequence }) => {
                    self.channel.set_sequence(sequence);
                    if self.is_skipping() {
                        self.skip(state);
                    } else {
                        while self.in_flight.len() >= self.max_in_flight() {
                            self.end(context);
                        }
                        let submitted = self.submit(messages, context);
                        is_submitted = submitted.is_ok();
                        if let Err(error) = submitted {
                            self.note_dropped(state, &error, 1);
                        }
                        self.forget_poses(context);
                    }
                }
                Some(SlotEvent::Arrived { input, message }) => self.prepare(input, message, state),
                Some(SlotEvent::Refused { error, num }) => self.note_dropped(state, &error, num),
                None => {}
            }
            if !is_submitted || self.in_flight.len() >= self.max_in_flight() {
                self.end(context);
            }
            lock(&state.frames).serving.refresh(&self.channel);
        }
    }

    /// The most frames in flight: 1 while the detector has to be built again.
    fn max_in_flight(&mut self) -> usize {
        let num = self.channel.config().live.frames_in_flight;
        self.channel.allow_in_flight(num).min(num)
    }

    /// Submits a frame; [`Worker::end`] publishes its detections.
    ///
    /// # Errors
    /// The reason why the frame is dropped; frames in flight are not affected.
    fn submit(
        &mut self,
        messages: &[Option<SharedMessage>],
        context: FrameContext<'_>,
    ) -> Result<()> {
        let FrameContext { state, clock, transforms, .. } = context;
        let (start, begun_at) = (Instant::now(), clock.now());
        let reference = messages.get(self.channel.config().sync.reference);
        let reference = reference.and_then(Option::as_deref);
        let stamp = reference.map(MessageBuffer::stamp).unwrap_or_default();
        self.check_age(begun_at.map(|now| now.seconds_since(stamp)), state)?;
        let calibrations = std::array::from_fn(|index| self.calibration(index, state));
        let messages = FrameMessages::new(messages, calibrations);
        let deadline = start + self.channel.config().live.transform_wait;
        let lookup = |to: &str, from: &str, at| transforms.lookup(to, from, at, deadline);
        {
            let views = messages.views()?;
            let inputs = &mut messages.inputs(&views)[..messages.num_inputs()];
            self.channel.submit(inputs, Some(&lookup))?;
        }
        self.channel.flush();
        let arrived = reference.and_then(MessageBuffer::arrived);
        self.in_flight.push_back(InFlightFrame { start, begun_at, arrived, messages });
        Ok(())
    }

    /// Forgets the poses of the previous run if the stamps have started over.
    fn forget_poses(&mut self, context: FrameContext<'_>) {
        if let Some(latest) = self.channel.take_restart()
            && context.wants_transforms
        {
            context.transforms.forget_after(latest);
        }
    }

    /// Ends the earliest frame in flight, if there is one, and publishes its detections.
    fn end(&mut self, context: FrameContext<'_>) {
        let Some(ended) = self.in_flight.pop_front() else { return };
        let Self { channel, outputs, .. } = self;
        let published =
            channel.collect().and_then(|frame| publish(outputs, &frame, &ended, context));
        if let Err(error) = published {
            self.note_dropped(context.state, &error, 1);
        }
    }

    /// Whether frames are not processed.
    fn is_skipping(&self) -> bool {
        let live = &self.channel.config().live;
        !live.is_enabled || (live.is_idle_without_subscribers && !self.outputs.have_subscribers())
    }

    /// Counts a frame that is not processed. The next one does not follow the previous one.
    fn skip(&mut self, state: &ChannelState) {
        lock(&state.frames).window.num_skipped += 1;
        state.inputs.iter().for_each(|input| lock(&input.account).note_output());
        self.channel.set_sequence(Sequence::Broken);
    }

    /// Records the age of a frame, `None` when the time is unknown.
    ///
    /// # Errors
    /// `TooOld` when the frame is older than the channel accepts.
    fn check_age(&self, age_s: Option<f64>, state: &ChannelState) -> Result<()> {
        let is_future = age_s.is_some_and(|age| age < -FUTURE_TOLERANCE.as_secs_f64());
        {
            let mut frames = lock(&state.frames);
            frames.window.age_s = age_s;
            frames.window.num_future += u64::from(is_future);
        }
        let max_age = self.channel.config().live.max_age;
        let (Some(age), Some(max_age)) = (age_s, max_age) else { return Ok(()) };
        if age <= max_age.as_secs_f64() {
            return Ok(());
        }
        let message =
            format!("frame age {age:.3} s exceeds max_age_s = {:.3} s", max_age.as_secs_f64());
        Err(Error::new(ErrorKind::TooOld, "channel", message))
    }

    /// Prepares a message of a frame that is not complete yet.
    fn prepare(&mut self, input: usize, message: &SharedMessage, state: &ChannelState) {
        // An error of the view is that of its frame.
        let Ok(view) = message.view() else { return };
        let calibration = self.calibration(input, state);
        self.channel.prepare(input, &view.input_with(calibration.as_deref()));
    }

    /// The newest calibration of a camera whose detector needs it.
    fn calibration(&self, index: usize, state: &ChannelState) -> Option<Arc<CameraCalibration>> {
        if !self.channel.wants_calibration(index) {
            return None;
        }
        let watch = state.inputs.get(index)?.calibration.as_ref();
        let newest = watch.and_then(|watch| lock(watch).newest());
        newest.or_else(|| self.channel.calibration_of_file(index).cloned())
    }

    /// Counts dropped frames. The first with a reason is logged as a warning.
    fn note_dropped(&self, state: &ChannelState, error: &Error, num: u64) {
        let name = &self.channel.config().name;
        tracing::trace!(target: FRAME_SPANS, channel = name, dropped = error.kind().reason());
        match lock(&state.frames).window.account.add_dropped(error, num) {
            1 => tracing::warn!("channel {name}: frame dropped: {error}"),
            count => tracing::debug!("channel {name}: frame dropped ({count}): {error}"),
        }
    }

    fn note_failure(
        &mut self,
        state: &ChannelState,
        publish: impl FnOnce(&mut Self) -> Result<()>,
    ) {
        if let Err(error) = publish(self) {
            lock(&state.frames).count_unpublished(&self.channel.config().name, &error);
        }
    }
}

/// Notes the times and the sizes of the inputs of a frame.
fn note_inputs(
    frame: &ChannelFrame<'_>,
    inputs: &[Option<FrameInput<'_>>],
    begun_at: Option<Stamp>,
    state: &ChannelState,
) {
    let mut frames = lock(&state.frames);
    frames.window.account.add_times(frame.header.stamp, inputs, begun_at);
    frames.window.account.add_clouds(frame.report);
    drop(frames);
    for (input, state) in inputs.iter().zip(&state.inputs) {
        if let (Some(input), Some(calibration)) = (input, &state.calibration) {
            lock(calibration).note_image(input);
        }
    }
}

/// Publishes the detections of a frame and what is shown of it, and counts it.
///
/// # Errors
/// Returns the errors of the views of its messages, which passed when it was submitted.
fn publish(
    outputs: &mut ChannelOutputs,
    frame: &ChannelFrame<'_>,
    InFlightFrame { start, begun_at, arrived, messages }: &InFlightFrame,
    FrameContext { state, clock, .. }: FrameContext<'_>,
) -> Result<()> {
    let views = messages.views()?;
    let inputs = &messages.inputs(&views)[..messages.num_inputs()];
    note_inputs(frame, inputs, *begun_at, state);
    let published = outputs.publish(frame);
    state.note_served(frame, *arrived, published);
    let ended = Instant::now();
    let processing = ended - *start;
    let limits = frame.config.live.processing_time;
    lock(&state.frames).processing.note(processing, limits, ended);
    let reported = outputs.report(frame, processing, clock.now());
    for result in [reported, outputs.show(frame, inputs)] {
        if let Err(error) = result {
            lock(&state.frames).count_unpublished(&frame.config.name, &error);
        }
    }
    Ok(())
}
