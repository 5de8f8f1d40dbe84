//! Messages that are sent (9.4), in little endian.

use super::numbers::NumberSet;
use super::wire_time;
use crate::types::{EntityId, Guid, GuidPrefix};

/// A datagram that is being written.
pub(crate) struct Message {
    bytes: Vec<u8>,
}

/// A DATA submessage.
pub(crate) struct DataParts<'a> {
    pub reader: EntityId,
    pub writer: EntityId,
    pub number: i64,
    /// With its end; empty for none.
    pub inline: &'a [u8],
    pub payload: Payload<'a>,
}

/// What a DATA submessage carries.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    Data(&'a [u8]),
    Key(&'a [u8]),
}

/// A DATA_FRAG submessage of one fragment.
pub(crate) struct FragmentParts<'a> {
    pub reader: EntityId,
    pub writer: EntityId,
    pub number: i64,
    /// From 1.
    pub fragment: u32,
    pub size: u16,
    pub total: u32,
    /// With its end; empty for none.
    pub inline: &'a [u8],
    pub payload: &'a [u8],
}

const LITTLE: u8 = 1;
const FINAL: u8 = 2;

impl Message {
    /// A message from `prefix`: protocol version 2.3, a vendor without an assigned number.
    pub fn from(prefix: GuidPrefix) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend(b"RTPS\x02\x03");
        bytes.extend(crate::discovery::VENDOR);
        bytes.extend(prefix.0);
        Self { bytes }
    }

    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes a submessage with the body that `write` appends.
    fn submessage(&mut self, kind: u8, flags: u8, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.extend([kind, flags | LITTLE, 0, 0]);
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        // A body of more than 65535 bytes is the last one, which may leave its length out.
        let len = u16::try_from(self.bytes.len() - start).unwrap_or(0);
        if let Some(field) = self.bytes.get_mut(start - 2..start) {
            field.copy_from_slice(&len.to_le_bytes());
        }
    }

    /// What follows is for one participant.
    pub fn to(mut self, prefix: GuidPrefix) -> Self {
        self.submessage(0x0e, 0, |bytes| bytes.extend(prefix.0));
        self
    }

    pub fn timestamp(&mut self, nanos: i64) {
        let (seconds, fraction) = wire_time(nanos);
        self.submessage(0x09, 0, |bytes| {
            bytes.extend(seconds.to_le_bytes());
            bytes.extend(fraction.to_le_bytes());
        });
    }

    pub fn data(&mut self, parts: &DataParts<'_>) {
        let (payload, kind) = match parts.payload {
            Payload::Data(bytes) => (bytes, 4),
            Payload::Key(bytes) => (bytes, 8),
        };
        let flags = kind | if parts.inline.is_empty() { 0 } else { 2 };
        self.submessage(0x15, flags, |bytes| {
            bytes.extend([0, 0, 16, 0]);
            ids(bytes, parts.reader, parts.writer);
            number(bytes, parts.number);
            bytes.extend_from_slice(parts.inline);
            bytes.extend_from_slice(payload);
        });
    }

    pub fn data_frag(&mut self, parts: &FragmentParts<'_>) {
        let flags = if parts.inline.is_empty() { 0 } else { 2 };
        self.submessage(0x16, flags, |bytes| {
            bytes.extend([0, 0, 28, 0]);
            ids(bytes, parts.reader, parts.writer);
            number(bytes, parts.number);
            bytes.extend(parts.fragment.to_le_bytes());
            bytes.extend(1u16.to_le_bytes());
            bytes.extend(parts.size.to_le_bytes());
            bytes.extend(parts.total.to_le_bytes());
            bytes.extend_from_slice(parts.inline);
            bytes.extend_from_slice(parts.payload);
        });
    }

    /// `ids` are reader and writer, `range` the first and last number.
    pub fn heartbeat(&mut self, [reader, writer]: [EntityId; 2], range: [i64; 2], count: u32) {
        self.submessage(0x07, 0, |bytes| {
            ids(bytes, reader, writer);
            range.iter().for_each(|end| number(bytes, *end));
            bytes.extend(count.to_le_bytes());
        });
    }

    pub fn ack_nack(
        &mut self,
        reader: EntityId,
        writer: EntityId,
        set: &NumberSet,
        count: u32,
        is_final: bool,
    ) {
        self.submessage(0x06, if is_final { FINAL } else { 0 }, |bytes| {
            ids(bytes, reader, writer);
            number(bytes, set.base());
            set.write_bits(bytes);
            bytes.extend(count.to_le_bytes());
        });
    }

    pub fn nack_frag(
        &mut self,
        [reader, writer]: [EntityId; 2],
        of: i64,
        fragments: &NumberSet,
        count: u32,
    ) {
        self.submessage(0x12, 0, |bytes| {
            ids(bytes, reader, writer);
            number(bytes, of);
            bytes.extend((fragments.base() as u32).to_le_bytes());
            fragments.write_bits(bytes);
            bytes.extend(count.to_le_bytes());
        });
    }

    /// Numbers from `start` to before the base of `set`, and its members, do not exist.
    pub fn gap(&mut self, [reader, writer]: [EntityId; 2], start: i64, set: &NumberSet) {
        self.submessage(0x08, 0, |bytes| {
            ids(bytes, reader, writer);
            number(bytes, start);
            number(bytes, set.base());
            set.write_bits(bytes);
        });
    }
}

fn ids(bytes: &mut Vec<u8>, reader: EntityId, writer: EntityId) {
    bytes.extend(reader.0);
    bytes.extend(writer.0);
}

fn number(bytes: &mut Vec<u8>, value: i64) {
    bytes.extend(((value >> 32) as u32).to_le_bytes());
    bytes.extend((value as u32).to_le_bytes());
}

/// Inline QoS of a disposed and unregistered instance.
pub(crate) fn disposal(key: Guid) -> Vec<u8> {
    let mut list = super::ParameterWriter::default();
    list.put(super::pid::KEY_HASH, &key.to_bytes());
    list.put(super::pid::STATUS_INFO, &(super::DISPOSED | super::UNREGISTERED).to_be_bytes());
    list.end()
}
