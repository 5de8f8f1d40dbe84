//! What a reader knows of a writer (8.4.10.4): which samples arrived, and when to ask for
//! the others.

use std::time::{Duration, Instant};

use super::ask::{Ask, GREET, RETRY};
use super::assembly::{Assembly, held_by};
use crate::bounded::Bounded;
use crate::types::{Guid, Sample};
use crate::wire::Heartbeat;

/// Numbers after the next one for which samples are kept.
pub(super) const WINDOW: i64 = 256;

/// Unfinished samples of a best-effort writer.
const MAX_UNFINISHED: usize = 4;

/// A longer step in the numbers is a new numbering, not a loss.
const MAX_LOSS: i64 = 1 << 20;

/// From a heartbeat to asking for what it names.
pub(super) const FIRST_ASK: Duration = Duration::from_millis(5);

/// Numbers below the expected ones that long mean a new numbering.
const RENUMBERED: Duration = Duration::from_secs(1);

/// A number of a sample that is not delivered yet.
pub(super) enum Slot {
    Unfinished(Box<Assembly>),
    Complete(Sample),
    /// It does not exist for this reader.
    Irrelevant,
}

/// How far a writer is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadUntil {
    next: i64,
    heartbeat_count: Option<u32>,
    /// When something of it arrived last.
    pub since: Option<Instant>,
}

/// A writer of a peer that is matched with a reader of ours.
pub(crate) struct WriterProxy {
    pub guid: Guid,
    pub(super) is_reliable: bool,
    /// The next number to deliver.
    pub(super) next: i64,
    /// `next` is known: from a heartbeat, or from the first sample of a best-effort writer.
    pub(super) is_synced: bool,
    pub(super) slots: Bounded<i64, Slot>,
    /// Of the last heartbeat.
    pub(super) last: i64,
    /// The highest number of which something arrived.
    pub(super) newest: i64,
    /// When something new arrived.
    pub(super) grown: Option<Instant>,
    /// When a number that fits the numbering arrived.
    fitting: Instant,
    /// Since when heartbeats have been below the numbering.
    below_since: Option<Instant>,
    /// When samples first waited for a heartbeat.
    pub(super) waiting_since: Option<Instant>,
    pub ask_at: Option<Instant>,
    pub(super) retry: Duration,
    /// It was asked for all that it has, or nothing of that was missing.
    pub(super) is_greeted: bool,
    heartbeat_count: Option<u32>,
    /// How far it was read before it was lost, until its first heartbeat.
    read: Option<ReadUntil>,
    /// The first number that was published while the writer was known, by its first heartbeat.
    pub(super) joined: Option<i64>,
    /// It started a new numbering that often.
    pub renumbered: u64,
    /// Unfinished samples that were dropped.
    pub dropped: u64,
    /// Samples that are lost and not reported yet.
    pub(super) lost: u64,
}

impl WriterProxy {
    /// Nothing is known of what the writer has; a reliable one is asked soon.
    pub fn new(guid: Guid, is_reliable: bool, now: Instant) -> Self {
        Self {
            guid,
            is_reliable,
            next: 1,
            is_synced: false,
            slots: Bounded::new(WINDOW as usize),
            last: 0,
            newest: 0,
            grown: None,
            fitting: now,
            below_since: None,
            waiting_since: None,
            ask_at: is_reliable.then_some(now),
            retry: GREET,
            is_greeted: false,
            heartbeat_count: None,
            read: None,
            joined: None,
            renumbered: 0,
            dropped: 0,
            lost: 0,
        }
    }

    /// How far it is read; `None` when that is not known.
    pub fn read_until(&self) -> Option<ReadUntil> {
        let Self { next, heartbeat_count, grown: since, .. } = *self;
        self.is_synced.then_some(ReadUntil { next, heartbeat_count, since })
    }

    /// Goes on where it was read before it was lost.
    pub fn resume(&mut self, read: ReadUntil) {
        if self.is_reliable {
            self.read = Some(read);
        } else {
            (self.next, self.is_synced) = (read.next, true);
        }
    }

    /// Nothing could arrive for so long.
    pub fn stood_still(&mut self, time: Duration) {
        if let Some(since) = &mut self.waiting_since {
            *since += time;
        }
        for (_, slot) in self.slots.iter_mut() {
            if let Slot::Unfinished(sample) = slot {
                sample.grown += time;
            }
        }
    }

