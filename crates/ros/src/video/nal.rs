//! The NAL units of a packet.

use super::bits::{STAGE, damaged};
use det_post_types::{Error, ErrorKind, Result};

/// What a NAL unit has, by the lower five bits of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitKind {
    /// A slice of a picture that depends on others.
    Slice,
    /// A part of a slice, of the extended profile.
    Partition,
    /// A slice of a key frame (IDR).
    KeySlice,
    /// A sequence parameter set.
    Sequence,
    /// A picture parameter set.
    Picture,
    /// What no decoder of pictures needs: delimiters, messages, padding, layers.
    Other,
}

/// A NAL unit: its first byte and its payload, without a start code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit<'a> {
    /// The bytes, at least one.
    pub(super) bytes: &'a [u8],
}

impl<'a> Unit<'a> {
    fn first(&self) -> u8 {
        self.bytes.first().copied().unwrap_or_default()
    }

    /// What it has.
    pub(super) fn kind(&self) -> UnitKind {
        match self.first() & 0x1f {
            1 => UnitKind::Slice,
            2..=4 => UnitKind::Partition,
            5 => UnitKind::KeySlice,
            7 => UnitKind::Sequence,
            8 => UnitKind::Picture,
            _ => UnitKind::Other,
        }
    }

    /// Whether other pictures may depend on it.
    pub(super) fn is_reference(&self) -> bool {
        self.first() & 0x60 != 0
    }
}

/// The NAL units of a packet with start codes (H.264, Annex B), in order.
///
/// # Errors
/// `Encoding` for a packet with lengths in place of start codes, `VideoCodec` for one without NAL
/// units.
pub(super) fn units(packet: &[u8]) -> Result<Units<'_>> {
    if is_length_prefixed(packet) {
        let message = "the packet has lengths in place of start codes (AVCC); read is Annex B, which ffmpeg's \
                       `-bsf:v h264_mp4toannexb` makes of it";
        return Err(Error::new(ErrorKind::Encoding, STAGE, message));
    }
    match find_start(packet, 0) {
        Some(start) if packet[..start].iter().all(|byte| *byte == 0) => {
            Ok(Units { packet, next: Some(start) })
        }
        _ => Err(damaged(format!(
            "a packet of {} bytes does not begin with a start code (00 00 01)",
            packet.len()
        ))),
    }
}

/// The NAL units of a packet, in order.
#[derive(Clone)]
pub(super) struct Units<'a> {
    packet: &'a [u8],
    /// Where the next start code is.
    next: Option<usize>,
}

impl<'a> Iterator for Units<'a> {
    type Item = Unit<'a>;

    fn next(&mut self) -> Option<Unit<'a>> {
        loop {
            let first = self.next? + START_CODE.len();
            self.next = find_start(self.packet, first);
            let mut bytes = &self.packet[first..self.next.unwrap_or(self.packet.len())];
            // Zeros before a start code belong to it.
            while let [rest @ .., 0] = bytes {
                bytes = rest;
            }
            if !bytes.is_empty() {
                return Some(Unit { bytes });
            }
        }
    }
}

const START_CODE: [u8; 3] = [0, 0, 1];

/// Where the next start code is, from a position on.
fn find_start(packet: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some([a, b, c]) = packet.get(at..at + 3) {
        match c {
            0 => at += 1,
            1 if *a == 0 && *b == 0 => return Some(at),
            _ => at += 3,
        }
    }
    None
}

/// Whether lengths of four bytes lead from NAL unit to NAL unit exactly to the end.
fn is_length_prefixed(packet: &[u8]) -> bool {
    let mut rest = packet;
    while let Some((len, after)) = rest.split_first_chunk() {
        let len = u32::from_be_bytes(*len) as usize;
        // The first bit of a NAL unit is 0, and type 0 is not used.
        let is_unit = after.first().is_some_and(|first| first & 0x80 == 0 && first & 0x1f != 0);
        match after.split_at_checked(len) {
            Some((_, after)) if is_unit && len > 0 => rest = after,
            _ => return false,
        }
    }
    rest.is_empty() && !packet.is_empty()
}

/// Appends a NAL unit with a start code.
pub(super) fn push_unit(stream: &mut Vec<u8>, unit: &[u8]) {
    stream.push(0);
    stream.extend_from_slice(&START_CODE);
    stream.extend_from_slice(unit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_split_at_start_codes() {
        let cases: [(&[u8], &[&[u8]]); 8] = [
            (&[0, 0, 1, 0x65, 7], &[&[0x65, 7]]),
            (&[0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68, 2], &[&[0x67, 1], &[0x68, 2]]),
            (&[0, 0, 0, 0, 0, 1, 0x41, 9, 0, 0, 0], &[&[0x41, 9]]),
            (&[0, 0, 1, 0, 0, 1, 0x41, 9], &[&[0x41, 9]]),
            (&[0, 0, 1], &[]),
            (&[0, 0, 1, 0x41, 0, 1, 1, 0, 0, 3, 1], &[&[0x41, 0, 1, 1, 0, 0, 3, 1]]),
            (&[0, 0, 1, 0x41, 1, 1, 0, 0, 1, 0x41], &[&[0x41, 1, 1], &[0x41]]),
            (&[0, 0, 1, 0x41, 5, 0, 0, 0, 1, 0x06], &[&[0x41, 5], &[0x06]]),
        ];
        for (packet, expected) in cases {
            let found: Vec<&[u8]> = units(packet).unwrap().map(|unit| unit.bytes).collect();
            assert_eq!(found, expected, "{packet:?}");
        }
    }

    #[test]
    fn packets_without_start_codes_are_refused_by_their_kind() {
        let avcc: &[u8] = &[0, 0, 0, 3, 0x67, 1, 2, 0, 0, 0, 2, 0x65, 9];
        // Lengths from 256 to 511 look like start codes.
        let mut long = vec![0, 0, 1, 4, 0x65];
        long.extend([7; 259]);
        for packet in [avcc, &long] {
            let error = units(packet).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Encoding, "{error}");
            assert!(error.message().contains("AVCC"), "{error}");
        }
        for packet in [&[][..], &[0, 0], &[7, 0, 0, 1, 0x65], &[0xff, 0xd8, 0xff, 0xe0], &avcc[..9]]
        {
            let error = units(packet).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::VideoCodec, "{packet:?}: {error}");
        }
        long.truncate(263);
        assert!(units(&long).is_ok());
    }
}
