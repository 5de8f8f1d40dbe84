//! One MCAP file.
//!
//! With a sound summary the chunks are opened by start time and overlapping
//! chunks are merged: messages come by log time, ties by position. Without
//! one (a truncated file, a file written without chunks) parts come by
//! position; within a chunk messages still come by log time.
//!
//! Payloads of uncompressed chunks are slices of the mapped file. Compressed
//! chunks are decompressed into buffers that are used again; overlapping ones
//! are held together up to [`MAX_CHUNK_BYTES`], beyond which those already
//! open are delivered first. What was delivered takes no memory any more.

use std::collections::BTreeMap;

use super::TopicInfo;
use super::chunk::MAX_CHUNK_BYTES;
use super::mapped::Mapped;
use super::part::{Part, Reader};
use super::record::{ChunkIndex, MAGIC, RECORD_HEAD};
use super::source::{Damage, Head, stamp};
use super::summary::Summary;
use super::walk::{Census, Piece, piece_at};
use crate::types::Stamp;

/// A reader of one mapped MCAP file.
pub(super) struct McapFile {
    map: Mapped,
    pub(super) topics: Vec<TopicInfo>,
    /// First and last log time, as the file declares or as counted.
    pub(super) span: Option<(Stamp, Stamp)>,
    /// One entry per topic.
    wanted: Vec<bool>,
    pub(super) damage: Option<Damage>,
    topic_of: BTreeMap<u16, usize>,
    plan: Plan,
    open: Vec<Part>,
    spare: Vec<Part>,
    /// The open part with the earliest message.
    head: Option<usize>,
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
    /// Reads what `map` says about itself. The file starts with [`MAGIC`].
    pub(super) fn open(map: Mapped) -> Self {
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
                let Census { declared, num_messages, span } = Census::of(&map);
                let (topics, topic_of) = declared.topics(Some(&num_messages));
                (topics, topic_of, span, Plan::ByPosition { at: MAGIC.len() })
            }
        };
        Self {
            map,
            wanted: vec![true; topics.len()],
            topics,
            span: span.map(|(first, last)| (stamp(first), stamp(last))),
            damage: None,
            topic_of,
            plan,
            open: Vec::new(),
            spare: Vec::new(),
            head: None,
        }
    }

    /// Delivers only the topics marked in `wanted`, one entry per topic.
    /// Parts that are already open keep what they hold.
    pub(super) fn select(&mut self, wanted: Vec<bool>) {
        self.wanted = wanted;
        self.skip_unwanted();
    }

    /// Where the next message stands in time.
    pub(super) fn head(&self) -> Head {
        let ready = self.head.and_then(|at| self.open.get(at)?.log_time());
        match (self.next_start(), ready) {
            (Some(start), Some(time)) if start > time || self.is_full() => Head::Ready(stamp(time)),
            (Some(start), _) => Head::NotBefore(stamp(start)),
            (None, Some(time)) => Head::Ready(stamp(time)),
            (None, None) => Head::End,
        }
    }

    /// The message at a ready head: its topic in `topics` and its payload.
    pub(super) fn message(&self) -> Option<(usize, &[u8])> {
        self.open.get(self.head?)?.message(&self.map)
    }

    /// Drops the message at the head.
    pub(super) fn advance(&mut self) {
        let Some(at) = self.head else { return };
        if let Some(part) = self.open.get_mut(at) {
            part.advance();
            if part.log_time().is_none() {
                let done = self.open.swap_remove(at);
                self.map.release(done.extent());
                self.spare.push(done);
            }
        }
        self.find_head();
    }

    /// Opens the next part of the file.
    pub(super) fn load(&mut self) {
        let mut part = self.spare.pop().unwrap_or_default();
        let found = self.load_into(&mut part);
        if let Err(damage) = found {
            self.damage = Some(damage);
            self.plan = Plan::Done;
        }
        match part.log_time().is_none() {
            true => {
                self.map.release(part.extent());
                self.spare.push(part);
            }
            false => self.open.push(part),
        }
        self.skip_unwanted();
        self.find_head();
    }

    fn load_into(&mut self, part: &mut Part) -> Result<(), Damage> {
        part.clear();
        let reader = Reader { topic_of: &self.topic_of, wanted: &self.wanted };
        match &mut self.plan {
            Plan::Done => Ok(()),
            Plan::ByTime { chunks, next } => {
                let Some(index) = chunks.get(*next) else { return Ok(()) };
                *next += 1;
                match piece_at(&self.map, index.offset) {
                    Piece::Chunk { body, cut: false, .. }
                        if body.len() + RECORD_HEAD == index.len =>
                    {
                        reader.chunk(index.offset, body, false, part)
                    }
                    _ => Err(Damage::at(
                        index.offset,
                        format!("the index names a chunk of {} bytes, there is none", index.len),
                    )),
                }
            }
            Plan::ByPosition { at } => loop {
                let position = *at;
                match piece_at(&self.map, position) {
                    Piece::Chunk { body, cut, next } => {
                        *at = next;
                        break reader.chunk(position, body, cut, part);
                    }
                    Piece::Message { body, next } => {
                        *at = next;
                        reader.single_message(position, body, part)?;
                        if part.log_time().is_some() {
                            break Ok(());
                        }
                    }
                    Piece::Other { next, .. } => *at = next,
                    Piece::End(damage) => {
                        self.plan = Plan::Done;
                        break damage.map_or(Ok(()), Err);
                    }
                }
            },
        }
    }

    /// No message of a part that is not yet open is earlier than this.
    fn next_start(&self) -> Option<u64> {
        match &self.plan {
            Plan::ByTime { chunks, next } => chunks.get(*next).map(|chunk| chunk.start_time),
            Plan::ByPosition { .. } if self.head.is_none() => Some(0),
            Plan::ByPosition { .. } => None,
            Plan::Done => None,
        }
    }

    /// Passes over chunks that hold no wanted message.
    fn skip_unwanted(&mut self) {
        let Plan::ByTime { chunks, next } = &mut self.plan else { return };
        let is_wanted = |id: &u16| {
            self.topic_of.get(id).and_then(|topic| self.wanted.get(*topic)) == Some(&true)
        };
        while chunks.get(*next).is_some_and(|chunk| {
            !chunk.channels.is_empty() && !chunk.channels.iter().any(is_wanted)
        }) {
            *next += 1;
        }
    }

    /// Whether another compressed chunk would be one too many.
    fn is_full(&self) -> bool {
        let held: usize = self.open.iter().map(Part::held).sum();
        let next = match &self.plan {
            Plan::ByTime { chunks, next } => chunks.get(*next).map_or(0, |c| c.uncompressed_size),
            Plan::ByPosition { .. } | Plan::Done => 0,
        };
        held > 0 && (held as u64).saturating_add(next) > MAX_CHUNK_BYTES
    }

    fn find_head(&mut self) {
        let key = |part: &Part| (part.log_time(), part.extent().start);
        self.head = (0..self.open.len()).min_by_key(|at| self.open.get(*at).map(key));
    }
}
