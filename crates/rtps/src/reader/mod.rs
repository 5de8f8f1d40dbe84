//! Readers (8.4.10 to 8.4.12): best effort and reliable, samples of one datagram and of many.

mod ask;
mod assembly;
mod effects;
mod gaps;
mod proxy;
mod requests;
mod unfinished;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub(crate) use ask::Ask;
pub(crate) use effects::{Effects, Past};
pub(crate) use proxy::WriterProxy;

use crate::bounded::Bounded;
use crate::discovery::EndpointData;
use crate::qos::History;
use crate::settings::Limits;
use crate::types::{Assembler, Guid, GuidPrefix, Sample, SampleData};
use crate::wire::{Data, DataFrag, Gap, Heartbeat};
use assembly::{Assembly, held_by, is_servable, resolved};
use proxy::{ReadUntil, Slot};

/// A reader of ours.
pub(crate) struct Reader {
    pub data: EndpointData,
    pub writers: Bounded<Guid, WriterProxy>,
    assembler: Option<Box<dyn Assembler>>,
    ready: VecDeque<Sample>,
    depth: usize,
    keeps_all: bool,
    max_sample: usize,
    max_bytes: usize,
    /// Bytes of samples that are ready, and of all others.
    ready_bytes: usize,
    waiting_bytes: usize,
    pub samples_over: u64,
    pub replaced: u64,
    /// Of writers that are no longer matched.
    past: Past,
    /// How far the writers of participants were read that were lost: they may only have stood
    /// still, and what was read then is not read again.
    read: Bounded<Guid, ReadUntil>,
    /// Of the last request. It goes on rising when a writer is matched again: a peer that did
    /// not notice ignores counts that it has seen.
    count: u32,
}

impl Reader {
    pub fn new(data: EndpointData, assembler: Option<Box<dyn Assembler>>, limits: &Limits) -> Self {
        let (depth, keeps_all) = match data.qos.qos.history {
            History::KeepLast(depth) => (depth.clamp(1, limits.reader_samples.max(1)), false),
            History::KeepAll => (limits.reader_samples.max(1), true),
        };
        Self {
            data,
            writers: Bounded::new(limits.matches),
            assembler,
            ready: VecDeque::new(),
            depth,
            keeps_all,
            max_sample: limits.sample_bytes.min(limits.reader_bytes),
            max_bytes: limits.reader_bytes,
            ready_bytes: 0,
            waiting_bytes: 0,
            samples_over: 0,
            replaced: 0,
            past: Past::default(),
            read: Bounded::new(limits.matches),
            count: 0,
        }
    }

    /// The count of the next request.
    pub fn next_count(&mut self) -> u32 {
        self.count = self.count.wrapping_add(1);
        self.count
    }

    /// Bytes of unfinished and waiting samples.
    pub fn held(&self) -> usize {
        self.ready_bytes + self.waiting_bytes
    }

    /// Counters of all writers.
    pub fn past(&self) -> Past {
        self.writers.iter().fold(self.past, |sum, (_, writer)| Past {
            renumbered: sum.renumbered + writer.renumbered,
            dropped: sum.dropped + writer.dropped,
        })
    }

    /// Matches a writer.
    pub fn add_writer(&mut self, guid: Guid, is_reliable: bool, now: Instant) -> bool {
        let mut writer = WriterProxy::new(guid, is_reliable, now);
        if let Some(read) = self.read.remove(&guid) {
            writer.resume(read);
        }
        self.writers.insert(guid, writer)
    }

    /// Remembers how far the writers of a participant are read, which is lost.
    pub fn remember(&mut self, prefix: GuidPrefix) {
        // What discovery's writers said is forgotten with the participant.
        if self.data.info.topic.is_empty() {
            return;
        }
        for (guid, writer) in self.writers.iter_mut().filter(|(guid, _)| guid.prefix == prefix) {
            // They are lost whether it comes back or not.
            writer.lose_unfinished();
            if let Some(read) = writer.read_until() {
                self.read.insert_evicting(*guid, read, |_, read| read.since);
            }
        }
    }

    /// This process stood still for so long, in which nothing could arrive.
    pub fn stood_still(&mut self, time: Duration) {
        self.writers.iter_mut().for_each(|(_, writer)| writer.stood_still(time));
    }

    /// Forgets a writer; what it has not completed is dropped. Returns how many samples are lost
    /// that were not reported; `None` for a writer that is not matched.
    pub fn remove_writer(&mut self, guid: Guid) -> Option<u64> {
        let held = self.writers.get(&guid)?.held();
        let mut writer = self.writers.remove(&guid)?;
        writer.leave(self.read.contains(&guid));
        self.waiting_bytes = self.waiting_bytes.saturating_sub(held);
        self.past.renumbered += writer.renumbered;
        self.past.dropped += writer.dropped;
        Some(writer.take_lost())
    }

