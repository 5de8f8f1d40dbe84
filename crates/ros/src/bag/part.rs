//! The parts an MCAP file is read in: open chunks and single messages.
//!
//! A chunk cut by the end of the file gives the messages that are whole. A
//! compressed chunk whose stream or checksum is wrong gives none, because
//! where it is wrong cannot be known. Either way nothing behind it is opened.
//! The checksums of uncompressed chunks and of the whole data section are not
//! checked.

use std::collections::BTreeMap;
use std::ops::Range;

use super::budget::{MemoryBudget, Reservation};
use super::chunk::check_crc;
use super::damage::Damage;
use super::mapped::Mapped;
use super::record::{Chunk, MessageHead, RECORD_HEAD, opcode};
use super::span::LogSpan;
use super::time::stamp;
use super::walk::{contents, walk};

/// The most memory of a part that is kept for the next one.
const MAX_SPARE_BYTES: usize = 32 << 20;

/// Buffers up to four times this size are kept whatever the next part needs.
const MIN_SHRUNK_BYTES: usize = 64 << 10;

/// An open chunk, or one message outside chunks.
pub(super) struct Part {
    /// Bytes of the file.
    extent: Range<usize>,
    /// Where the contents start in the mapped file; `None` when `buffer`
    /// holds them.
    mapped: Option<usize>,
    buffer: Vec<u8>,
    /// Sorted by log time, ties by position.
    entries: Vec<Entry>,
    next: usize,
    /// Covers the capacities of `buffer` and `entries`.
    memory: Reservation,
}

/// The position of a message in the contents of its part.
struct Entry {
    log_time: u64,
    topic: usize,
    start: usize,
    len: usize,
}

/// Why a part is not open.
pub(super) enum Unopened {
    /// It holds what is readable.
    Damaged(Damage),
    /// The budget lacks memory for it: the bytes that it needs.
    OverBudget(usize),
}

impl Part {
    pub(super) fn new(budget: &'static MemoryBudget) -> Self {
        Self {
            extent: 0..0,
            mapped: None,
            buffer: Vec::new(),
            entries: Vec::new(),
            next: 0,
            memory: Reservation::new(budget),
        }
    }

    /// Removes the messages and keeps the buffers.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.entries.clear();
        self.next = 0;
    }

    /// Whether its buffers are small enough to be kept for another part.
    pub(super) fn is_spare(&self) -> bool {
        self.num_bytes() <= MAX_SPARE_BYTES
    }

    /// Drops buffers that are much larger than contents of this length need, so
    /// that a small chunk that stays open long does not hold those of a large
    /// one.
    fn shrink(&mut self, num_contents: usize) {
        if self.num_bytes() / 4 > num_contents.max(MIN_SHRUNK_BYTES) {
            self.buffer = Vec::new();
            self.entries = Vec::new();
            self.give_back();
        }
    }

    /// Bytes of the buffers.
    fn num_bytes(&self) -> usize {
        self.buffer.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// The position of the part in the file.
    pub(super) fn extent(&self) -> Range<usize> {
        self.extent.clone()
    }

    /// Log time of the next message, `None` when there is none.
    pub(super) fn log_time(&self) -> Option<u64> {
        self.entries.get(self.next).map(|entry| entry.log_time)
    }

    /// The next message: its topic in the file and its payload.
    pub(super) fn message<'a>(&'a self, map: &'a Mapped) -> Option<(usize, &'a [u8])> {
        let entry = self.entries.get(self.next)?;
        let contents = match self.mapped {
            Some(start) => map.get(start..)?,
            None => &self.buffer,
        };
        Some((entry.topic, contents.get(entry.start..)?.get(..entry.len)?))
    }

    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Releases memory that was reserved and is not used.
    fn give_back(&mut self) {
        let num_bytes = self.num_bytes().min(self.memory.num_bytes());
        let _shrinking = self.memory.resize(num_bytes);
    }
}

/// What is needed to open a part, apart from the parts themselves.
pub(super) struct Reader<'a> {
    pub(super) topic_of: &'a BTreeMap<u16, usize>,
    pub(super) wanted: &'a [bool],
    pub(super) limits: LogSpan,
}

