//! When a reader asks a writer for what it misses (8.4.12.2).
//!
//! Asking for what is still on its way makes a busy network busier: a sample or a fragment is
//! asked for only when a newer one arrived, or when the writer has been quiet.

use std::time::{Duration, Instant};

use super::ask::{Ask, GREET};
use super::proxy::{FIRST_ASK, Slot, WINDOW, WriterProxy};
use crate::wire::NumberSet;

/// A writer that is quiet for so long has nothing on its way.
const QUIET: Duration = Duration::from_millis(20);

/// Between asking twice, at most.
const MAX_RETRY: Duration = Duration::from_secs(1);

/// Between asking a writer twice that has sent no heartbeat, at most.
const MAX_GREET: Duration = Duration::from_secs(4);

impl WriterProxy {
    fn window(&self) -> std::ops::RangeInclusive<i64> {
        self.next..=self.last.min(self.next + WINDOW - 1)
    }

    pub(super) fn misses_some(&self) -> bool {
        self.window().any(|number| {
            !matches!(self.slots.get(&number), Some(Slot::Complete(_) | Slot::Irrelevant))
        })
    }

    pub(super) fn confirmation(&self) -> Ask {
        let (set, fragments) = (NumberSet::new(self.next), Vec::new());
        Ask { writer: self.guid, set, fragments, is_final: true }
    }

    /// What is due at `now`: requests for what is late.
    pub fn on_tick(&mut self, now: Instant) -> Option<Ask> {
        self.ask_at.filter(|at| *at <= now)?;
        // A writer that did not notice that it was lost does not send again what was confirmed
        // before, unless it is greeted.
        if !self.is_synced || (!self.is_greeted && self.misses_some()) {
            return Some(self.greeting(now));
        }
        let is_quiet = self.grown.is_none_or(|at| now.duration_since(at) >= QUIET);
        let mut set = NumberSet::new(self.next);
        let (mut fragments, mut waits) = (Vec::new(), false);
        for number in self.window() {
            let is_late = number < self.newest || is_quiet;
            match self.slots.get(&number) {
                None if is_late => set.insert(number),
                Some(Slot::Unfinished(sample)) if is_late && fragments.len() < 8 => {
                    fragments.extend(sample.missing(4).into_iter().map(|set| (number, set)));
                }
                None | Some(Slot::Unfinished(_)) => waits = true,
                _ => {}
            }
        }
        if set.is_empty() && fragments.is_empty() {
            self.ask_at = waits.then_some(now + QUIET);
            return None;
        }
        self.ask_at = Some(now + self.retry);
        self.retry = (self.retry * 2).min(MAX_RETRY);
        let ask = self.confirmation();
        Some(Ask { set, fragments, is_final: false, ..ask })
    }

    /// Asks for a heartbeat. Samples that have waited long enough for it go without.
    fn greeting(&mut self, now: Instant) -> Ask {
        self.is_greeted = true;
        if self.is_synced {
            self.ask_at = Some(now + FIRST_ASK);
        } else {
            let is_waiting = self.waiting_since.is_some();
            self.ask_at = Some(now + if is_waiting { GREET } else { self.retry });
            self.retry = (self.retry * 2).min(MAX_GREET);
        }
        let ask = self.confirmation();
        Ask { set: NumberSet::new(0), is_final: false, ..ask }
    }
}
