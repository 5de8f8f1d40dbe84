//! The parts an MCAP file is read in: open chunks and single messages.
//!
//! A chunk cut by the end of the file gives the messages that are whole. A
//! compressed chunk whose stream or checksum is wrong gives none, because
//! where it is wrong cannot be known. Either way nothing behind it is opened.
//! The checksums of uncompressed chunks and of the whole data section are not
//! looked at.

use std::collections::BTreeMap;
use std::ops::Range;

use super::chunk::check_crc;
use super::mapped::Mapped;
use super::record::{Chunk, MessageHead, RECORD_HEAD, opcode};
use super::source::Damage;
use super::walk::{contents, walk};

/// An open chunk, or one message outside chunks.
#[derive(Default)]
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
}

/// Where a message stands in the contents of its part.
struct Entry {
    log_time: u64,
    topic: usize,
    start: usize,
    len: usize,
}

impl Part {
    /// Forgets the messages and keeps the buffers.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.next = 0;
    }

    /// Where the part stands in the file.
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

    /// Bytes of decompressed contents.
    pub(super) fn held(&self) -> usize {
        if self.mapped.is_some() { 0 } else { self.buffer.len() }
    }
}

/// What is needed to open a part, apart from the parts themselves.
pub(super) struct Reader<'a> {
    pub(super) topic_of: &'a BTreeMap<u16, usize>,
    pub(super) wanted: &'a [bool],
}

impl Reader<'_> {
    /// Opens the chunk at `position`. On damage `part` holds what is readable.
    pub(super) fn chunk(
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
        let is_mapped = chunk.compression.is_empty();
        if problem.is_none() && !is_mapped {
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
        part.extent = position..position + RECORD_HEAD + body.len();
        part.mapped = is_mapped.then(|| position + RECORD_HEAD + chunk.head_len());
        problem.map_or(Ok(()), |what| Err(damaged(what)))
    }

    /// Opens the message outside chunks whose record is at `position`; `part`
    /// stays empty when its topic is not wanted.
    pub(super) fn single_message(
        &self,
        position: usize,
        body: &[u8],
        part: &mut Part,
    ) -> Result<(), Damage> {
        part.extent = position..position + RECORD_HEAD + body.len();
        part.mapped = Some(0);
        self.message(body, position + RECORD_HEAD, &mut part.entries)
            .map_err(|what| Damage::at(position, what))
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
