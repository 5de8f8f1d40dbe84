//! What a writer knows of a reader (8.4.7.5).

use std::time::{Duration, Instant};

/// A reliable reader that confirms nothing for so long is stalled: nothing waits for it.
pub(super) const STALLED: Duration = Duration::from_secs(12);

/// Between heartbeats to a reader that has not confirmed everything, at first, at most, and
/// to one that is stalled.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(100);
const MAX_HEARTBEAT: Duration = Duration::from_secs(1);
const STALLED_HEARTBEAT: Duration = Duration::from_secs(3);

/// Between heartbeats to a reader that has nothing to confirm and never answered.
const UNANSWERED_HEARTBEAT: Duration = Duration::from_secs(5);

/// A reader of a peer that is matched with a writer of ours.
pub(crate) struct ReaderProxy {
    pub is_reliable: bool,
    /// Numbers before it do not exist for this reader.
    pub start: i64,
    /// It has confirmed all up to this number.
    pub confirmed: i64,
    /// It has answered a heartbeat.
    pub has_answered: bool,
    pub is_stalled: bool,
    /// Since when it has confirmed nothing although something is to be confirmed.
    waiting_since: Option<Instant>,
    pub heartbeat_at: Option<Instant>,
    interval: Duration,
    last_count: Option<u32>,
}

impl ReaderProxy {
    /// A reader that is to get what follows `start`; a reliable one gets a heartbeat now.
    pub fn new(is_reliable: bool, start: i64, now: Instant) -> Self {
        Self {
            is_reliable,
            start,
            confirmed: start - 1,
            has_answered: false,
            is_stalled: false,
            waiting_since: None,
            heartbeat_at: is_reliable.then_some(now),
            interval: HEARTBEAT,
            last_count: None,
        }
    }

    /// This process stood still for so long, in which nothing could be confirmed.
    pub fn stood_still(&mut self, time: Duration) {
        if let Some(since) = &mut self.waiting_since {
            *since += time;
        }
    }

    /// Something was written.
    pub fn expect(&mut self, now: Instant) {
        if self.is_reliable {
            self.waiting_since.get_or_insert(now);
            self.interval = self.interval.min(MAX_HEARTBEAT);
            let at = now + self.interval;
            self.heartbeat_at = Some(self.heartbeat_at.map_or(at, |earlier| earlier.min(at)));
        }
    }

    /// It has confirmed all before `base`, of which the last is `last`. Returns whether
    /// the message is new.
    pub fn confirm(&mut self, base: i64, count: u32, last: i64, now: Instant) -> bool {
        if self.last_count == Some(count) || base > last + 1 {
            return false;
        }
        self.last_count = Some(count);
        self.has_answered = true;
        self.interval = HEARTBEAT;
        // A lower one than before is of a reader that starts again.
        let confirmed = (base - 1).max(self.start - 1);
        let is_done = confirmed >= last;
        if is_done || confirmed > self.confirmed {
            self.is_stalled = false;
            self.waiting_since = (!is_done).then_some(now);
        } else {
            self.waiting_since.get_or_insert(now);
        }
        self.confirmed = confirmed;
        self.heartbeat_at = (!is_done).then(|| now + self.interval);
        true
    }

    /// Whether a heartbeat is due at `now`; another one follows while it does not answer.
    /// Also returns whether it has become stalled.
    pub fn on_tick(&mut self, last: i64, now: Instant) -> (bool, bool) {
        let waits = self.waiting_since.is_some_and(|since| now.duration_since(since) >= STALLED);
        let has_stalled = waits && !self.is_stalled;
        self.is_stalled |= waits;
        if self.heartbeat_at.is_none_or(|at| at > now) {
            return (false, has_stalled);
        }
        let is_idle = self.has_answered && self.confirmed >= last;
        let interval = if self.is_stalled { STALLED_HEARTBEAT } else { self.interval };
        self.heartbeat_at = (!is_idle).then(|| now + interval);
        let most = if self.confirmed >= last { UNANSWERED_HEARTBEAT } else { MAX_HEARTBEAT };
        self.interval = (self.interval * 2).min(most);
        (!is_idle, has_stalled)
    }
}
