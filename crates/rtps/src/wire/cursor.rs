//! Reads fields of either byte order, never beyond the end.

use crate::types::{EntityId, Guid, GuidPrefix};

/// Sequence numbers above it are malformed: no arithmetic on numbers overflows.
pub(crate) const MAX_NUMBER: i64 = 1 << 62;

/// The bytes that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    big: bool,
}

impl<'a> Cursor<'a> {
    /// Reads `bytes`, `big` endian or little.
    pub fn new(bytes: &'a [u8], big: bool) -> Self {
        Self { rest: bytes, big }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn is_big(&self) -> bool {
        self.big
    }

    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u16(&mut self) -> Option<u16> {
        let bytes = self.array()?;
        Some(if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub fn u32(&mut self) -> Option<u32> {
        let bytes = self.array()?;
        Some(if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub fn entity(&mut self) -> Option<EntityId> {
        self.array().map(EntityId)
    }

    pub fn prefix(&mut self) -> Option<GuidPrefix> {
        self.array().map(GuidPrefix)
    }

    pub fn guid(&mut self) -> Option<Guid> {
        self.array().map(Guid::from_bytes)
    }

    /// Any 64 bits in the form of a sequence number.
    pub fn raw_number(&mut self) -> Option<i64> {
        let (high, low) = (self.u32()?, self.u32()?);
        Some(((u64::from(high) << 32) | u64::from(low)) as i64)
    }

    /// A sequence number from 0 to [`MAX_NUMBER`].
    pub fn number(&mut self) -> Option<i64> {
        self.raw_number().filter(|number| (0..=MAX_NUMBER).contains(number))
    }

    /// A string of at most `most` bytes, without its end.
    pub fn text(&mut self, most: usize) -> Option<String> {
        let len = self.u32()? as usize;
        let bytes = self.take(len)?;
        let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        (text.len() <= most).then(|| std::str::from_utf8(text).ok().map(str::to_owned))?
    }

    /// A sequence of at most `most` bytes.
    pub fn octets(&mut self, most: usize) -> Option<Vec<u8>> {
        let len = self.u32()? as usize;
        let bytes = self.take(len)?;
        (len <= most).then(|| bytes.to_vec())
    }
}
