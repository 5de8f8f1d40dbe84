//! Sets of at most 256 numbers (9.4.2.6 and 9.4.2.8): a base and a bitmap.

use super::cursor::{Cursor, MAX_NUMBER};

/// Numbers from `base` to `base + 255`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberSet {
    base: i64,
    len: u32,
    words: [u32; 8],
}

impl NumberSet {
    /// The most numbers of a set.
    pub const MAX: i64 = 256;

    /// No numbers, from `base` on.
    pub fn new(base: i64) -> Self {
        Self { base: base.clamp(0, MAX_NUMBER), len: 0, words: [0; 8] }
    }

    /// Adds a number; those outside the set's range are not added.
    pub fn insert(&mut self, number: i64) {
        let offset = number - self.base;
        if (0..Self::MAX).contains(&offset) {
            let offset = offset as u32;
            self.words[(offset / 32) as usize] |= 1 << (31 - offset % 32);
            self.len = self.len.max(offset + 1);
        }
    }

    pub fn base(&self) -> i64 {
        self.base
    }

    pub fn is_empty(&self) -> bool {
        self.words == [0; 8]
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = i64> + use<> {
        let (base, len, words) = (self.base, self.len, self.words);
        (0..len)
            .filter(move |i| words[(i / 32) as usize] >> (31 - i % 32) & 1 == 1)
            .map(move |i| base + i64::from(i))
    }

    /// A set of sequence numbers.
    pub fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let base = cursor.number()?;
        Self::read_bits(base, cursor)
    }

    /// A set of fragment numbers.
    pub fn read_fragments(cursor: &mut Cursor<'_>) -> Option<Self> {
        let base = i64::from(cursor.u32()?);
        Self::read_bits(base, cursor)
    }

    fn read_bits(base: i64, cursor: &mut Cursor<'_>) -> Option<Self> {
        let len = cursor.u32()?;
        if len > 256 {
            return None;
        }
        let mut words = [0; 8];
        for word in words.iter_mut().take(len.div_ceil(32) as usize) {
            *word = cursor.u32()?;
        }
        Some(Self { base, len, words })
    }

    /// Appends the bitmap in little endian.
    pub fn write_bits(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.len.to_le_bytes());
        for word in &self.words[..self.len.div_ceil(32) as usize] {
            bytes.extend(word.to_le_bytes());
        }
    }
}