impl Reader<'_> {
    /// Opens the chunk at `position`.
    pub(super) fn chunk(
        &self,
        position: usize,
        body: &[u8],
        cut: bool,
        part: &mut Part,
    ) -> Result<(), Unopened> {
        let damaged = |what| Unopened::Damaged(Damage::at(position, what));
        let chunk = Chunk::parse(body).ok_or_else(|| {
            damaged(format!("the head of a chunk does not fit its {} bytes", body.len()))
        })?;
        let is_mapped = chunk.compression.is_empty();
        let num_contents = if is_mapped { 0 } else { chunk.uncompressed_size };
        let num_contents = usize::try_from(num_contents).unwrap_or(usize::MAX);
        part.shrink(num_contents);
        let Part { buffer, entries, memory, .. } = part;
        reserve(memory, num_contents.saturating_sub(buffer.capacity()))?;
        let (mut contents, mut problem) = contents(&chunk, cut, buffer);
        if problem.is_none() && !is_mapped {
            problem = check_crc(&chunk, contents).err();
            contents = if problem.is_none() { contents } else { &[] };
        }
        let listed = self.list(contents, entries, memory)?;
        part.extent = position..position + RECORD_HEAD + body.len();
        part.mapped = is_mapped.then(|| position + RECORD_HEAD + chunk.head_len());
        part.give_back();
        problem.or(listed.err()).map_or(Ok(()), |what| Err(damaged(what)))
    }

    /// Opens the message outside chunks whose record is at `position`; `part`
    /// remains empty when its topic is not selected.
    pub(super) fn single_message(
        &self,
        position: usize,
        body: &[u8],
        part: &mut Part,
    ) -> Result<(), Unopened> {
        part.extent = position..position + RECORD_HEAD + body.len();
        part.mapped = Some(0);
        let damaged = |what| Unopened::Damaged(Damage::at(position, what));
        if let Some(entry) = self.entry(body, position + RECORD_HEAD).map_err(damaged)? {
            let Part { entries, memory, .. } = part;
            reserve_entries(memory, entries, 1)?;
            entries.push(entry);
        }
        Ok(())
    }

    /// Lists the wanted messages of a chunk by log time, as far as its records
    /// are readable; the inner error states where they are not.
    fn list(
        &self,
        contents: &[u8],
        entries: &mut Vec<Entry>,
        memory: &mut Reservation,
    ) -> Result<Result<(), String>, Unopened> {
        let each = |visit: &mut dyn FnMut(Entry)| {
            walk(contents, |opcode, body, at| {
                if opcode == opcode::MESSAGE {
                    self.entry(body, at)?.into_iter().for_each(&mut *visit);
                }
                Ok(())
            })
        };
        let mut num_entries = 0;
        let listed = each(&mut |_| num_entries += 1);
        reserve_entries(memory, entries, num_entries)?;
        let _same = each(&mut |entry| entries.push(entry));
        if !entries.is_sorted_by_key(|entry| entry.log_time) {
            // An unstable sort needs no buffer.
            entries.sort_unstable_by_key(|entry| (entry.log_time, entry.start));
        }
        Ok(listed)
    }

    /// The message of one record whose body starts at `at`; `None` when its
    /// topic or log time is not wanted.
    fn entry(&self, body: &[u8], at: usize) -> Result<Option<Entry>, String> {
        let MessageHead { channel, log_time } = MessageHead::parse(body).ok_or_else(|| {
            format!(
                "a message record has {} bytes, fewer than the {} of its head",
                body.len(),
                MessageHead::LEN
            )
        })?;
        let topic = *self
            .topic_of
            .get(&channel)
            .ok_or_else(|| format!("a message is on channel {channel}, which is not declared"))?;
        let len = body.len() - MessageHead::LEN;
        let entry = Entry { log_time, topic, start: at + MessageHead::LEN, len };
        let is_wanted = self.wanted.get(topic) == Some(&true);
        Ok((is_wanted && self.limits.contains(stamp(log_time))).then_some(entry))
    }
}

/// Adds `more` bytes to the memory of a part.
fn reserve(memory: &mut Reservation, more: usize) -> Result<(), Unopened> {
    let num_bytes = memory.num_bytes().saturating_add(more);
    if memory.resize(num_bytes) { Ok(()) } else { Err(Unopened::OverBudget(num_bytes)) }
}

/// Reserves memory for exactly `num` entries of an empty list.
fn reserve_entries(
    memory: &mut Reservation,
    entries: &mut Vec<Entry>,
    num: usize,
) -> Result<(), Unopened> {
    let more = num.saturating_sub(entries.capacity());
    reserve(memory, more.saturating_mul(size_of::<Entry>()))?;
    entries.reserve_exact(num);
    Ok(())
}
