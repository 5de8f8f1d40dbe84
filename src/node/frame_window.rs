//! The frames of a live channel since the last summary, and their totals.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::runtime::account::{Account, Reason};
use crate::runtime::serving::Serving;

/// Upper limit of recorded response times: an hour.
const MAX_RESPONSE_US: u64 = 3_600_000_000;

/// Account of the frames since the last summary.
pub struct FrameWindow {
    /// Frames in, frames out, and losses.
    pub account: Account,
    /// Time from arrival to publication, in microseconds.
    pub response_us: Option<Histogram<u64>>,
    /// Number of frames with a stamp ahead of the node's clock.
    pub num_future: u64,
    /// Number of frames that were skipped: the channel is not enabled, or idle without
    /// subscribers.
    pub num_skipped: u64,
    /// Age of the newest frame on arrival, by its stamp; `None` when the time is
    /// unknown.
    pub age_s: Option<f64>,
    /// Outputs that could not be published.
    pub unpublished: Option<Reason>,
}

/// Totals of the frames of a channel.
#[derive(Clone, Debug)]
pub struct FrameSummary {
    /// The detector and its device.
    pub serving: Serving,
    /// Time of the last published detections.
    pub last_output: Option<Instant>,
    /// Number of published frames.
    pub num_out: u64,
}

impl FrameWindow {
    /// An empty window.
    pub fn new() -> Self {
        let response_us = Histogram::new_with_bounds(1, MAX_RESPONSE_US, 3).ok();
        Self {
            account: Account::new(),
            response_us,
            num_future: 0,
            num_skipped: 0,
            age_s: None,
            unpublished: None,
        }
    }

    /// Records the time from the arrival of a frame to its publication.
    pub fn note_response(&mut self, time: Duration) {
        if let Some(response) = &mut self.response_us {
            let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            response.saturating_record(micros.clamp(1, MAX_RESPONSE_US));
        }
    }

    /// Empties it; keeps the memory.
    pub fn reset(&mut self) {
        self.account.reset();
        self.response_us.iter_mut().for_each(Histogram::reset);
        self.num_future = 0;
        self.num_skipped = 0;
        self.age_s = None;
        self.unpublished = None;
    }
}

impl Default for FrameWindow {
    fn default() -> Self {
        Self::new()
    }
}
