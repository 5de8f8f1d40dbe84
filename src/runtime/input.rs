//! Counters of the messages of a live input before they are processed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::account::Reason;
use super::slot::{Loss, Offered};
use det_post_types::{Error, Result};

/// The counters of an input since it was opened, and since the last summary.
#[derive(Clone, Debug)]
pub struct InputAccount {
    opened: Instant,
    last_arrival: Option<Instant>,
    /// The arrival of the first message since the last output.
    unanswered_since: Option<Instant>,
    totals: InputTotals,
    window: Window,
}

/// The counters of an input since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InputTotals {
    /// Messages that were accepted.
    #[serde(rename = "received")]
    pub num_received: u64,
    /// Messages whose frame was replaced by a newer one before it was processed.
    #[serde(rename = "overtaken")]
    pub num_overtaken: u64,
    /// Messages that no frame contains. Counted in channels with several inputs.
    #[serde(rename = "unused")]
    pub num_unused: u64,
    /// Messages that were waiting when the input was closed.
    #[serde(rename = "abandoned")]
    pub num_abandoned: u64,
    /// Messages that were refused, by reason.
    pub refused: BTreeMap<&'static str, Reason>,
}

impl InputTotals {
    /// Counts messages that were lost after they were accepted.
    pub fn add_loss(&mut self, loss: Loss, num: u64) {
        match loss {
            Loss::Overtaken => self.num_overtaken += num,
            Loss::Unused => self.num_unused += num,
            Loss::Abandoned => self.num_abandoned += num,
        }
    }

    /// Counts a refused message. Returns the number of messages with its reason.
    pub fn add_refused(&mut self, error: &Error) -> u64 {
        let first = || Reason { count: 0, first: error.to_string() };
        let reason = self.refused.entry(error.kind().reason()).or_insert_with(first);
        reason.count += 1;
        reason.count
    }
}

/// Counters since the last summary.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    num_received: u64,
    num_refused: u64,
    num_overtaken: u64,
    num_unused: u64,
    longest_gap: Duration,
}

/// A summary of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct InputSummary {
    /// Time since the input was opened.
    pub open_for: Duration,
    /// Time since the last message, or since the input was opened.
    pub silence: Duration,
    /// Time since the first message after the last output; `None` if there is no such
    /// message.
    pub unanswered_for: Option<Duration>,
    /// Messages per second since the last summary.
    pub rate_hz: f64,
    /// Longest time between two messages since the last summary.
    pub longest_gap: Duration,
    /// Messages refused since the last summary.
    pub num_refused_now: u64,
    /// Messages overtaken since the last summary.
    pub num_overtaken_now: u64,
    /// Messages that no frame contains since the last summary.
    pub num_unused_now: u64,
    /// The counters since the input was opened.
    pub totals: InputTotals,
}

impl InputAccount {
    /// An input that is opened at `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            opened: now,
            last_arrival: None,
            unanswered_since: None,
            totals: InputTotals::default(),
            window: Window::new(now),
        }
    }

    /// Opens the input again at `now`. Totals are kept.
    pub fn reopen(&mut self, now: Instant) {
        self.opened = now;
        self.last_arrival = None;
        self.unanswered_since = None;
        self.window = Window::new(now);
    }

    /// Counts a message that was offered to the channel. Returns the number of refused
    /// messages with its reason; 0 if it was accepted.
    pub fn note(&mut self, now: Instant, offered: Result<Offered>) -> u64 {
        let gap = now.saturating_duration_since(self.last_arrival.unwrap_or(self.opened));
        self.window.longest_gap = self.window.longest_gap.max(gap);
        self.last_arrival = Some(now);
        match offered {
            Ok(_) => {
                self.unanswered_since.get_or_insert(now);
                self.totals.num_received += 1;
                self.window.num_received += 1;
                0
            }
            Err(error) => {
                self.window.num_refused += 1;
                self.totals.add_refused(&error)
            }
        }
    }

    /// Counts messages that were lost after they were accepted.
    pub fn note_loss(&mut self, loss: Loss, num: u64) {
        self.totals.add_loss(loss, num);
        match loss {
            Loss::Overtaken => self.window.num_overtaken += num,
            Loss::Unused => self.window.num_unused += num,
            Loss::Abandoned => {}
        }
    }

    /// Notes that an output was published.
    pub fn note_output(&mut self) {
        self.unanswered_since = None;
    }

    /// Summarizes the input, and begins the next interval.
    pub fn look(&mut self, now: Instant) -> InputSummary {
        let window = std::mem::replace(&mut self.window, Window::new(now));
        let seconds = now.saturating_duration_since(window.since).as_secs_f64();
        let silence = now.saturating_duration_since(self.last_arrival.unwrap_or(self.opened));
        InputSummary {
            open_for: now.saturating_duration_since(self.opened),
            silence,
            unanswered_for: self.unanswered_since.map(|at| now.saturating_duration_since(at)),
            rate_hz: if seconds > 0.0 { window.num_received as f64 / seconds } else { 0.0 },
            longest_gap: window.longest_gap.max(silence),
            num_refused_now: window.num_refused,
            num_overtaken_now: window.num_overtaken,
            num_unused_now: window.num_unused,
            totals: self.totals.clone(),
        }
    }
}

impl Window {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            num_received: 0,
            num_refused: 0,
            num_overtaken: 0,
            num_unused: 0,
            longest_gap: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::ErrorKind;

    #[test]
    fn rate_gap_and_silence_follow_the_arrivals() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut account = InputAccount::new(start);
        for ms in [100, 200] {
            assert_eq!(account.note(at(ms), Ok(Offered::Waiting)), 0);
        }
        account.note_loss(Loss::Overtaken, 1);
        let bad = || Err(Error::new(ErrorKind::Message, "test", "too short"));
        assert_eq!(account.note(at(700), bad()), 1);
        assert_eq!(account.note(at(800), bad()), 2);
        account.note_loss(Loss::Abandoned, 1);
        account.note_loss(Loss::Unused, 3);

        let seen = account.look(at(1000));
        let InputTotals { num_received, num_overtaken, num_unused, num_abandoned, refused } =
            &seen.totals;
        assert_eq!([*num_received, *num_overtaken, *num_unused, *num_abandoned], [2, 1, 3, 1]);
        assert_eq!((seen.num_refused_now, seen.num_overtaken_now), (2, 1));
        assert_eq!(refused["malformed_message"].count, 2);
        assert!((seen.rate_hz - 2.0).abs() < 1e-9, "{}", seen.rate_hz);
        assert_eq!(seen.longest_gap, Duration::from_millis(500));
        assert_eq!(seen.silence, Duration::from_millis(200));

        let later = account.look(at(3000));
        assert_eq!((later.totals.num_received, later.num_refused_now), (2, 0));
        assert_eq!(later.silence, Duration::from_millis(2200));
        assert_eq!(later.longest_gap, later.silence);
    }
}
