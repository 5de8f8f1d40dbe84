//! What became of the messages of a live input before its channel saw them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::account::Reason;
use super::slot::Offered;
use crate::error::{Error, Result};

/// The account of an input since it was opened, and since it was last looked
/// at.
#[derive(Clone, Debug)]
pub struct InputAccount {
    opened: Instant,
    last_arrival: Option<Instant>,
    /// When the first message came that nothing was published after.
    unanswered_since: Option<Instant>,
    num_received: u64,
    num_overtaken: u64,
    num_abandoned: u64,
    refused: BTreeMap<&'static str, Reason>,
    window: Window,
}

/// What happened since somebody last looked.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    num_received: u64,
    num_refused: u64,
    num_overtaken: u64,
    longest_gap: Duration,
}

/// What is to be said of an input now.
#[derive(Clone, Debug, PartialEq)]
pub struct InputSummary {
    /// Time since the input was opened.
    pub open_for: Duration,
    /// Time since the last message, or since the input was opened.
    pub silence: Duration,
    /// Time since the first message after the last output; `None` when there
    /// is no such message.
    pub unanswered_for: Option<Duration>,
    /// Messages a second since the last look.
    pub rate_hz: f64,
    /// Longest time between two messages since the last look.
    pub longest_gap: Duration,
    /// Messages refused since the last look.
    pub num_refused_now: u64,
    /// Messages overtaken since the last look.
    pub num_overtaken_now: u64,
    /// Messages that were taken, in all.
    pub num_received: u64,
    /// Messages that a newer one overtook before the channel was free, in all.
    pub num_overtaken: u64,
    /// Messages that waited when the input was closed, in all.
    pub num_abandoned: u64,
    /// Messages that were refused, in all, by reason.
    pub refused: BTreeMap<&'static str, Reason>,
}

impl InputAccount {
    /// An input that is opened now.
    pub fn new(now: Instant) -> Self {
        Self {
            opened: now,
            last_arrival: None,
            unanswered_since: None,
            num_received: 0,
            num_overtaken: 0,
            num_abandoned: 0,
            refused: BTreeMap::new(),
            window: Window::new(now),
        }
    }

    /// Counts from now: the input is opened again. Totals stay.
    pub fn reopen(&mut self, now: Instant) {
        self.opened = now;
        self.last_arrival = None;
        self.unanswered_since = None;
        self.window = Window::new(now);
    }

    /// Notes a message that was offered to the channel. Returns how often a
    /// refusal of its reason came; 0 when it was taken.
    pub fn note(&mut self, now: Instant, offered: Result<Offered>) -> u64 {
        let gap = now.saturating_duration_since(self.last_arrival.unwrap_or(self.opened));
        self.window.longest_gap = self.window.longest_gap.max(gap);
        self.last_arrival = Some(now);
        match offered {
            Ok(offered) => {
                let overtook = u64::from(offered != Offered::Waiting);
                self.unanswered_since.get_or_insert(now);
                self.num_received += 1;
                self.num_overtaken += overtook;
                self.window.num_received += 1;
                self.window.num_overtaken += overtook;
                0
            }
            Err(error) => self.refuse(&error),
        }
    }

    fn refuse(&mut self, error: &Error) -> u64 {
        self.window.num_refused += 1;
        let reason = self
            .refused
            .entry(error.kind().reason())
            .or_insert_with(|| Reason { count: 0, first: error.to_string() });
        reason.count += 1;
        reason.count
    }

    /// Notes that something was published.
    pub fn note_output(&mut self) {
        self.unanswered_since = None;
    }

    /// Notes messages that waited when the input was closed.
    pub fn note_abandoned(&mut self, count: u64) {
        self.num_abandoned += count;
    }

    /// Sums up, and looks anew from now on.
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
            num_received: self.num_received,
            num_overtaken: self.num_overtaken,
            num_abandoned: self.num_abandoned,
            refused: self.refused.clone(),
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
            longest_gap: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn rate_gap_and_silence_follow_the_arrivals() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut account = InputAccount::new(start);
        for (ms, offered) in [(100, Offered::Waiting), (200, Offered::Overtook)] {
            assert_eq!(account.note(at(ms), Ok(offered)), 0);
        }
        let bad = || Err(Error::new(ErrorKind::Message, "test", "too short"));
        assert_eq!(account.note(at(700), bad()), 1);
        assert_eq!(account.note(at(800), bad()), 2);
        account.note_abandoned(1);

        let seen = account.look(at(1000));
        assert_eq!((seen.num_received, seen.num_overtaken, seen.num_abandoned), (2, 1, 1));
        assert_eq!((seen.num_refused_now, seen.refused["malformed_message"].count), (2, 2));
        assert!((seen.rate_hz - 2.0).abs() < 1e-9, "{}", seen.rate_hz);
        assert_eq!(seen.longest_gap, Duration::from_millis(500));
        assert_eq!(seen.silence, Duration::from_millis(200));

        let later = account.look(at(3000));
        assert_eq!((later.num_received, later.num_refused_now), (2, 0));
        assert_eq!(later.silence, Duration::from_millis(2200));
        assert_eq!(later.longest_gap, later.silence);
    }
}
