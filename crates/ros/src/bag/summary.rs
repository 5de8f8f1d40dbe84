//! The summary of an MCAP file: declarations, statistics, index.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::options::MAX_DECLARED_BYTES;
use super::record::{
    Channel, ChunkIndex, Footer, MAGIC, RECORD_HEAD, Statistics, Step, opcode, parse_schema,
    record_at,
};
use super::topic::TopicInfo;

/// Schemas and channels, by identifier; the first declaration of each counts.
#[derive(Default)]
pub(super) struct Declared {
    schemas: BTreeMap<u16, String>,
    channels: BTreeMap<u16, Channel>,
    /// Bytes of QoS profiles.
    num_bytes: usize,
}

impl Declared {
    /// Keeps what a Schema or Channel record declares and ignores all others;
    /// false when the record is malformed or declares too much.
    pub(super) fn note(&mut self, opcode: u8, body: &[u8]) -> bool {
        match opcode {
            opcode::SCHEMA => {
                let Some((id, name)) = parse_schema(body) else { return false };
                self.schemas.entry(id).or_insert(name);
            }
            opcode::CHANNEL => {
                let Some(channel) = Channel::parse(body) else { return false };
                if let Entry::Vacant(place) = self.channels.entry(channel.id) {
                    self.num_bytes += channel.offered_qos.len();
                    if self.num_bytes > MAX_DECLARED_BYTES {
                        return false;
                    }
                    place.insert(channel);
                }
            }
            _ => {}
        }
        true
    }

    /// One topic per channel, in the order of the channel identifiers, and
    /// the index of each channel in that list.
    pub(super) fn topics(
        &self,
        num_messages: Option<&BTreeMap<u16, u64>>,
    ) -> (Vec<TopicInfo>, BTreeMap<u16, usize>) {
        let type_of =
            |channel: &Channel| self.schemas.get(&channel.schema).map_or("", String::as_str);
        let topic = |channel: &Channel| TopicInfo {
            num_messages: num_messages.map(|all| all.get(&channel.id).copied().unwrap_or(0)),
            offered_qos: channel.offered_qos.clone(),
            ..TopicInfo::declared(&channel.topic, type_of(channel), &channel.encoding)
        };
        let topics = self.channels.values().map(topic).collect();
        let topic_of = self.channels.keys().enumerate().map(|(index, id)| (*id, index)).collect();
        (topics, topic_of)
    }
}

/// The summary section at the end of a complete file.
pub(super) struct Summary {
    pub(super) declared: Declared,
    /// Sorted by start time, then position.
    pub(super) chunks: Vec<ChunkIndex>,
    pub(super) statistics: Option<Statistics>,
}

impl Summary {
    /// Reads the summary, or gives `None` when the file has none that can be
    /// relied on: no footer, wrong checksum, malformed or contradictory
    /// records, or messages in places the index does not name. The recording
    /// is then read by position.
    pub(super) fn read(file: &[u8]) -> Option<Self> {
        let (rest, magic) = file.split_last_chunk::<8>()?;
        let footer_at = rest.len().checked_sub(Footer::LEN)?;
        let Step::Record { opcode: opcode::FOOTER, body, .. } = record_at(rest, footer_at) else {
            return None;
        };
        let footer = Footer::parse(body)?;
        let start = usize::try_from(footer.summary_start).ok()?;
        if magic != MAGIC || start < MAGIC.len() || start > footer_at {
            return None;
        }
        let checked = rest.get(start..rest.len() - 4)?;
        if footer.summary_crc != 0 && crc32fast::hash(checked) != footer.summary_crc {
            return None;
        }
        let summary = Self::parse(rest.get(start..footer_at)?)?;
        summary.is_complete(file, start, footer.summary_crc == 0).then_some(summary)
    }

    fn parse(section: &[u8]) -> Option<Self> {
        let mut summary =
            Self { declared: Declared::default(), chunks: Vec::new(), statistics: None };
        let mut at = 0;
        loop {
            match record_at(section, at) {
                Step::Record { opcode, body, next } => {
                    at = next;
                    match opcode {
                        opcode::CHUNK_INDEX => summary.chunks.push(ChunkIndex::parse(body)?),
                        opcode::STATISTICS => summary.statistics = Some(Statistics::parse(body)?),
                        _ if !summary.declared.note(opcode, body) => return None,
                        _ => {}
                    }
                }
                Step::End => break,
                Step::Cut { .. } => return None,
            }
        }
        summary.chunks.sort_by_key(|chunk| (chunk.start_time, chunk.offset));
        Some(summary)
    }

    /// Whether the summary names every channel and every chunk of `file`,
    /// whose summary starts at `end`. Without a checksum each chunk is looked
    /// up as well.
    fn is_complete(&self, file: &[u8], end: usize, look_up: bool) -> bool {
        let channels = &self.declared.channels;
        if let Some(statistics) = &self.statistics
            && (statistics.num_channels as usize != channels.len()
                || statistics.num_chunks as usize != self.chunks.len())
        {
            return false;
        }
        let known = |chunk: &ChunkIndex| chunk.channels.iter().all(|id| channels.contains_key(id));
        if channels.is_empty() || !self.chunks.iter().all(known) {
            return false;
        }
        if self.chunks.is_empty() {
            return self.statistics.is_some();
        }
        let mut by_position: Vec<_> = self.chunks.iter().collect();
        by_position.sort_by_key(|chunk| chunk.offset);
        let mut at = MAGIC.len();
        for chunk in by_position {
            if !has_only_declarations(file, at, chunk.offset)
                || look_up && !is_chunk(file, chunk.offset, chunk.len)
            {
                return false;
            }
            let behind = chunk.len.checked_add(chunk.message_index_len);
            let Some(next) = behind.and_then(|len| chunk.offset.checked_add(len)) else {
                return false;
            };
            at = next;
        }
        has_only_declarations(file, at, end)
    }
}

/// Whether the records between two positions hold neither messages nor chunks.
fn has_only_declarations(file: &[u8], mut at: usize, end: usize) -> bool {
    let Some(part) = file.get(..end) else { return false };
    while at != end {
        match record_at(part, at) {
            Step::Record { opcode: opcode::DATA_END, .. } => return true,
            Step::Record { opcode, next, .. }
                if opcode != opcode::MESSAGE && opcode != opcode::CHUNK =>
            {
                at = next;
            }
            _ => return false,
        }
    }
    true
}

fn is_chunk(file: &[u8], at: usize, len: usize) -> bool {
    matches!(record_at(file, at), Step::Record { opcode: opcode::CHUNK, body, .. }
        if body.len() + RECORD_HEAD == len)
}
