//! Submessages that arrive (8.3.7 and 9.4.5).

use super::cursor::Cursor;
use super::numbers::NumberSet;
use super::parameters::Inline;
use crate::types::{EntityId, GuidPrefix};

/// The header of a datagram (8.3.3, 9.4.4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub prefix: GuidPrefix,
}

/// A submessage that is understood.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Submessage<'a> {
    Data(Data<'a>),
    DataFrag(DataFrag<'a>),
    Heartbeat(Heartbeat),
    AckNack(AckNack),
    NackFrag(NackFrag),
    Gap(Gap),
    /// Time of the samples that follow.
    InfoTimestamp(Option<i64>),
    /// To whom what follows is; no prefix for all.
    InfoDestination(GuidPrefix),
    /// From whom what follows is.
    InfoSource(GuidPrefix),
    /// Of another kind.
    Other,
}

/// 8.3.7.2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data<'a> {
    pub reader: EntityId,
    pub writer: EntityId,
    pub number: i64,
    pub inline: Inline,
    /// Empty without data.
    pub payload: &'a [u8],
    /// The payload is a key.
    pub is_key: bool,
}

/// 8.3.7.3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataFrag<'a> {
    pub reader: EntityId,
    pub writer: EntityId,
    pub number: i64,
    /// The first fragment of this submessage, from 1.
    pub first: u32,
    /// How many fragments follow each other in the payload.
    pub count: u16,
    /// Bytes of a fragment but the last, not 0.
    pub size: u16,
    /// Bytes of the sample.
    pub total: u32,
    pub inline: Option<Inline>,
    pub payload: &'a [u8],
}

/// 8.3.7.5.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    pub reader: EntityId,
    pub writer: EntityId,
    /// From 1.
    pub first: i64,
    /// `first - 1` when the writer holds nothing.
    pub last: i64,
    pub count: u32,
    /// No answer is wanted.
    pub is_final: bool,
}

/// 8.3.7.1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckNack {
    pub reader: EntityId,
    pub writer: EntityId,
    /// All before its base is confirmed; its members are asked for.
    pub set: NumberSet,
    pub count: u32,
    /// No heartbeat is wanted.
    pub is_final: bool,
}

/// 8.3.7.10.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NackFrag {
    pub reader: EntityId,
    pub writer: EntityId,
    pub number: i64,
    pub fragments: NumberSet,
}

/// 8.3.7.4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    pub reader: EntityId,
    pub writer: EntityId,
    pub start: i64,
    /// All from `start` to before its base, and its members, do not exist.
    pub set: NumberSet,
}

const DATA_FLAG: u8 = 4;
const KEY_FLAG: u8 = 8;

/// The submessages of a datagram. A malformed one ends the datagram (8.3.4.1): `None` is
/// in its place.
pub(crate) struct Submessages<'a> {
    rest: &'a [u8],
}

impl Header {
    /// The header of a datagram and its submessages; `None` for another protocol.
    pub fn read(datagram: &[u8]) -> Option<(Self, Submessages<'_>)> {
        let mut cursor = Cursor::new(datagram, true);
        let [r, t, p, s, major, _minor] = cursor.array()?;
        let _vendor: [u8; 2] = cursor.array()?;
        let prefix = cursor.prefix()?;
        let is_rtps = [r, t, p, s] == *b"RTPS" && major == 2;
        is_rtps.then(|| (Self { prefix }, Submessages { rest: cursor.rest() }))
    }
}

impl<'a> Iterator for Submessages<'a> {
    type Item = Option<Submessage<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let found = self.read();
        if found.is_none() {
            self.rest = &[];
        }
        Some(found)
    }
}

