//! The bits of a NAL unit, which is not trusted.

use det_post_types::{Error, ErrorKind, Result};

/// The stage of all errors.
pub(super) const STAGE: &str = "decode video";

/// What to do about a stream that is not decoded.
pub(super) const REENCODE: &str = "Let the sender encode without them: `-c:v libx264 -bf 0 -pix_fmt yuv420p` of ffmpeg, `max_b_frames: 0` of \
     ffmpeg_image_transport";

/// A reader of the payload of a NAL unit: bytes of emulation prevention are left out (H.264, 7.4.1).
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    rest: &'a [u8],
    /// Zero bytes before the next one.
    num_zeros: u32,
    byte: u8,
    /// Bits of the byte that are not read.
    num_left: u32,
}

impl<'a> Bits<'a> {
    /// The bits after the header of a NAL unit of one byte.
    pub(super) fn of_unit(unit: &'a [u8]) -> Self {
        Self { rest: unit.get(1..).unwrap_or_default(), num_zeros: 0, byte: 0, num_left: 0 }
    }

    fn next_byte(&mut self) -> Result<u8> {
        let (byte, rest) = self.rest.split_first().ok_or_else(ended)?;
        self.rest = rest;
        if self.num_zeros >= 2 && *byte == 3 {
            self.num_zeros = 0;
            return self.next_byte_after_escape();
        }
        self.num_zeros = if *byte == 0 { self.num_zeros + 1 } else { 0 };
        Ok(*byte)
    }

    fn next_byte_after_escape(&mut self) -> Result<u8> {
        let (byte, rest) = self.rest.split_first().ok_or_else(ended)?;
        self.rest = rest;
        self.num_zeros = u32::from(*byte == 0);
        Ok(*byte)
    }

    /// The next bit.
    pub(super) fn flag(&mut self) -> Result<bool> {
        if self.num_left == 0 {
            self.byte = self.next_byte()?;
            self.num_left = 8;
        }
        self.num_left -= 1;
        Ok(self.byte >> self.num_left & 1 == 1)
    }

    /// An unsigned number of up to 32 bits.
    pub(super) fn bits(&mut self, num: u32) -> Result<u32> {
        (0..num).try_fold(0, |value, _| Ok(value << 1 | u32::from(self.flag()?)))
    }

    /// An unsigned number in the Exp-Golomb code, `ue(v)`, of at most `max`.
    pub(super) fn unsigned(&mut self, what: &str, max: u32) -> Result<u32> {
        let mut num_zeros = 0;
        while !self.flag()? {
            num_zeros += 1;
            if num_zeros > 31 {
                return Err(damaged(format!("{what} is no number")));
            }
        }
        let value = (1u64 << num_zeros) - 1 + u64::from(self.bits(num_zeros)?);
        match u32::try_from(value) {
            Ok(value) if value <= max => Ok(value),
            _ => Err(damaged(format!("{what} is {value}, at most {max}"))),
        }
    }

    /// A signed number in the Exp-Golomb code, `se(v)`.
    pub(super) fn signed(&mut self, what: &str) -> Result<i64> {
        let code = i64::from(self.unsigned(what, u32::MAX - 1)?);
        Ok(if code % 2 == 1 { code / 2 + 1 } else { -(code / 2) })
    }
}

fn ended() -> Error {
    damaged("a NAL unit ends before its header does")
}

/// The error of a packet that is damaged.
pub(super) fn damaged(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::VideoCodec, STAGE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_over_emulation_prevention() {
        // 1, 010, 011, 00100, 00101 are 0 to 4.
        let mut bits = Bits::of_unit(&[0x67, 0b1010_0110, 0b0100_0010, 0b1000_0000]);
        let read: Vec<u32> = (0..5).map(|_| bits.unsigned("n", 9).unwrap()).collect();
        assert_eq!(read, [0, 1, 2, 3, 4]);
        let mut bits = Bits::of_unit(&[0x67, 0b1010_0110, 0b0100_0010, 0b1000_0000]);
        let read: Vec<i64> = (0..5).map(|_| bits.signed("n").unwrap()).collect();
        assert_eq!(read, [0, 1, -1, 2, -2]);
        let mut bits = Bits::of_unit(&[0x67, 0, 0, 3, 1, 0, 0, 3, 0, 0, 3, 5]);
        let read: Vec<u32> = (0..8).map(|_| bits.bits(8).unwrap()).collect();
        assert_eq!(read, [0, 0, 1, 0, 0, 0, 0, 5]);
        assert!(bits.flag().is_err());
    }

    #[test]
    fn numbers_out_of_range_are_damage() {
        for unit in [&[0x67][..], &[0x67, 0, 0, 0, 0, 0x80, 0, 0, 0], &[0x67, 0b0010_1000], &[]] {
            let error = Bits::of_unit(unit).unsigned("the number", 3).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::VideoCodec, "{unit:?}: {error}");
        }
        // 2^32 - 2 is the greatest code of 31 zeros.
        let mut unit = vec![0x67, 0, 0, 3, 0, 1];
        unit.extend([0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(Bits::of_unit(&unit).unsigned("n", u32::MAX).unwrap(), u32::MAX - 1);
    }
}