    /// A sample in one submessage.
    pub fn on_data(
        &mut self,
        guid: Guid,
        data: &Data<'_>,
        source_timestamp: Option<i64>,
        now: Instant,
    ) -> Effects {
        let Some(writer) = self.writers.get_mut(&guid) else { return Effects::default() };
        let mut freed = 0;
        if !writer.wants(data.number, now, &mut freed) {
            return Effects::default();
        }
        self.waiting_bytes = self.waiting_bytes.saturating_sub(freed);
        let before = writer.held();
        let is_builtin = self.data.info.topic.is_empty();
        let has_none = data.payload.is_empty() || data.is_key || data.inline.status != 0;
        if has_none && !is_builtin {
            // Of a topic without keys, what is disposed of tells nothing.
            let lost = writer.pass(data.number);
            return self.settle(guid, before, Effects { lost, ..Effects::default() });
        }
        if data.payload.len() > self.max_sample {
            self.samples_over += 1;
            let lost = 1 + writer.pass(data.number);
            return self.settle(guid, before, Effects { lost, ..Effects::default() });
        }
        let sample = Sample {
            writer: guid,
            number: data.number,
            source_timestamp,
            related: data.inline.related,
            data: SampleData::Owned(data.payload.to_vec()),
        };
        writer.note(data.number, now);
        writer.keep(data.number, Slot::Complete(resolved(sample)));
        self.settle(guid, before, Effects { copied: data.payload.len(), ..Effects::default() })
    }

    /// A part of a sample.
    pub fn on_fragment(
        &mut self,
        guid: Guid,
        fragment: &DataFrag<'_>,
        source_timestamp: Option<i64>,
        now: Instant,
    ) -> Effects {
        let Some(writer) = self.writers.get_mut(&guid) else { return Effects::default() };
        let number = fragment.number;
        let mut freed = 0;
        if !writer.wants(number, now, &mut freed) {
            return Effects::default();
        }
        self.waiting_bytes = self.waiting_bytes.saturating_sub(freed);
        if !is_servable(fragment, self.max_sample) {
            self.samples_over += 1;
            let before = writer.held();
            let lost = 1 + writer.pass(number);
            return self.settle(guid, before, Effects { lost, ..Effects::default() });
        }
        if let Some(Slot::Unfinished(sample)) = writer.slots.get_mut(&number) {
            let before = sample.held();
            let copied = sample.add(fragment, now);
            sample.source_timestamp = sample.source_timestamp.or(source_timestamp);
            let (after, is_complete) = (sample.held(), sample.is_complete());
            if copied > 0 {
                writer.note(number, now);
            }
            self.waiting_bytes = (self.waiting_bytes + after).saturating_sub(before);
            let effects = Effects { copied, ..Effects::default() };
            if !is_complete {
                self.bound(guid);
                return effects;
            }
            return self.complete(guid, number, effects);
        }
        let start = if fragment.first == 1 { fragment.payload } else { &[] };
        let target = self
            .assembler
            .as_mut()
            .and_then(|assembler| assembler.target(guid, fragment.total as usize, start));
        let before = writer.held();
        let mut sample = Assembly::new(fragment, target, now);
        sample.source_timestamp = source_timestamp;
        let effects = Effects { copied: sample.add(fragment, now), ..Effects::default() };
        if effects.copied == 0 {
            return effects;
        }
        let is_complete = sample.is_complete();
        writer.note(number, now);
        writer.keep(number, Slot::Unfinished(Box::new(sample)));
        self.recount(guid, before);
        if is_complete {
            return self.complete(guid, number, effects);
        }
        self.bound(guid);
        effects
    }

    /// Turns a sample whose fragments are all there into a complete one.
    fn complete(&mut self, guid: Guid, number: i64, effects: Effects) -> Effects {
        let Some(writer) = self.writers.get_mut(&guid) else { return effects };
        let before = writer.held();
        if let Some(Slot::Unfinished(sample)) = writer.slots.remove(&number) {
            let (source_timestamp, related) = (sample.source_timestamp, sample.related);
            let data = sample.finish();
            let sample = Sample { writer: guid, number, source_timestamp, related, data };
            writer.keep(number, Slot::Complete(resolved(sample)));
        }
        self.settle(guid, before, effects)
    }

    pub fn on_heartbeat(&mut self, guid: Guid, heartbeat: &Heartbeat, now: Instant) -> Effects {
        let Some(writer) = self.writers.get_mut(&guid) else { return Effects::default() };
        let before = writer.held();
        let renumbered = writer.renumbered;
        let (ready, lost, ask) = writer.on_heartbeat(heartbeat, now);
        let is_renumbered = writer.renumbered != renumbered;
        self.recount(guid, before);
        let mut effects = Effects { lost, ask, is_renumbered, ..Effects::default() };
        for sample in ready {
            self.push(sample, &mut effects);
        }
        let before = self.writers.get(&guid).map_or(0, WriterProxy::held);
        self.settle(guid, before, effects)
    }

