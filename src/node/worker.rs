//! The thread of a live channel: takes the newest frame, processes it, publishes
//! the detections, and takes the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::channel_state::{ChannelState, lock};
use super::clock::NodeClock;
use super::outputs::ChannelOutputs;
use super::transforms::LiveTransforms;
use crate::detectors::{FrameInput, MAX_INPUTS};
use crate::runtime::assembler::{Sequence, SharedMessage};
use crate::runtime::channel::{Channel, Served};
use crate::runtime::message_buffer::MessageBuffer;
use crate::runtime::slot::{SlotReader, Taken};
use det_post_types::{CameraCalibration, Error, ErrorKind, Result};

/// Tolerated lead of stamps over the node's clock, for clocks of two machines.
const FUTURE_TOLERANCE: Duration = Duration::from_millis(100);

/// A channel and its outputs, which move to the thread and back.
pub struct Worker {
    /// The channel.
    pub channel: Channel,
    /// Its publishers.
    pub outputs: ChannelOutputs,
    /// The frames in flight, earliest first.
    begun: VecDeque<Begun>,
}

/// When a frame began and when its message arrived.
#[derive(Clone, Copy)]
struct Begun {
    start: Instant,
    arrived: Option<Instant>,
}

/// What the frames of a channel are published with.
#[derive(Clone, Copy)]
struct Surroundings<'a> {
    state: &'a ChannelState,
    clock: &'a NodeClock,
    transforms: &'a LiveTransforms,
    /// Whether the channel uses transforms: only then its stamps and theirs are of one clock.
    wants_transforms: bool,
}

impl Worker {
    /// A channel and its publishers.
    pub fn new(channel: Channel, outputs: ChannelOutputs) -> Self {
        Self { channel, outputs, begun: VecDeque::new() }
    }