impl<'a> Submessages<'a> {
    fn read(&mut self) -> Option<Submessage<'a>> {
        let [kind, flags] = Cursor::new(self.rest, true).array()?;
        let mut cursor = Cursor::new(self.rest.get(2..)?, flags & 1 == 0);
        let len = usize::from(cursor.u16()?);
        // 9.4.5.1.3: the last submessage may leave its length out.
        let is_empty_kind = kind == 0x01 || kind == 0x09;
        let body = if len == 0 && !is_empty_kind {
            cursor.take(cursor.rest().len())?
        } else {
            cursor.take(len)?
        };
        self.rest = cursor.rest();
        let mut body = Cursor::new(body, flags & 1 == 0);
        match kind {
            0x06 => ack_nack(&mut body, flags).map(Submessage::AckNack),
            0x07 => heartbeat(&mut body, flags).map(Submessage::Heartbeat),
            0x08 => gap(&mut body).map(Submessage::Gap),
            0x09 if flags & 2 != 0 => Some(Submessage::InfoTimestamp(None)),
            0x09 => Some(Submessage::InfoTimestamp(super::nanos(body.u32()?, body.u32()?))),
            0x0c => {
                body.take(8)?;
                body.prefix().map(Submessage::InfoSource)
            }
            0x0e => body.prefix().map(Submessage::InfoDestination),
            0x12 => nack_frag(&mut body).map(Submessage::NackFrag),
            0x15 => data(&mut body, flags).map(Submessage::Data),
            0x16 => data_frag(&mut body, flags).map(Submessage::DataFrag),
            _ => Some(Submessage::Other),
        }
    }
}

fn ack_nack(body: &mut Cursor<'_>, flags: u8) -> Option<AckNack> {
    let (reader, writer) = (body.entity()?, body.entity()?);
    let set = NumberSet::read(body)?;
    Some(AckNack { reader, writer, set, count: body.u32()?, is_final: flags & 2 != 0 })
}

fn heartbeat(body: &mut Cursor<'_>, flags: u8) -> Option<Heartbeat> {
    let (reader, writer) = (body.entity()?, body.entity()?);
    let (first, last) = (body.number()?, body.number()?);
    let count = body.u32()?;
    let is_valid = first >= 1 && last >= first - 1;
    is_valid.then_some(Heartbeat { reader, writer, first, last, count, is_final: flags & 2 != 0 })
}

fn gap(body: &mut Cursor<'_>) -> Option<Gap> {
    let (reader, writer) = (body.entity()?, body.entity()?);
    let (start, set) = (body.number()?, NumberSet::read(body)?);
    (start >= 1 && set.base() >= start).then_some(Gap { reader, writer, start, set })
}

fn nack_frag(body: &mut Cursor<'_>) -> Option<NackFrag> {
    let (reader, writer, number) = (body.entity()?, body.entity()?, body.number()?);
    let fragments = NumberSet::read_fragments(body)?;
    body.u32()?;
    Some(NackFrag { reader, writer, number, fragments })
}

/// Skips to inline QoS, `fixed` bytes after the field that says so, of which `read` are read.
fn to_inline_qos(body: &mut Cursor<'_>, octets: u16, read: u16) -> Option<()> {
    body.take(octets.checked_sub(read)?.into())?;
    Some(())
}

fn data<'a>(body: &mut Cursor<'a>, flags: u8) -> Option<Data<'a>> {
    body.u16()?;
    let octets = body.u16()?;
    let (reader, writer, number) = (body.entity()?, body.entity()?, body.number()?);
    to_inline_qos(body, octets, 16)?;
    let inline = if flags & 2 != 0 { Inline::read(body)? } else { Inline::default() };
    let has_payload = flags & (DATA_FLAG | KEY_FLAG) != 0;
    let payload = if has_payload { body.rest() } else { &[] };
    let is_key = flags & KEY_FLAG != 0;
    (number >= 1).then_some(Data { reader, writer, number, inline, payload, is_key })
}

fn data_frag<'a>(body: &mut Cursor<'a>, flags: u8) -> Option<DataFrag<'a>> {
    body.u16()?;
    let octets = body.u16()?;
    let (reader, writer, number) = (body.entity()?, body.entity()?, body.number()?);
    let (first, count, size, total) = (body.u32()?, body.u16()?, body.u16()?, body.u32()?);
    to_inline_qos(body, octets, 28)?;
    let inline = if flags & 2 != 0 { Some(Inline::read(body)?) } else { None };
    let is_valid = number >= 1 && first >= 1 && size >= 1 && total >= 1;
    let payload = body.rest();
    is_valid.then_some(DataFrag {
        reader,
        writer,
        number,
        first,
        count,
        size,
        total,
        inline,
        payload,
    })
}
