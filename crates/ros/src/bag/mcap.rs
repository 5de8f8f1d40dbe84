//! One MCAP file.
//!
//! With a sound summary the chunks are opened by start time and overlapping
//! chunks are merged: messages come by log time, ties by position. Without
//! one (a truncated file, a file written without chunks) parts come by
//! position; within a chunk messages still come by log time.
//!
//! Payloads of uncompressed chunks are slices of the mapped file. Compressed
//! chunks are decompressed into buffers of the memory budget. A chunk that the
//! budget has no memory for waits until messages of others are delivered, so that
//! what is open comes first; by itself, it is damage.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};

use super::budget::MemoryBudget;
use super::damage::Damage;
use super::mapped::Mapped;
use super::options::ReadOptions;
use super::part::{Part, Reader, Unopened};
use super::record::{ChunkIndex, MAGIC, RECORD_HEAD};
use super::span::LogSpan;
use super::summary::Summary;
use super::time::{Head, stamp};
use super::topic::TopicInfo;
use super::walk::{Census, Piece, piece_at};
use det_post_types::Stamp;

/// Before a payload of this size the length of the file is looked up.
const MIN_CHECKED_BYTES: usize = 64 << 10;

/// A reader of one mapped MCAP file.
pub(super) struct McapFile {
    pub(super) map: Mapped,
    pub(super) topics: Vec<TopicInfo>,
    /// First and last log time, as the file declares or as counted.
    pub(super) span: Option<(Stamp, Stamp)>,
    /// One entry per topic.
    wanted: Vec<bool>,
    /// The log times that are delivered.
    limits: LogSpan,
    pub(super) damage: Option<Damage>,
    topic_of: BTreeMap<u16, usize>,
    plan: Plan,
    budget: &'static MemoryBudget,
    /// Bytes that the next part takes, when the budget lacked them.
    missing: Option<usize>,
    /// Open parts; those that were closed leave an empty place.
    open: Vec<Option<Part>>,
    /// The empty places of `open`.
    free: Vec<usize>,
    /// The next message of each open part.
    heads: BinaryHeap<Reverse<PartHead>>,
    spare: Option<Part>,
}

/// The next message of an open part: parts are ordered by log time, then by
/// their place in the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PartHead {
    log_time: u64,
    start: usize,
    /// Index into `open`.
    at: usize,
}

/// What is opened next.
enum Plan {
    /// The chunks of the index by start time, from `next` on.
    ByTime { chunks: Vec<ChunkIndex>, next: usize },
    /// The records of the file from byte `at` on.
    ByPosition { at: usize },
    /// Nothing more.
    Done,
}

impl McapFile {
    /// Reads the summary of `map`. The file starts with [`MAGIC`].
    pub(super) fn open(map: Mapped, options: &ReadOptions) -> Self {
        let (topics, topic_of, span, plan) = match Summary::read(&map) {
            Some(Summary { declared, chunks, statistics }) => {
                let counts = statistics.as_ref().map(|statistics| &statistics.per_channel);
                let (topics, topic_of) = declared.topics(counts);
                let span = statistics
                    .filter(|statistics| statistics.num_messages > 0)
                    .map(|statistics| (statistics.start_time, statistics.end_time));
                let plan = match chunks.is_empty() {
                    true => Plan::ByPosition { at: MAGIC.len() },
                    false => Plan::ByTime { chunks, next: 0 },
                };
                (topics, topic_of, span, plan)
            }
            None => {
                let Census { declared, num_messages, span } = Census::of(&map, options);
                let (topics, topic_of) = declared.topics(Some(&num_messages));
                (topics, topic_of, span, Plan::ByPosition { at: MAGIC.len() })
            }
        };
        Self {
            map,
            wanted: vec![true; topics.len()],
            limits: LogSpan::default(),
            topics,
            span: span.map(|(first, last)| (stamp(first), stamp(last))),
            damage: None,
            topic_of,
            plan,
            budget: options.memory,
            missing: None,
            open: Vec::new(),
            free: Vec::new(),
            heads: BinaryHeap::new(),
            spare: None,
        }
    }