    /// Applies the pending configuration, if there is one.
    pub fn apply_pending(&mut self, state: &ChannelState, clock: &NodeClock) {
        let Some(config) = state.take_pending() else { return };
        let name = config.name.clone();
        let before = self.channel.config().kind.lowest_score_threshold();
        if let Err(error) = self.channel.reconfigure(&config) {
            tracing::error!("channel {name}: the parameters are not applied: {error}");
            return;
        }
        if before.to_bits() != self.channel.config().kind.lowest_score_threshold().to_bits() {
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
        let around = Surroundings { state, clock, transforms, wants_transforms };
        loop {
            let is_idle = self.begun.is_empty();
            let taken = if is_idle {
                let Some(taken) = slot.take() else { return self };
                self.apply_pending(state, clock);
                Some(taken)
            } else if state.has_pending() {
                None
            } else {
                slot.try_take()
            };
            match taken {
                Some(Taken::Frame { messages, sequence }) => {
                    self.channel.set_sequence(sequence);
                    let done = if self.is_skipping() {
                        self.skip(state);
                        Ok(())
                    } else if self.overlaps() {
                        self.begin(messages, around)
                    } else {
                        self.end_all(around);
                        self.process(messages, around)
                    };
                    if let Err(error) = done {
                        self.note_dropped(state, &error, 1);
                    }
                    self.forget_poses(around);
                }
                Some(Taken::Arrived { input, message }) => self.prepare(input, message, state),
                Some(Taken::Refused { error, num }) => self.note_dropped(state, &error, num),
                None => {}
            }
            if !is_idle {
                self.end(around);
            }
            lock(&state.frames).serving.refresh(&self.channel);
        }
    }

    /// Whether the next frame begins by [`Worker::begin`] and ends by [`Worker::end`].
    fn overlaps(&mut self) -> bool {
        let num = self.channel.config().live.frames_in_flight;
        num > 1
            && !self.outputs.show_inputs(self.channel.config())
            && self.channel.allow_in_flight(num) >= num
    }

    /// Begins a frame of one input.
    ///
    /// # Errors
    /// The reason why the frame is dropped; frames in flight are not affected.
    fn begin(
        &mut self,
        messages: &[Option<SharedMessage>],
        around: Surroundings<'_>,
    ) -> Result<()> {
        let Surroundings { state, clock, transforms, .. } = around;
        let start = Instant::now();
        let Some(message) = messages.first().and_then(Option::as_deref) else { return Ok(()) };
        self.check_age(clock.now().map(|now| now.seconds_since(message.stamp())), state)?;
        let view = message.view()?;
        let input = view.input_with(None);
        if let Some(watch) = state.inputs.first().and_then(|input| input.calibration.as_ref()) {
            lock(watch).note_image(&input);
        }
        let deadline = start + self.channel.config().live.transform_wait;
        let lookup = |to: &str, from: &str, at| transforms.lookup(to, from, at, deadline);
        self.channel.submit(&mut [Some(input)], Some(&lookup))?;
        self.channel.flush();
        self.begun.push_back(Begun { start, arrived: message.arrived() });
        Ok(())
    }

    /// Forgets the poses of the previous run if the stamps have started over.
    fn forget_poses(
        &mut self,
        Surroundings { transforms, wants_transforms, .. }: Surroundings<'_>,
    ) {
        if let Some(latest) = self.channel.take_restart()
            && wants_transforms
        {
            transforms.forget_after(latest);
        }
    }

    /// Ends the earliest frame in flight, if there is one, and publishes its detections.
    fn end(&mut self, around: Surroundings<'_>) {
        let Some(begun) = self.begun.pop_front() else { return };
        match self.channel.collect() {
            Some(Ok(served)) => publish(&mut self.outputs, &served, &[], begun, around),
            Some(Err(error)) => self.note_dropped(around.state, &error, 1),
            None => {}
        }
    }

    fn end_all(&mut self, around: Surroundings<'_>) {
        while !self.begun.is_empty() {
            self.end(around);
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
    /// `Stale` when the frame is older than the channel accepts.
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
        Err(Error::new(ErrorKind::Stale, "channel", message))
    }

    /// Processes a frame and publishes its detections.
    ///
    /// # Errors
    /// The reason why the frame is dropped.
    fn process(
        &mut self,
        messages: &[Option<SharedMessage>],
        around: Surroundings<'_>,
    ) -> Result<()> {
        let Surroundings { state, clock, transforms, .. } = around;
        let (start, now) = (Instant::now(), clock.now());
        let reference = messages.get(self.channel.config().sync.reference);
        let reference = reference.and_then(Option::as_deref);
        let stamp = reference.map(MessageBuffer::stamp).unwrap_or_default();
        self.check_age(now.map(|now| now.seconds_since(stamp)), state)?;
        let mut views = [const { None }; MAX_INPUTS];
        for (view, message) in views.iter_mut().zip(messages) {
            *view = message.as_deref().map(MessageBuffer::view).transpose()?;
        }
        let calibrations: [_; MAX_INPUTS] =
            std::array::from_fn(|index| self.calibration(index, state));
        let mut inputs = [const { None }; MAX_INPUTS];
        for ((input, view), calibration) in inputs.iter_mut().zip(&views).zip(&calibrations) {
            *input = view.as_ref().map(|view| view.input_with(calibration.as_deref()));
        }
        let inputs = &mut inputs[..messages.len()];
        let deadline = start + self.channel.config().live.transform_wait;
        let lookup = |to: &str, from: &str, at| transforms.lookup(to, from, at, deadline);
        let served = self.channel.process(inputs, Some(&lookup))?;
        lock(&state.frames).window.account.add_times(served.header.stamp, inputs, now);
        for (input, state) in inputs.iter().zip(&state.inputs) {
            if let (Some(input), Some(calibration)) = (input, &state.calibration) {
                lock(calibration).note_image(input);
            }
        }
        let begun = Begun { start, arrived: reference.and_then(MessageBuffer::arrived) };
        publish(&mut self.outputs, &served, inputs, begun, around);
        Ok(())
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
        if let Some(trace) = &state.trace {
            trace.add_dropped(name, error.kind().reason());
        }
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

/// Publishes the detections of a frame and what is shown of it, and counts it.
fn publish(
    outputs: &mut ChannelOutputs,
    served: &Served<'_>,
    inputs: &[Option<FrameInput<'_>>],
    Begun { start, arrived }: Begun,
    Surroundings { state, clock, .. }: Surroundings<'_>,
) {
    let published = outputs.publish(served);
    state.note_served(served, arrived, published);
    let ended = Instant::now();
    let processing = ended - start;
    let limits = served.config.live.processing_time;
    lock(&state.frames).processing.note(processing, limits, ended);
    let reported = outputs.report(served, processing, clock.now());
    for result in [reported, outputs.show(served, inputs)] {
        if let Err(error) = result {
            lock(&state.frames).count_unpublished(&served.config.name, &error);
        }
    }
}
