//! Reading from bytes that are not trusted.

use crate::packed_cloud::codec::undecodable;
use det_post_types::{Error, Result};

/// What is left of a payload or a chunk.
#[derive(Clone, Copy)]
pub(super) struct Input<'a>(&'a [u8]);

macro_rules! numbers {
    ($($number:ident)*) => {$(
        pub(super) fn $number(&mut self) -> Result<$number> {
            let bytes: &[u8; size_of::<$number>()] = self.0.first_chunk().ok_or_else(ended)?;
            self.0 = &self.0[bytes.len()..];
            Ok($number::from_le_bytes(*bytes))
        }
    )*};
}

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All bytes that are left.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(ended)?;
        self.0 = rest;
        Ok(taken)
    }

    numbers! { u8 u16 u32 f32 }

    /// An unsigned number of `size` bytes.
    pub(super) fn bits(&mut self, size: usize) -> Result<u64> {
        let mut value = [0; 8];
        value.iter_mut().zip(self.take(size.min(8))?).for_each(|(to, from)| *to = *from);
        Ok(u64::from_le_bytes(value))
    }

    /// An unsigned number in groups of seven bits, lowest first; the eighth says that more follow.
    pub(super) fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let group = u64::from(byte & 0x7f);
            if shift == 63 && group > 1 {
                break;
            }
            value |= group << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(undecodable("cloudini: a number has more than 64 bits"))
    }

    /// A difference, or `None` for the mark of a float that is not a number. Differences are one more than
    /// their zigzag code, which leaves 0 for the mark.
    pub(super) fn difference(&mut self) -> Result<Option<i64>> {
        let code = self.varint()?.checked_sub(1);
        Ok(code.map(|code| (code >> 1) as i64 ^ -((code & 1) as i64)))
    }

    /// As [`Self::difference`], of integers.
    pub(super) fn integer_difference(&mut self) -> Result<i64> {
        self.difference()?.ok_or_else(|| undecodable("cloudini: an integer that is not a number"))
    }
}

fn ended() -> Error {
    undecodable("cloudini: the payload ends before its points do")
}

/// Bits from the lowest of each byte on.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn of(input: &Input<'a>) -> Self {
        Self { bytes: input.rest(), position: 0 }
    }

    /// The next bits, up to 64 of them.
    pub(super) fn take(&mut self, num: u32) -> Result<u64> {
        let (mut value, mut taken) = (0, 0);
        while taken < num {
            let byte = *self.bytes.get(self.position / 8).ok_or_else(ended)?;
            let skipped = (self.position % 8) as u32;
            let part = (8 - skipped).min(num - taken);
            let mask = (1_u64 << part) - 1;
            value |= (u64::from(byte >> skipped) & mask) << taken;
            taken += part;
            self.position += part as usize;
        }
        Ok(value)
    }

    /// Bytes of which bits were taken.
    pub(super) fn num_bytes(&self) -> usize {
        self.position.div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_zigzag_codes_after_a_mark() {
        for (bytes, expected) in [
            (&[0][..], None),
            (&[1], Some(0)),
            (&[2], Some(-1)),
            (&[3], Some(1)),
            (&[0x81, 1], Some(64)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], Some(i64::MAX)),
        ] {
            let mut input = Input::new(bytes);
            assert_eq!(input.difference().unwrap(), expected, "{bytes:?}");
            assert!(input.is_empty());
        }
        for bytes in [&[][..], &[0x80], &[0xff; 10], &[0x80; 12]] {
            assert!(Input::new(bytes).difference().is_err(), "{bytes:?}");
        }
        assert!(Input::new(&[0]).integer_difference().is_err());
    }

    #[test]
    fn bits_go_on_from_byte_to_byte() {
        let bytes = [0b1010_0110, 0xff, 0, 0x80, 1, 2, 3, 4, 5];
        let mut bits = Bits::of(&Input::new(&bytes));
        assert_eq!(bits.take(0).unwrap(), 0);
        assert_eq!(bits.take(3).unwrap(), 0b110);
        assert_eq!(bits.take(6).unwrap(), 0b110100);
        assert_eq!(bits.num_bytes(), 2);
        assert_eq!(
            bits.take(63).unwrap(),
            u64::from_le_bytes([0xff, 0, 0x80, 1, 2, 3, 4, 5]) >> 1 & (!0 >> 1)
        );
        assert!(bits.take(1).is_err());
    }
}
