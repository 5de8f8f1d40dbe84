//! The records of an MCAP file, read with every length checked.
//!
//! A record is an opcode, a 64-bit length and a body; all integers are little
//! endian. Only the fields that replay needs are read, the others are skipped.
//! The layout is that of the specification at <https://mcap.dev/spec>.

use std::collections::BTreeMap;

use super::options::MAX_NAME_BYTES;

/// The eight bytes at both ends of an MCAP file.
pub(super) const MAGIC: &[u8; 8] = b"\x89MCAP0\r\n";
/// Size of the opcode and the length before every body.
pub(super) const RECORD_HEAD: usize = 9;

pub(super) mod opcode {
    pub const FOOTER: u8 = 0x02;
    pub const SCHEMA: u8 = 0x03;
    pub const CHANNEL: u8 = 0x04;
    pub const MESSAGE: u8 = 0x05;
    pub const CHUNK: u8 = 0x06;
    pub const CHUNK_INDEX: u8 = 0x08;
    pub const STATISTICS: u8 = 0x0b;
    pub const DATA_END: u8 = 0x0f;
}

/// A record, or the reason why there is none.
pub(super) enum Step<'a> {
    /// A whole record: its opcode, its body and where the next one starts.
    Record { opcode: u8, body: &'a [u8], next: usize },
    /// The data ends exactly here.
    End,
    /// The data ends inside the record: its opcode, its claimed length (both 0 when
    /// the head is incomplete) and the rest of its body.
    Cut { opcode: u8, claimed: u64, body: &'a [u8] },
}

/// The record that starts at byte `at` of `data`.
pub(super) fn record_at(data: &[u8], at: usize) -> Step<'_> {
    let rest = data.get(at..).unwrap_or_default();
    if rest.is_empty() {
        return Step::End;
    }
    let mut fields = Fields(rest);
    let (Some(opcode), Some(claimed)) = (fields.u8(), fields.u64()) else {
        return Step::Cut { opcode: 0, claimed: 0, body: &[] };
    };
    let body = usize::try_from(claimed).ok().and_then(|len| fields.0.get(..len));
    match body {
        Some(body) => Step::Record { opcode, body, next: at + RECORD_HEAD + body.len() },
        None => Step::Cut { opcode, claimed, body: fields.0 },
    }
}

/// A cursor over the fields of one record; `None` when the record is too
/// short for the field.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes after their 32-bit count.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.bytes(usize::try_from(len).ok()?)
    }

    /// Text, copied before it is checked: the file is mapped and could change.
    /// `None` when it is not UTF-8.
    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.counted()?.to_vec()).ok()
    }

    /// Text of at most [`MAX_NAME_BYTES`].
    fn name(&mut self) -> Option<String> {
        let bytes = self.counted()?;
        if bytes.len() > MAX_NAME_BYTES {
            return None;
        }
        String::from_utf8(bytes.to_vec()).ok()
    }
}

/// A Channel record.
pub(super) struct Channel {
    pub(super) id: u16,
    pub(super) schema: u16,
    pub(super) topic: String,
    pub(super) encoding: String,
    pub(super) offered_qos: String,
}

impl Channel {
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let (id, schema) = (fields.u16()?, fields.u16()?);
        let (topic, encoding) = (fields.name()?, fields.name()?);
        let mut metadata = Fields(fields.counted()?);
        let mut offered_qos = String::new();
        while !metadata.0.is_empty() {
            let (key, value) = (metadata.text()?, metadata.text()?);
            if key == "offered_qos_profiles" {
                offered_qos = value;
            }
        }
        Some(Self { id, schema, topic, encoding, offered_qos })
    }
}

/// The identifier and name of a Schema record.
pub(super) fn parse_schema(body: &[u8]) -> Option<(u16, String)> {
    let mut fields = Fields(body);
    Some((fields.u16()?, fields.name()?))
}

/// The head of a Message record.
pub(super) struct MessageHead {
    pub(super) channel: u16,
    pub(super) log_time: u64,
}

