//! Lists of parameters (9.4.2.11): discovery samples and inline QoS.

use super::cursor::Cursor;
use crate::types::{Guid, SampleIdentity};

/// Identifiers of parameters (9.6.3).
pub(crate) mod pid {
    pub const SENTINEL: u16 = 0x0001;
    pub const LEASE_DURATION: u16 = 0x0002;
    pub const TOPIC_NAME: u16 = 0x0005;
    pub const TYPE_NAME: u16 = 0x0007;
    pub const DOMAIN_ID: u16 = 0x000f;
    pub const PROTOCOL_VERSION: u16 = 0x0015;
    pub const VENDOR_ID: u16 = 0x0016;
    pub const RELIABILITY: u16 = 0x001a;
    pub const LIVELINESS: u16 = 0x001b;
    pub const DURABILITY: u16 = 0x001d;
    pub const OWNERSHIP: u16 = 0x001f;
    pub const PRESENTATION: u16 = 0x0021;
    pub const DEADLINE: u16 = 0x0023;
    pub const DESTINATION_ORDER: u16 = 0x0025;
    pub const PARTITION: u16 = 0x0029;
    pub const USER_DATA: u16 = 0x002c;
    pub const UNICAST_LOCATOR: u16 = 0x002f;
    pub const DEFAULT_UNICAST_LOCATOR: u16 = 0x0031;
    pub const METATRAFFIC_UNICAST_LOCATOR: u16 = 0x0032;
    pub const METATRAFFIC_MULTICAST_LOCATOR: u16 = 0x0033;
    pub const HISTORY: u16 = 0x0040;
    pub const PARTICIPANT_GUID: u16 = 0x0050;
    pub const BUILTIN_ENDPOINT_SET: u16 = 0x0058;
    pub const ENDPOINT_GUID: u16 = 0x005a;
    pub const ENTITY_NAME: u16 = 0x0062;
    pub const KEY_HASH: u16 = 0x0070;
    pub const STATUS_INFO: u16 = 0x0071;
    /// Related sample identity of DDS-RPC, and what Fast DDS used before.
    pub const RELATED: u16 = 0x0083;
    pub const RELATED_FAST_DDS: u16 = 0x800f;
}

/// A parameter and the bytes of its value.
pub(crate) struct Parameter<'a> {
    pub id: u16,
    pub value: Cursor<'a>,
}

/// Passes each parameter to `each` up to the list's end, which is consumed; `None` when the
/// list has no end.
pub(crate) fn parameters<'a>(
    cursor: &mut Cursor<'a>,
    mut each: impl FnMut(Parameter<'a>),
) -> Option<()> {
    loop {
        let (id, len) = (cursor.u16()?, cursor.u16()?);
        if id == pid::SENTINEL {
            return Some(());
        }
        let value = cursor.take(len.into())?;
        // The bit "must understand" is of other vendors' meaning for vendor-specific ones.
        let id = if id & 0x8000 == 0 { id & !0x4000 } else { id };
        each(Parameter { id, value: Cursor::new(value, cursor.is_big()) });
    }
}

/// What is read of inline QoS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inline {
    /// The number is -1 << 32 where it is unknown.
    pub related: Option<SampleIdentity>,
    pub status: u32,
    pub key_hash: Option<Guid>,
}

impl Inline {
    /// Reads inline QoS to its end.
    pub fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let mut inline = Self::default();
        parameters(cursor, |Parameter { id, mut value }| match id {
            pid::RELATED | pid::RELATED_FAST_DDS => {
                if let (Some(writer), Some(number)) = (value.guid(), value.raw_number()) {
                    inline.related = Some(SampleIdentity { writer, number });
                }
            }
            // Always big endian.
            pid::STATUS_INFO => {
                inline.status = value.array().map_or(0, u32::from_be_bytes);
            }
            pid::KEY_HASH => inline.key_hash = value.guid(),
            _ => {}
        })?;
        Some(inline)
    }
}

/// Writes a list of parameters in little endian.
#[derive(Default)]
pub(crate) struct ParameterWriter(Vec<u8>);

impl ParameterWriter {
    /// A discovery sample: its encapsulation header (10.2) precedes the list.
    pub fn sample() -> Self {
        Self(vec![0, 3, 0, 0])
    }

    pub fn put(&mut self, id: u16, value: &[u8]) {
        let padded = value.len().next_multiple_of(4);
        self.0.extend(id.to_le_bytes());
        self.0.extend((padded as u16).to_le_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len() + padded - value.len(), 0);
    }

    pub fn put_u32(&mut self, id: u16, value: u32) {
        self.put(id, &value.to_le_bytes());
    }

    pub fn put_text(&mut self, id: u16, text: &str) {
        let len = (text.len() as u32 + 1).to_le_bytes();
        self.put(id, &[&len, text.as_bytes(), &[0]].concat());
    }

    pub fn put_octets(&mut self, id: u16, octets: &[u8]) {
        self.put(id, &[&(octets.len() as u32).to_le_bytes(), octets].concat());
    }

    pub fn put_related(&mut self, related: SampleIdentity) {
        let mut value = related.writer.to_bytes().to_vec();
        value.extend(((related.number >> 32) as u32).to_le_bytes());
        value.extend((related.number as u32).to_le_bytes());
        self.put(pid::RELATED, &value);
        self.put(pid::RELATED_FAST_DDS, &value);
    }

    /// The list with its end.
    pub fn end(mut self) -> Vec<u8> {
        self.0.extend([1, 0, 0, 0]);
        self.0
    }
}