    /// The first number to read of a writer that has these, and how many were missed while it
    /// was lost. With another numbering than before it is another writer.
    fn start_of(&mut self, heartbeat: &Heartbeat) -> (i64, u64) {
        let is_same = |read: &ReadUntil| {
            let is_newer = |count| heartbeat.count.wrapping_sub(count) <= 1 << 31;
            read.next <= heartbeat.last + 1 && read.heartbeat_count.is_none_or(is_newer)
        };
        match self.read.take().filter(is_same) {
            Some(read) => {
                self.joined = Some(read.next);
                (heartbeat.first.max(read.next), count_lost(heartbeat.first - read.next))
            }
            None => {
                self.joined = Some(heartbeat.last + 1);
                (heartbeat.first, 0)
            }
        }
    }

    /// When something new arrived last.
    pub fn silent_since(&self) -> Option<Instant> {
        self.grown
    }

    fn restart(&mut self, now: Instant) {
        self.lose_unfinished();
        let (renumbered, dropped, lost) = (self.renumbered + 1, self.dropped, self.lost);
        *self = Self::new(self.guid, self.is_reliable, now);
        (self.renumbered, self.dropped, self.lost) = (renumbered, dropped, lost);
    }

    /// Whether a sample of this number is wanted now. Adds to `freed` the bytes that a new
    /// numbering drops.
    pub fn wants(&mut self, number: i64, now: Instant, freed: &mut usize) -> bool {
        if !self.is_reliable {
            if self.is_synced && number < self.next {
                if now.duration_since(self.fitting) < RENUMBERED {
                    return false;
                }
                *freed += self.held();
                self.restart(now);
            }
            self.fitting = now;
            return true;
        }
        let is_in_window = number >= self.next && (!self.is_synced || number - self.next < WINDOW);
        let is_there =
            matches!(self.slots.get(&number), Some(Slot::Complete(_) | Slot::Irrelevant));
        is_in_window && !is_there
    }

    /// Goes past a number that has no sample for this reader; returns how many before it are
    /// lost.
    pub fn pass(&mut self, number: i64) -> u64 {
        if self.is_reliable {
            self.mark_irrelevant(number);
            return 0;
        }
        let lost = if self.is_synced { count_lost(number - self.next) } else { 0 };
        self.skip_to(number + 1);
        (self.next, self.is_synced) = (number + 1, true);
        lost
    }

    /// Notes that something new arrived of a sample.
    pub fn note(&mut self, number: i64, now: Instant) {
        self.grown = Some(now);
        self.newest = self.newest.max(number);
        if self.is_synced {
            self.retry = RETRY;
        } else if self.is_reliable && self.waiting_since.is_none() {
            self.waiting_since = Some(now);
            self.retry = GREET;
            self.ask_at = Some(self.ask_at.unwrap_or(now + GREET).min(now + GREET));
        }
    }

    /// Keeps a sample or its beginning. An older unfinished one gives way.
    pub(super) fn keep(&mut self, number: i64, slot: Slot) {
        let is_new = !self.slots.contains(&number);
        let most = if self.is_reliable { WINDOW as usize } else { MAX_UNFINISHED };
        // A complete one of a best-effort writer is delivered at once.
        let is_waiting = self.is_reliable || matches!(slot, Slot::Unfinished(_));
        if is_new
            && is_waiting
            && self.slots.len() >= most
            && let Some((oldest, _)) = self.slots.pop_first()
        {
            self.dropped += 1;
            self.lose(oldest);
            if !self.is_reliable && number < self.next {
                self.dropped += 1;
                return;
            }
        }
        self.slots.insert(number, slot);
    }

    /// Takes the samples that are next, in order; also gives how many were lost.
    pub fn ready(&mut self, mut has_room: impl FnMut() -> bool) -> (Vec<Sample>, u64) {
        let mut ready = Vec::new();
        let mut lost = 0;
        if !self.is_reliable {
            while let Some(number) = self.complete() {
                if self.is_synced {
                    lost += count_lost(number - self.next);
                }
                self.skip_to(number);
                if let Some(Slot::Complete(sample)) = self.slots.remove(&number) {
                    ready.push(sample);
                }
                (self.next, self.is_synced) = (number + 1, true);
            }
            return (ready, lost);
        }
        while self.is_synced && has_room() {
            match self.slots.get(&self.next) {
                Some(Slot::Complete(_)) => {
                    if let Some(Slot::Complete(sample)) = self.slots.remove(&self.next) {
                        ready.push(sample);
                    }
                }
                Some(Slot::Irrelevant) => drop(self.slots.remove(&self.next)),
                _ => break,
            }
            self.next += 1;
        }
        (ready, lost)
    }

