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
//! open are delivered first.
//!
//! A chunk cut by the end of the file gives the messages that are whole. A
//! chunk whose stream or checksum is wrong gives none, because where it is
//! wrong cannot be known. Either way nothing behind it is opened.
//! The checksum over the whole data section is not looked at.

use std::collections::BTreeMap;

use super::TopicInfo;
use super::chunk::{Compression, MAX_CHUNK_BYTES, check_crc, decompress};
use super::mapped::Mapped;
use super::record::{Chunk, ChunkIndex, MAGIC, MessageHead, RECORD_HEAD, Step, opcode, record_at};
use super::source::{Damage, Head, stamp};
use super::summary::{Census, Summary};
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

/// An open chunk, or one message outside chunks.
#[derive(Default)]
struct Part {
    position: usize,
    /// Where the contents start in the mapped file; `None` when `buffer`
    /// holds them.
    mapped: Option<usize>,
    buffer: Vec<u8>,
    /// Sorted by log time, ties by position.
    entries: Vec<Entry>,
    next: usize,
}

struct Entry {
    log_time: u64,
    topic: usize,
    start: usize,
    len: usize,
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
                let Census { declared, num_messages, span } = census(&map);
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
        let part = self.open.get(self.head?)?;
        let entry = part.entries.get(part.next)?;
        let contents = match part.mapped {
            Some(start) => self.map.get(start..)?,
            None => &part.buffer,
        };
        Some((entry.topic, contents.get(entry.start..)?.get(..entry.len)?))
    }

    /// Drops the message at the head.
    pub(super) fn advance(&mut self) {
        let Some(at) = self.head else { return };
        if let Some(part) = self.open.get_mut(at) {
            part.next += 1;
            if part.log_time().is_none() {
                self.spare.push(self.open.swap_remove(at));
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
        part.next = 0;
        match part.entries.is_empty() {
            true => self.spare.push(part),
            false => self.open.push(part),
        }
        self.skip_unwanted();
        self.find_head();
    }

    fn load_into(&mut self, part: &mut Part) -> Result<(), Damage> {
        part.entries.clear();
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
                        part.position = position;
                        part.mapped = Some(0);
                        reader
                            .message(body, position + RECORD_HEAD, &mut part.entries)
                            .map_err(|what| Damage::at(position, what))?;
                        if !part.entries.is_empty() {
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
        let key = |part: &Part| (part.log_time(), part.position);
        self.head = (0..self.open.len()).min_by_key(|at| self.open.get(*at).map(key));
    }
}

impl Part {
    fn log_time(&self) -> Option<u64> {
        self.entries.get(self.next).map(|entry| entry.log_time)
    }

    fn held(&self) -> usize {
        if self.mapped.is_some() { 0 } else { self.buffer.len() }
    }
}

/// What stands at one position of the data section.
enum Piece<'a> {
    /// A chunk, `cut` when the file ends inside it.
    Chunk { body: &'a [u8], cut: bool, next: usize },
    /// A message outside chunks.
    Message { body: &'a [u8], next: usize },
    /// Any other record.
    Other { opcode: u8, body: &'a [u8], next: usize },
    /// The data section ends here, or breaks off.
    End(Option<Damage>),
}

fn piece_at(file: &[u8], at: usize) -> Piece<'_> {
    match record_at(file, at) {
        Step::Record { opcode: opcode::CHUNK, body, next } => {
            Piece::Chunk { body, cut: false, next }
        }
        Step::Cut { opcode: opcode::CHUNK, body, .. } => {
            Piece::Chunk { body, cut: true, next: file.len() }
        }
        Step::Record { opcode: opcode::MESSAGE, body, next } => Piece::Message { body, next },
        Step::Record { opcode: opcode::DATA_END | opcode::FOOTER, .. } => Piece::End(None),
        Step::Record { opcode: 0, .. } => {
            Piece::End(Some(Damage::at(at, "found no record, its opcode is 0")))
        }
        Step::Record { opcode, body, next } => Piece::Other { opcode, body, next },
        Step::End => Piece::End(Some(Damage::at(at, "the file ends without a DataEnd record"))),
        Step::Cut { opcode, claimed, body } => Piece::End(Some(Damage::at(
            at,
            format!(
                "the file ends inside a record (opcode {opcode:#04x}) with {} of {claimed} bytes",
                body.len()
            ),
        ))),
    }
}

/// Reads the file through for its declarations, as far as it is readable.
fn census(file: &[u8]) -> Census {
    let mut census = Census::default();
    let mut buffer = Vec::new();
    let mut at = MAGIC.len();
    loop {
        match piece_at(file, at) {
            Piece::Chunk { body, cut, next } => {
                at = next;
                let Some(chunk) = Chunk::parse(body) else { break };
                let (contents, problem) = contents(&chunk, cut, &mut buffer);
                let walked = walk(contents, |opcode, body, _| {
                    census.note(opcode, body);
                    Ok(())
                });
                if problem.is_some() || walked.is_err() {
                    break;
                }
            }
            Piece::Message { body, next } => {
                at = next;
                census.note(opcode::MESSAGE, body);
            }
            Piece::Other { opcode, body, next } => {
                at = next;
                census.note(opcode, body);
            }
            Piece::End(_) => break,
        }
    }
    census
}

/// The readable contents of a chunk, and what is wrong with them.
fn contents<'a>(
    chunk: &Chunk<'a>,
    cut: bool,
    buffer: &'a mut Vec<u8>,
) -> (&'a [u8], Option<String>) {
    let unpacked = match Compression::of(chunk) {
        Ok(Compression::None) if cut || chunk.uncompressed_size == chunk.claimed => {
            buffer.clear();
            Ok(chunk.contents)
        }
        Ok(Compression::None) => Err(format!(
            "the chunk holds {} bytes, its head says {}",
            chunk.claimed, chunk.uncompressed_size
        )),
        Ok(compression) => match decompress(chunk, compression, buffer) {
            Err(_) if cut => Ok(buffer.as_slice()),
            done => done.map(|()| buffer.as_slice()),
        },
        Err(what) => Err(what),
    };
    match unpacked {
        Ok(contents) if cut => {
            let left = chunk.contents.len();
            (
                contents,
                Some(format!(
                    "the file ends inside a chunk with {left} of {} bytes",
                    chunk.claimed
                )),
            )
        }
        Ok(contents) => (contents, None),
        Err(what) => (&[], Some(what)),
    }
}

/// Visits the records of a chunk: opcode, body, where the body starts.
fn walk(
    contents: &[u8],
    mut visit: impl FnMut(u8, &[u8], usize) -> Result<(), String>,
) -> Result<(), String> {
    let mut at = 0;
    loop {
        match record_at(contents, at) {
            Step::Record { opcode, body, next } => {
                visit(opcode, body, at + RECORD_HEAD)?;
                at = next;
            }
            Step::End => return Ok(()),
            Step::Cut { opcode, claimed, body } => {
                return Err(format!(
                    "the chunk ends inside a record (opcode {opcode:#04x}) with {} of {claimed} bytes",
                    body.len()
                ));
            }
        }
    }
}

/// What is needed to open a part, apart from the parts themselves.
struct Reader<'a> {
    topic_of: &'a BTreeMap<u16, usize>,
    wanted: &'a [bool],
}

impl Reader<'_> {
    /// Opens the chunk at `position`. On damage `part` holds what is readable.
    fn chunk(
        &self,
        position: usize,
        body: &[u8],
        cut: bool,
        part: &mut Part,
    ) -> Result<(), Damage> {
        let damaged = |what| Damage::at(position, what);
        let chunk = Chunk::parse(body).ok_or_else(|| {
            damaged(format!("the head of a chunk does not fit its {} bytes", body.len()))
        })?;
        let Part { buffer, entries, .. } = part;
        let (contents, mut problem) = contents(&chunk, cut, buffer);
        if problem.is_none() {
            check_crc(&chunk, contents).map_err(damaged)?;
        }
        let walked = walk(contents, |opcode, body, at| match opcode {
            opcode::MESSAGE => self.message(body, at, entries),
            _ => Ok(()),
        });
        problem = problem.or(walked.err());
        if !entries.is_sorted_by_key(|entry| entry.log_time) {
            entries.sort_by_key(|entry| entry.log_time);
        }
        part.position = position;
        part.mapped =
            chunk.compression.is_empty().then(|| position + RECORD_HEAD + chunk.head_len());
        problem.map_or(Ok(()), |what| Err(damaged(what)))
    }

    /// Notes the message of one record when its topic is wanted.
    fn message(&self, body: &[u8], at: usize, entries: &mut Vec<Entry>) -> Result<(), String> {
        let MessageHead { channel, log_time } = MessageHead::parse(body).ok_or_else(|| {
            format!(
                "a message record has {} bytes, its head alone has {}",
                body.len(),
                MessageHead::LEN
            )
        })?;
        let topic = *self
            .topic_of
            .get(&channel)
            .ok_or_else(|| format!("a message is on channel {channel}, which is not declared"))?;
        if self.wanted.get(topic) == Some(&true) {
            let len = body.len() - MessageHead::LEN;
            entries.push(Entry { log_time, topic, start: at + MessageHead::LEN, len });
        }
        Ok(())
    }
}