impl MessageHead {
    /// Channel, sequence, log time and publish time.
    pub(super) const LEN: usize = 2 + 4 + 8 + 8;

    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let channel = fields.u16()?;
        let (_sequence, log_time) = (fields.u32()?, fields.u64()?);
        let _publish_time = fields.u64()?;
        Some(Self { channel, log_time })
    }
}

/// A Chunk record: its head, and its contents as far as they are present.
pub(super) struct Chunk<'a> {
    pub(super) uncompressed_size: u64,
    pub(super) crc: u32,
    pub(super) compression: &'a [u8],
    /// Length of the contents that the head claims.
    pub(super) claimed: u64,
    /// The contents, shorter than claimed when the record is cut.
    pub(super) contents: &'a [u8],
}

impl<'a> Chunk<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let (_start, _end) = (fields.u64()?, fields.u64()?);
        let (uncompressed_size, crc) = (fields.u64()?, fields.u32()?);
        let compression = fields.counted()?;
        let claimed = fields.u64()?;
        let len = usize::try_from(claimed).unwrap_or(usize::MAX).min(fields.0.len());
        Some(Self { uncompressed_size, crc, compression, claimed, contents: fields.bytes(len)? })
    }

    /// Number of bytes of the body before the contents.
    pub(super) fn head_len(&self) -> usize {
        8 + 8 + 8 + 4 + 4 + self.compression.len() + 8
    }
}

/// A ChunkIndex record.
#[derive(Clone)]
pub(super) struct ChunkIndex {
    pub(super) start_time: u64,
    /// Not before `start_time`; the latest possible where the file gives an earlier one.
    pub(super) end_time: u64,
    /// Of the Chunk record in the file.
    pub(super) offset: usize,
    /// Of the Chunk record with its head.
    pub(super) len: usize,
    /// Of the MessageIndex records right behind it.
    pub(super) message_index_len: usize,
    /// Channels with messages in the chunk; empty when not recorded.
    pub(super) channels: Vec<u16>,
    pub(super) is_compressed: bool,
}

impl ChunkIndex {
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let (start_time, end_time) = (fields.u64()?, fields.u64()?);
        let end_time = if end_time < start_time { u64::MAX } else { end_time };
        let offset = usize::try_from(fields.u64()?).ok()?;
        let len = usize::try_from(fields.u64()?).ok()?;
        let mut map = Fields(fields.counted()?);
        let mut channels = Vec::new();
        while !map.0.is_empty() {
            channels.push(map.u16()?);
            map.u64()?;
        }
        let message_index_len = usize::try_from(fields.u64()?).ok()?;
        let is_compressed = !fields.counted()?.is_empty();
        let (_compressed_size, _uncompressed_size) = (fields.u64()?, fields.u64()?);
        let chunk =
            Self { start_time, end_time, offset, len, message_index_len, channels, is_compressed };
        Some(chunk)
    }
}

/// A Statistics record.
pub(super) struct Statistics {
    pub(super) num_messages: u64,
    pub(super) num_channels: u32,
    pub(super) num_chunks: u32,
    pub(super) start_time: u64,
    pub(super) end_time: u64,
    pub(super) per_channel: BTreeMap<u16, u64>,
}

impl Statistics {
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let num_messages = fields.u64()?;
        let _schemas = fields.u16()?;
        let num_channels = fields.u32()?;
        let (_attachments, _metadata) = (fields.u32()?, fields.u32()?);
        let num_chunks = fields.u32()?;
        let (start_time, end_time) = (fields.u64()?, fields.u64()?);
        let mut map = Fields(fields.counted()?);
        let mut per_channel = BTreeMap::new();
        while !map.0.is_empty() {
            per_channel.insert(map.u16()?, map.u64()?);
        }
        Some(Self { num_messages, num_channels, num_chunks, start_time, end_time, per_channel })
    }
}

/// A Footer record.
pub(super) struct Footer {
    pub(super) summary_start: u64,
    pub(super) summary_crc: u32,
}

impl Footer {
    /// Of the whole record, which precedes the closing magic.
    pub(super) const LEN: usize = RECORD_HEAD + 8 + 8 + 4;

    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let summary_start = fields.u64()?;
        let _summary_offset_start = fields.u64()?;
        Some(Self { summary_start, summary_crc: fields.u32()? })
    }
}
