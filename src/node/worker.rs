//! The thread of a live channel: takes the newest frame, processes it, publishes
//! the detections, and takes the next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::autoware_status::ProcessingTimes;
use super::calibration::{CalibrationSummary, CalibrationWatch};
use super::clock::NodeClock;
use super::frame_window::{FrameSummary, FrameWindow};
use super::outputs::ChannelOutputs;
use super::transforms::LiveTransforms;
use crate::config::ChannelConfig;
use crate::detectors::MAX_INPUTS;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::account::Reason;
use crate::runtime::assembler::{Sequence, SharedMessage};
use crate::runtime::channel::{Channel, Served};
use crate::runtime::input::{InputAccount, InputSummary};
use crate::runtime::message_buffer::MessageBuffer;
use crate::runtime::serving::Serving;
use crate::runtime::slot::{SlotReader, Taken};
use crate::runtime::stamps::StampOrder;
use crate::runtime::trace::{Trace, TracedFrame};
use crate::types::{CameraCalibration, Stamp};

/// Tolerated lead of stamps over the node's clock, for clocks of two machines.
const FUTURE_TOLERANCE: Duration = Duration::from_millis(100);

/// Maximum lead of poses over the sweep that they belong to.
const POSE_LEAD_NS: i64 = 1_000_000_000;

/// A channel and its outputs, which move to the thread and back.
pub struct Worker {
    /// The channel.
    pub channel: Channel,
    /// Its publishers.
    pub outputs: ChannelOutputs,
}

/// The state of a channel that the threads of the node share.
pub struct ChannelState {
    /// Its inputs.
    pub inputs: Vec<InputState>,
    frames: Mutex<Frames>,
    trace: Option<Arc<Trace>>,
    /// A configuration to apply before the next frame.
    pending: Mutex<Option<ChannelConfig>>,
    has_pending: AtomicBool,
}

/// The state of an input that the threads of the node share.
pub struct InputState {
    /// Account of its messages.
    pub account: Mutex<InputAccount>,
    /// What its CameraInfo is beside its pictures, where that is asked for.
    pub calibration: Option<Mutex<CalibrationWatch>>,
}

impl InputState {
    /// An input without messages so far.
    pub fn new(now: Instant, calibration: Option<CalibrationWatch>) -> Self {
        Self {
            account: Mutex::new(InputAccount::new(now)),
            calibration: calibration.map(Mutex::new),
        }
    }

    /// Starts over when the input is subscribed again. Totals remain.
    pub fn reopen(&self, now: Instant) {
        lock(&self.account).reopen(now);
        if let Some(calibration) = &self.calibration {
            lock(calibration).input.reopen(now);
        }
    }

    /// The summaries since the last call.
    pub fn summaries(&self, now: Instant) -> (InputSummary, Option<CalibrationSummary>) {
        let calibration = self.calibration.as_ref().map(|watch| lock(watch).summary(now));
        (lock(&self.account).look(now), calibration)
    }
}

struct Frames {
    window: FrameWindow,
    serving: Serving,
    last_output: Option<Instant>,
    num_out: u64,
    unpublished: Option<Reason>,
    processing: ProcessingTimes,
}

impl ChannelState {
    /// A channel without frames so far.
    pub fn new(inputs: Vec<InputState>, serving: Serving, trace: Option<Arc<Trace>>) -> Self {
        let window = FrameWindow::new();
        let (last_output, unpublished) = (None, None);
        let processing = ProcessingTimes::default();
        let frames = Frames { window, serving, last_output, num_out: 0, unpublished, processing };
        Self {
            inputs,
            frames: Mutex::new(frames),
            trace,
            pending: Mutex::new(None),
            has_pending: AtomicBool::new(false),
        }
    }

    /// Applies a configuration before the next frame.
    pub fn reconfigure(&self, config: &ChannelConfig) {
        *lock(&self.pending) = Some(config.clone());
        self.has_pending.store(true, Ordering::Release);
    }

    /// The time per frame.
    pub fn processing_times(&self) -> ProcessingTimes {
        lock(&self.frames).processing
    }

    /// Swaps the window since the last call into `window`, whose memory is reused,
    /// and returns the totals.
    pub fn summary(&self, window: &mut FrameWindow) -> FrameSummary {
        window.reset();
        let mut frames = lock(&self.frames);
        std::mem::swap(&mut frames.window, window);
        FrameSummary {
            serving: frames.serving.clone(),
            last_output: frames.last_output,
            num_out: frames.num_out,
            unpublished: frames.unpublished.clone(),
        }
    }
}

