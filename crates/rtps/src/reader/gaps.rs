//! Samples that a reliable writer no longer has, and what is lost with them.

use super::proxy::{Slot, WINDOW, WriterProxy};
use crate::types::Sample;
use crate::wire::Gap;

impl WriterProxy {
    /// Numbers that do not exist, or no longer. Returns the complete samples that were waiting
    /// before them.
    pub fn on_gap(&mut self, gap: &Gap) -> Vec<Sample> {
        if !self.is_reliable || !self.is_synced {
            return Vec::new();
        }
        let base = gap.set.base();
        let mut ready = Vec::new();
        if gap.start <= self.next {
            ready = self.give_up(base);
        } else {
            let end = base.min(self.next + WINDOW);
            (gap.start..end).for_each(|number| self.mark_gone(number));
        }
        gap.set.iter().for_each(|number| self.mark_gone(number));
        ready
    }

    /// Goes on to `end`: what is missing before it does not arrive any more. It is lost where it
    /// was published while the writer was known: a writer that keeps few samples names the
    /// replaced ones in a gap. Returns the complete samples before `end`.
    fn give_up(&mut self, end: i64) -> Vec<Sample> {
        let joined = self.joined.unwrap_or(i64::MAX);
        let (mut ready, _) = self.advance(end.min(joined));
        let (complete, lost) = self.advance(end);
        self.lost += lost.saturating_sub(complete.len() as u64);
        ready.extend(complete);
        ready
    }

    /// The writer leaves: of a reliable one, all that it announced and that is not delivered is
    /// lost, unless it may return and is read on where it was.
    pub fn leave(&mut self, may_return: bool) {
        self.lose_unfinished();
        if !may_return && self.is_reliable && self.is_synced {
            let undelivered = self.give_up(self.last.max(self.newest) + 1);
            self.lost += undelivered.len() as u64;
        }
    }

    fn mark_gone(&mut self, number: i64) {
        if self.mark_irrelevant(number) && self.joined.is_some_and(|joined| number >= joined) {
            self.lost += 1;
        }
    }

    /// Returns whether the number was expected.
    pub fn mark_irrelevant(&mut self, number: i64) -> bool {
        let is_in_window = number >= self.next && number - self.next < WINDOW;
        let is_there =
            matches!(self.slots.get(&number), Some(Slot::Complete(_) | Slot::Irrelevant));
        let is_expected = is_in_window && !is_there;
        if is_expected {
            self.slots.insert(number, Slot::Irrelevant);
        }
        is_expected
    }
}
