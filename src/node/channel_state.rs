//! The state of a live channel that the threads of the node share: counters, times and the
//! configuration to apply.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::autoware_status::ProcessingTimes;
use super::calibration::{CalibrationSummary, CalibrationWatch};
use super::frame_window::{FrameSummary, FrameWindow};
use crate::config::ChannelConfig;
use crate::runtime::account::Reason;
use crate::runtime::channel::ChannelFrame;
use crate::runtime::input::{InputAccount, InputSummary};
use crate::runtime::serving::Serving;
use crate::runtime::stamps::StampOrder;
use det_post_types::{Error, Result};

/// The state of a channel that the threads of the node share.
pub struct ChannelState {
    /// Its inputs.
    pub inputs: Vec<InputState>,
    /// Its frames since the last summary, and their totals.
    pub frames: Mutex<Frames>,
    /// A configuration to apply before the next frame.
    pending: Mutex<Option<ChannelConfig>>,
    has_pending: AtomicBool,
}

/// The state of an input that the threads of the node share.
pub struct InputState {
    /// Account of its messages.
    pub account: Mutex<InputAccount>,
    /// What its CameraInfo is beside its images, where that is asked for.
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

/// What became of the frames of a channel.
pub struct Frames {
    /// Since the last summary.
    pub window: FrameWindow,
    /// The state of the channel.
    pub serving: Serving,
    last_output: Option<Instant>,
    num_out: u64,
    /// Whether an output could not be published, ever.
    has_unpublished: bool,
    /// The time per frame.
    pub processing: ProcessingTimes,
}

impl Frames {
    /// Counts an output that was not published. The first is logged as an error.
    pub fn count_unpublished(&mut self, channel: &str, error: &Error) {
        if !std::mem::replace(&mut self.has_unpublished, true) {
            tracing::error!("channel {channel}: not published: {error}");
        }
        let first = || Reason { count: 0, first: error.to_string() };
        self.window.unpublished.get_or_insert_with(first).count += 1;
    }
}

impl ChannelState {
    /// A channel without frames so far.
    pub fn new(inputs: Vec<InputState>, serving: Serving) -> Self {
        let window = FrameWindow::new();
        let frames = Frames {
            window,
            serving,
            last_output: None,
            num_out: 0,
            has_unpublished: false,
            processing: ProcessingTimes::default(),
        };
        Self {
            inputs,
            frames: Mutex::new(frames),
            pending: Mutex::new(None),
            has_pending: AtomicBool::new(false),
        }
    }

    /// Applies a configuration before the next frame.
    pub fn reconfigure(&self, config: &ChannelConfig) {
        *lock(&self.pending) = Some(config.clone());
        self.has_pending.store(true, Ordering::Release);
    }

    /// Whether a configuration is to be applied.
    pub fn has_pending(&self) -> bool {
        self.has_pending.load(Ordering::Acquire)
    }

    /// Takes the configuration to apply.
    pub fn take_pending(&self) -> Option<ChannelConfig> {
        if !self.has_pending.swap(false, Ordering::Acquire) {
            return None;
        }
        lock(&self.pending).take()
    }

    /// Counts a frame that was processed, whose message `arrived`, and whether it was published.
    pub fn note_served(
        &self,
        served: &ChannelFrame<'_>,
        arrived: Option<Instant>,
        published: Result<()>,
    ) {
        let now = Instant::now();
        let name = &served.config.name;
        let mut frames = lock(&self.frames);
        frames.window.account.add_served(served.report, served.detections.len());
        let num_of_order = frames.window.account.add_stamp(served.order);
        if served.order == StampOrder::Restart && num_of_order == 1 {
            let stamp = served.header.stamp;
            tracing::warn!("channel {name}: stamps start over at {stamp}: the history is cleared");
        }
        if let Some(error) = &served.degraded
            && frames.window.account.add_degraded(error) == 1
        {
            tracing::debug!(
                "channel {name}: frame processed without past sweeps and motion: {error}"
            );
        }
        match published {
            Ok(()) => {
                frames.last_output = Some(now);
                frames.num_out += 1;
                self.inputs.iter().for_each(|input| lock(&input.account).note_output());
            }
            Err(error) => frames.count_unpublished(name, &error),
        }
        if let Some(arrived) = arrived {
            frames.window.note_response(now.saturating_duration_since(arrived));
        }
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
        }
    }
}

/// Locks a mutex whose value a panic leaves whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::supervisor::Health;
    use det_post_types::ErrorKind;

    #[test]
    fn a_summary_has_the_outputs_that_failed_since_the_one_before() {
        let serving = Serving {
            health: Health::Good,
            num_failures: 0,
            last_failure: None,
            device: "cpu".into(),
            engine: "an engine".into(),
            process_id: None,
        };
        let state = ChannelState::new(Vec::new(), serving);
        let error = Error::new(ErrorKind::Middleware, "publisher", "no such topic");
        for _ in 0..2 {
            lock(&state.frames).count_unpublished("camera", &error);
        }
        let mut window = FrameWindow::new();
        state.summary(&mut window);
        let Some(Reason { count: 2, first }) = &window.unpublished else {
            panic!("{:?}", window.unpublished)
        };
        assert!(first.contains("no such topic"));
        state.summary(&mut window);
        assert!(window.unpublished.is_none());
    }
}
