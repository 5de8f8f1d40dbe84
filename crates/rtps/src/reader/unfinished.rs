//! Samples that are dropped before they are complete, and what is lost with them: a best-effort writer
//! does not send them again.

use std::time::{Duration, Instant};

use super::proxy::{Slot, WriterProxy, count_lost};

/// Samples wait that long for the writer's first heartbeat.
const WITHOUT_HEARTBEAT: Duration = Duration::from_secs(2);

/// An unfinished sample without a new fragment is dropped after that long.
const SILENCE: Duration = Duration::from_secs(4);

impl WriterProxy {
    /// Drops unfinished samples that have been silent; goes on without a first heartbeat.
    pub fn age(&mut self, now: Instant) {
        if self.waiting_since.is_some_and(|since| now.duration_since(since) >= WITHOUT_HEARTBEAT)
            && let Some((first, _)) = self.slots.first()
        {
            (self.next, self.is_synced, self.waiting_since) = (*first, true, None);
            self.ask_at = None;
            self.drop_beyond_window();
        }
        let (mut dropped, mut newest) = (0, None);
        self.slots.retain(|number, slot| match slot {
            Slot::Unfinished(sample) if now.duration_since(sample.grown) >= SILENCE => {
                (dropped, newest) = (dropped + 1, Some(*number));
                false
            }
            _ => true,
        });
        self.dropped += dropped;
        if let Some(newest) = newest {
            self.lose(newest);
        }
    }

    /// Drops everything that is not delivered yet; a reliable writer is asked for it again.
    pub fn drop_waiting(&mut self) {
        let before = self.slots.len();
        self.lose_unfinished();
        self.slots.retain(|_, slot| matches!(slot, Slot::Irrelevant));
        self.dropped += (before - self.slots.len()) as u64;
    }

    /// Goes past the unfinished samples of a best-effort writer.
    pub fn lose_unfinished(&mut self) {
        let newest = self.slots.iter().next_back().map(|(number, _)| *number);
        if let Some(newest) = newest {
            self.lose(newest);
        }
    }

    /// Goes past a sample of a best-effort writer that was dropped, or is: it is lost with what is
    /// missing before it.
    pub(super) fn lose(&mut self, number: i64) {
        if self.is_reliable || (self.is_synced && number < self.next) {
            return;
        }
        // Of a writer that was not read before, what came first is unknown.
        self.lost += if self.is_synced { count_lost(number + 1 - self.next) } else { 1 };
        self.skip_to(number + 1);
        (self.next, self.is_synced) = (number + 1, true);
    }

    /// Samples that are lost and were not reported yet.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}