    /// Another reader of the mapping, from the start; `None` where there is no index, or where it
    /// has compressed chunks, which each reader would decompress.
    pub(super) fn reopen(&self) -> Option<Self> {
        let Plan::ByTime { chunks, .. } = &self.plan else { return None };
        if chunks.iter().any(|chunk| chunk.is_compressed) {
            return None;
        }
        let mut again = Self {
            map: self.map.clone(),
            topics: self.topics.clone(),
            span: self.span,
            wanted: self.wanted.clone(),
            limits: self.limits,
            damage: None,
            topic_of: self.topic_of.clone(),
            plan: Plan::ByTime { chunks: chunks.clone(), next: 0 },
            budget: self.budget,
            missing: None,
            open: Vec::new(),
            free: Vec::new(),
            heads: BinaryHeap::new(),
            spare: None,
        };
        again.skip_unwanted();
        Some(again)
    }

    /// Delivers only the topics marked in `wanted`, one entry per topic.
    /// Parts that are already open keep what they hold.
    pub(super) fn select(&mut self, wanted: Vec<bool>) {
        self.wanted = wanted;
        self.skip_unwanted();
    }

    /// Delivers only messages with these log times. Parts that are already open keep what they
    /// hold.
    pub(super) fn limit(&mut self, limits: LogSpan) {
        self.limits = limits;
        self.skip_unwanted();
    }

    /// The time of the next message.
    pub(super) fn head(&self) -> Head {
        let ready = self.heads.peek().map(|Reverse(head)| head.log_time);
        let is_blocked = self.missing.is_some_and(|missing| missing > self.budget.available());
        match (self.next_start(), ready) {
            (Some(start), Some(time)) if start > time || is_blocked => Head::Ready(stamp(time)),
            (Some(start), None) if is_blocked => Head::Blocked(stamp(start)),
            (Some(start), _) => Head::NotBefore(stamp(start)),
            (None, Some(time)) => Head::Ready(stamp(time)),
            (None, None) => Head::End,
        }
    }

    /// The message at a ready head: its topic in `topics` and its payload.
    pub(super) fn message(&self) -> Option<(usize, &[u8])> {
        let Reverse(head) = self.heads.peek()?;
        self.open.get(head.at)?.as_ref()?.message(&self.map)
    }

    /// Whether the file is as long as it was when it was opened; if not, it ends here. Called
    /// for each message: looks at the system's length only before a large payload, and at
    /// what the guard of the mapping has seen before all others.
    pub(super) fn is_whole(&mut self) -> bool {
        let is_large = self.message().is_some_and(|(_, data)| data.len() >= MIN_CHECKED_BYTES);
        if !is_large && !self.map.is_hit() {
            return true;
        }
        let Some(damage) = self.truncation() else { return true };
        self.damage = Some(damage);
        self.plan = Plan::Done;
        self.heads.clear();
        self.open.clear();
        self.free.clear();
        false
    }

    /// The damage of a file that was shortened since it was opened.
    fn truncation(&self) -> Option<Damage> {
        let (len, opened) = (self.map.shortened_to()?, self.map.len());
        let position = usize::try_from(len).map_or(opened, |len| len.min(opened));
        let what = format!("the file was truncated while it was read: it had {opened} bytes");
        Some(Damage::at(position, what))
    }

    /// Drops the message at the head.
    pub(super) fn advance(&mut self) {
        let Some(mut head) = self.heads.peek_mut() else { return };
        let at = head.0.at;
        let Some(place) = self.open.get_mut(at) else { return };
        if let Some(part) = place {
            part.advance();
            if let Some(log_time) = part.log_time() {
                head.0.log_time = log_time;
                return;
            }
        }
        PeekMut::pop(head);
        if let Some(part) = place.take() {
            self.free.push(at);
            self.close(part);
        }
    }

    /// Releases the memory of a part, except small buffers while no part waits
    /// for memory.
    fn close(&mut self, mut part: Part) {
        self.map.release(part.extent());
        part.clear();
        if self.spare.is_none() && self.missing.is_none() && part.is_spare() {
            self.spare = Some(part);
        }
    }

    /// Releases the buffers that are kept for later parts.
    pub(super) fn release_spare(&mut self) {
        self.spare = None;
    }