    fn complete(&self) -> Option<i64> {
        let mut slots = self.slots.iter();
        slots.find(|(_, slot)| matches!(slot, Slot::Complete(_))).map(|(number, _)| *number)
    }

    /// Drops what is before `number`.
    pub(super) fn skip_to(&mut self, number: i64) {
        while self.slots.first().is_some_and(|(first, _)| *first < number) {
            if let Some((_, Slot::Unfinished(_))) = self.slots.pop_first() {
                self.dropped += 1;
            }
        }
    }

    /// Goes on to `first`: what is before it no longer exists. Returns the complete samples
    /// before it, and how many others are lost.
    pub(super) fn advance(&mut self, first: i64) -> (Vec<Sample>, u64) {
        let mut ready = Vec::new();
        let mut num_irrelevant = 0;
        while self.slots.first().is_some_and(|(number, _)| *number < first) {
            match self.slots.pop_first() {
                Some((_, Slot::Complete(sample))) => ready.push(sample),
                Some((_, Slot::Irrelevant)) => num_irrelevant += 1,
                Some((_, Slot::Unfinished(_))) => self.dropped += 1,
                None => {}
            }
        }
        let lost = count_lost(first - self.next);
        self.next = self.next.max(first);
        (ready, lost.saturating_sub(num_irrelevant))
    }

    /// A heartbeat of a reliable writer. Returns the samples that are ready although
    /// earlier ones are lost, how many are lost, and the answer.
    pub fn on_heartbeat(
        &mut self,
        heartbeat: &Heartbeat,
        now: Instant,
    ) -> (Vec<Sample>, u64, Option<Ask>) {
        let nothing = (Vec::new(), 0, None);
        if !self.is_reliable || self.heartbeat_count == Some(heartbeat.count) {
            return nothing;
        }
        // Of another process, or late: then the next one is newer again.
        let newest = self.heartbeat_count;
        let is_old = newest.is_some_and(|count| heartbeat.count.wrapping_sub(count) > 1 << 31);
        if self.is_synced && (is_old || heartbeat.last + 1 < self.next) {
            let since = *self.below_since.get_or_insert(now);
            if now.duration_since(since) < RENUMBERED {
                return nothing;
            }
            self.restart(now);
        }
        self.heartbeat_count = Some(heartbeat.count);
        (self.below_since, self.waiting_since) = (None, None);
        let (mut ready, mut lost) = (Vec::new(), 0);
        if !self.is_synced {
            let first;
            (first, lost) = self.start_of(heartbeat);
            self.skip_to(first);
            (self.next, self.is_synced) = (first, true);
            self.retry = RETRY;
            self.ask_at = None;
            self.drop_beyond_window();
        } else if heartbeat.first > self.next {
            let (complete, num_lost) = self.advance(heartbeat.first);
            lost = num_lost.saturating_sub(complete.len() as u64);
            ready = complete;
        }
        self.joined.get_or_insert(heartbeat.last + 1);
        self.last = heartbeat.last;
        let answer = if self.misses_some() {
            self.ask_at = Some(self.ask_at.map_or(now + FIRST_ASK, |at| at.min(now + self.retry)));
            None
        } else {
            (self.ask_at, self.is_greeted) = (None, true);
            (!heartbeat.is_final).then(|| self.confirmation())
        };
        (ready, lost, answer)
    }

    pub(super) fn drop_beyond_window(&mut self) {
        let end = self.next + WINDOW;
        self.slots.retain(|number, _| *number < end);
    }

    /// Bytes of samples that are not delivered yet.
    pub fn held(&self) -> usize {
        let sizes = self.slots.iter().map(|(_, slot)| match slot {
            Slot::Unfinished(sample) => sample.held(),
            Slot::Complete(sample) => held_by(sample),
            Slot::Irrelevant => 0,
        });
        sizes.sum()
    }
}

pub(super) fn count_lost(step: i64) -> u64 {
    if step > MAX_LOSS { 0 } else { u64::try_from(step).unwrap_or(0) }
}