impl Worker {
    /// Applies the pending configuration, if there is one.
    pub fn apply_pending(&mut self, state: &ChannelState, clock: &NodeClock) {
        if !state.has_pending.swap(false, Ordering::Acquire) {
            return;
        }
        let Some(config) = lock(&state.pending).take() else { return };
        let name = config.name.clone();
        let before = self.channel.config().kind.lowest_score_threshold();
        if let Err(error) = self.channel.reconfigure(&config) {
            tracing::error!("channel {name}: the parameters are not applied: {error}");
            return;
        }
        if before.to_bits() != config.kind.lowest_score_threshold().to_bits() {
            self.note_failure(state, |worker| {
                worker.outputs.publish_labels(&config, clock.now().unwrap_or_default())
            });
        }
    }

    /// Processes frames until the slot is closed. The frame in flight is finished.
    #[must_use]
    pub fn run(
        mut self: Box<Self>,
        mut slot: SlotReader,
        state: &ChannelState,
        clock: &NodeClock,
        transforms: &LiveTransforms,
    ) -> Box<Self> {
        while let Some(taken) = slot.take() {
            self.apply_pending(state, clock);
            match taken {
                Taken::Frame { messages, sequence } => {
                    self.channel.set_sequence(sequence);
                    if self.is_skipping() {
                        self.skip(state);
                    } else if let Err(error) = self.process(messages, clock, state, transforms) {
                        self.note_dropped(state, &error, 1);
                    }
                }
                Taken::Arrived { input, message } => self.prepare(input, message, state),
                Taken::Refused { error, num } => self.note_dropped(state, &error, num),
            }
            lock(&state.frames).serving.refresh(&self.channel);
        }
        self
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
            format!("frame is {age:.3} s old, {:.3} s is the most", max_age.as_secs_f64());
        Err(Error::new(ErrorKind::Stale, "channel", message))
    }

    /// Processes a frame and publishes its detections.
    ///
    /// # Errors
    /// The reason why the frame is dropped.
    fn process(
        &mut self,
        messages: &[Option<SharedMessage>],
        clock: &NodeClock,
        state: &ChannelState,
        transforms: &LiveTransforms,
    ) -> Result<()> {
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
        let timeout = self.channel.config().live.transform_wait;
        let lookup = |to: &str, from: &str, at| transforms.lookup(to, from, at, timeout);
        let served = self.channel.process(inputs, Some(&lookup))?;
        lock(&state.frames).window.account.add_times(served.header.stamp, inputs, now);
        for (input, state) in inputs.iter().zip(&state.inputs) {
            if let (Some(input), Some(calibration)) = (input, &state.calibration) {
                lock(calibration).note_image(input);
            }
        }
        if served.order == StampOrder::Restart {
            let name = &served.config.name;
            let stamp = served.header.stamp;
            tracing::warn!("channel {name}: stamps start over at {stamp}: the history is cleared");
            let latest = stamp.nanos().saturating_add(POSE_LEAD_NS);
            transforms.forget_after(Stamp::from_nanos(latest));
        }
        let published = self.outputs.publish(&served);
        let arrived = reference.and_then(MessageBuffer::arrived);
        note_served(state, &served, arrived, published);
        let ended = Instant::now();
        let processing = ended - start;
        let limits = served.config.live.processing_time;
        lock(&state.frames).processing.note(processing, limits, ended);
        let reported = self.outputs.report(&served, processing, clock.now());
        for result in [reported, self.outputs.show(&served, inputs)] {
            if let Err(error) = result {
                count_unpublished(&mut lock(&state.frames), &served.config.name, &error);
            }
        }
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
            count_unpublished(&mut lock(&state.frames), &self.channel.config().name, &error);
        }
    }
}

fn note_served(
    state: &ChannelState,
    served: &Served<'_>,
    arrived: Option<Instant>,
    published: Result<()>,
) {
    let now = Instant::now();
    let name = &served.config.name;
    if let Some(trace) = &state.trace {
        let (stamp, num_detections) = (served.header.stamp, served.detections.len());
        trace.add(&TracedFrame { channel: name, stamp, num_detections, report: served.report });
    }
    let mut frames = lock(&state.frames);
    frames.window.account.add_served(served.report, served.detections.len());
    frames.window.account.add_stamp(served.order);
    if let Some(error) = &served.degraded
        && frames.window.account.add_degraded(error) == 1
    {
        tracing::debug!("channel {name}: sweep processed without past sweeps: {error}");
    }
    match published {
        Ok(()) => {
            frames.last_output = Some(now);
            frames.num_out += 1;
            state.inputs.iter().for_each(|input| lock(&input.account).note_output());
        }
        Err(error) => count_unpublished(&mut frames, name, &error),
    }
    if let Some(arrived) = arrived {
        frames.window.note_response(now.saturating_duration_since(arrived));
    }
}

fn count_unpublished(frames: &mut Frames, name: &str, error: &Error) {
    if frames.unpublished.is_none() {
        tracing::error!("channel {name}: not published: {error}");
    }
    let first = || Reason { count: 0, first: error.to_string() };
    frames.unpublished.get_or_insert_with(first).count += 1;
}

/// Locks a mutex whose value a panic leaves whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