    pub fn on_gap(&mut self, guid: Guid, gap: &Gap) -> Effects {
        let Some(writer) = self.writers.get_mut(&guid) else { return Effects::default() };
        let before = writer.held();
        let ready = writer.on_gap(gap);
        self.recount(guid, before);
        let mut effects = Effects::default();
        for sample in ready {
            self.push(sample, &mut effects);
        }
        let before = self.writers.get(&guid).map_or(0, WriterProxy::held);
        self.settle(guid, before, effects)
    }

    /// What is due of each writer.
    pub fn on_tick(&mut self, now: Instant) -> Vec<(Guid, Effects)> {
        let mut all = Vec::new();
        let guids: Vec<Guid> = self.writers.keys().collect();
        for guid in guids {
            let Some(writer) = self.writers.get_mut(&guid) else { continue };
            let before = writer.held();
            writer.age(now);
            let ask = writer.on_tick(now);
            let effects = self.settle(guid, before, Effects { ask, ..Effects::default() });
            if effects.ask.is_some() || effects.is_ready || effects.lost > 0 {
                all.push((guid, effects));
            }
        }
        all
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.writers.iter().filter_map(|(_, writer)| writer.ask_at).min()
    }

    /// Moves what is next of a writer to the samples that are ready.
    fn settle(&mut self, guid: Guid, before: usize, mut effects: Effects) -> Effects {
        self.recount(guid, before);
        let mut room = if self.keeps_all && self.is_full() { 0 } else { usize::MAX };
        if self.keeps_all {
            room = room.min(self.depth.saturating_sub(self.ready.len()));
        }
        let Some(writer) = self.writers.get_mut(&guid) else { return effects };
        let before = writer.held();
        let (ready, lost) = writer.ready(|| {
            let has_room = room > 0;
            room = room.saturating_sub(1);
            has_room
        });
        effects.lost += lost + writer.take_lost();
        self.recount(guid, before);
        for sample in ready {
            self.push(sample, &mut effects);
        }
        self.bound(guid);
        effects
    }

    fn recount(&mut self, guid: Guid, before: usize) {
        let after = self.writers.get(&guid).map_or(0, WriterProxy::held);
        self.waiting_bytes = (self.waiting_bytes + after).saturating_sub(before);
    }

    fn is_full(&self) -> bool {
        self.ready.len() >= self.depth || self.held() >= self.max_bytes
    }

    /// Appends a sample that is ready; an older or this one goes when there are too many.
    fn push(&mut self, sample: Sample, effects: &mut Effects) {
        effects.is_ready = true;
        let bytes = held_by(&sample);
        let is_over = |reader: &Self| {
            reader.ready.len() >= reader.depth || reader.ready_bytes + bytes > reader.max_bytes
        };
        if self.keeps_all && is_over(self) {
            self.replaced += 1;
            effects.lost += 1;
            return;
        }
        while is_over(self) {
            if self.drop_oldest().is_none() {
                break;
            }
            effects.lost += 1;
        }
        self.ready_bytes += bytes;
        self.ready.push_back(sample);
    }

    /// Drops unfinished samples while all take too much: first of the writer that has been
    /// silent longest.
    fn bound(&mut self, newest: Guid) {
        while self.held() > self.max_bytes && self.drop_silent(newest) {}
    }

    /// Drops the unfinished samples of the writer that has been silent longest, preferably
    /// not `newest`; returns whether that freed memory.
    pub fn drop_silent(&mut self, newest: Guid) -> bool {
        let holding = self.writers.iter_mut().filter(|(_, writer)| writer.held() > 0);
        let silent = holding.min_by_key(|(guid, w)| (**guid == newest, w.silent_since()));
        let Some((_, writer)) = silent else { return false };
        let before = writer.held();
        writer.drop_waiting();
        let freed = before - writer.held();
        self.waiting_bytes = self.waiting_bytes.saturating_sub(freed);
        freed > 0
    }

    /// Drops the oldest sample that is ready; returns its writer.
    pub fn drop_oldest(&mut self) -> Option<Guid> {
        let oldest = self.ready.pop_front()?;
        self.ready_bytes -= held_by(&oldest);
        self.replaced += 1;
        Some(oldest.writer)
    }

    /// The oldest sample that is ready.
    pub fn take(&mut self) -> Option<Sample> {
        let sample = self.ready.pop_front()?;
        self.ready_bytes -= held_by(&sample);
        if self.keeps_all {
            let waiting: Vec<Guid> =
                self.writers.iter().filter(|(_, w)| w.held() > 0).map(|(guid, _)| *guid).collect();
            for guid in waiting {
                let before = self.writers.get(&guid).map_or(0, WriterProxy::held);
                self.settle(guid, before, Effects::default());
            }
        }
        Some(sample)
    }

    /// Whether a sample is ready.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}