    /// Opens the next part of the file.
    pub(super) fn load(&mut self) {
        let mut part = self.spare.take().unwrap_or_else(|| Part::new(self.budget));
        self.missing = None;
        match self.load_into(&mut part) {
            Ok(()) => {}
            Err(Unopened::Damaged(damage)) => {
                // Bytes behind the end of a shortened file are zeros.
                self.damage = Some(self.truncation().unwrap_or(damage));
                self.plan = Plan::Done;
            }
            Err(Unopened::OverBudget(num_bytes)) => {
                self.missing = Some(num_bytes);
                return;
            }
        }
        let Some(log_time) = part.log_time() else {
            self.close(part);
            self.skip_unwanted();
            return;
        };
        let at = self.free.pop().unwrap_or(self.open.len());
        self.heads.push(Reverse(PartHead { log_time, start: part.extent().start, at }));
        match self.open.get_mut(at) {
            Some(place) => *place = Some(part),
            None => self.open.push(Some(part)),
        }
        self.skip_unwanted();
    }

    /// Ends a file whose next part does not fit the budget.
    pub(super) fn refuse_blocked(&mut self) {
        let position = match &self.plan {
            Plan::ByTime { chunks, next } => chunks.get(*next).map(|chunk| chunk.offset),
            Plan::ByPosition { at } => Some(*at),
            Plan::Done => None,
        };
        let (missing, limit) = (self.missing.take().unwrap_or_default(), self.budget.limit());
        self.damage = Some(Damage::at(
            position.unwrap_or_default(),
            format!(
                "the chunk needs {missing} bytes of memory, recordings have {limit} \
                 (`--recording-memory-mib`)"
            ),
        ));
        self.plan = Plan::Done;
    }

    fn load_into(&mut self, part: &mut Part) -> Result<(), Unopened> {
        let reader = Reader { topic_of: &self.topic_of, wanted: &self.wanted, limits: self.limits };
        match &mut self.plan {
            Plan::Done => Ok(()),
            Plan::ByTime { chunks, next } => {
                let Some(index) = chunks.get(*next) else { return Ok(()) };
                match piece_at(&self.map, index.offset) {
                    Piece::Chunk { body, cut: false, .. }
                        if body.len() + RECORD_HEAD == index.len =>
                    {
                        reader.chunk(index.offset, body, false, part)?;
                    }
                    _ => {
                        let len = index.len;
                        return Err(Unopened::Damaged(Damage::at(
                            index.offset,
                            format!("the index names a chunk of {len} bytes, there is none"),
                        )));
                    }
                }
                *next += 1;
                Ok(())
            }
            Plan::ByPosition { at } => loop {
                let position = *at;
                match piece_at(&self.map, position) {
                    Piece::Chunk { body, cut, next } => {
                        reader.chunk(position, body, cut, part)?;
                        *at = next;
                        break Ok(());
                    }
                    Piece::Message { body, next } => {
                        reader.single_message(position, body, part)?;
                        *at = next;
                        if part.log_time().is_some() {
                            break Ok(());
                        }
                    }
                    Piece::Other { next, .. } => *at = next,
                    Piece::End(damage) => {
                        self.plan = Plan::Done;
                        break damage.map_or(Ok(()), |damage| Err(Unopened::Damaged(damage)));
                    }
                }
            },
        }
    }

    /// No message of a part that is not yet open is earlier than this.
    fn next_start(&self) -> Option<u64> {
        match &self.plan {
            Plan::ByTime { chunks, next } => chunks.get(*next).map(|chunk| chunk.start_time),
            Plan::ByPosition { .. } if self.heads.is_empty() => Some(0),
            Plan::ByPosition { .. } => None,
            Plan::Done => None,
        }
    }

    /// Passes over chunks that hold no wanted message by their topics or log times.
    fn skip_unwanted(&mut self) {
        let Plan::ByTime { chunks, next } = &mut self.plan else { return };
        let is_wanted = |id: &u16| {
            self.topic_of.get(id).and_then(|topic| self.wanted.get(*topic)) == Some(&true)
        };
        let limits = self.limits;
        while chunks.get(*next).is_some_and(|chunk| {
            let is_of_others = !chunk.channels.is_empty() && !chunk.channels.iter().any(is_wanted);
            is_of_others || !limits.meets(stamp(chunk.start_time), stamp(chunk.end_time))
        }) {
            *next += 1;
        }
    }
}
