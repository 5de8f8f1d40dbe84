//! Fields whose values are in the order of the points.
//!
//! | field | code of a value |
//! |---|---|
//! | encoding `NONE`, and bytes | the value |
//! | integers | the difference to the value before |
//! | floats with a resolution, `LOSSY` | the difference in steps of the resolution, or a mark for NaN, after which differences are to 0 |
//! | float32, `LOSSLESS` | the bits, XOR those before |
//! | float64 otherwise, before version 4 | as float32 |
//! | float64 otherwise | the bits that differ from those before, as Gorilla packs them, padded to bytes |
//! | float32 otherwise | the value |

use super::header::{Encoding, Header, Kind, Place};
use super::input::{Bits, Input};
use crate::packed_cloud::codec::undecodable;
use det_post_types::Result;

/// A field and the state of its decoder.
pub(super) struct ValueField {
    offset: usize,
    size: usize,
    code: Code,
    /// The value before: an integer, the number of steps, or the bits of a float.
    previous: u64,
    window: Option<Window>,
    is_first: bool,
}

#[derive(Clone, Copy)]
enum Code {
    Copy,
    Difference,
    Steps32 { resolution: f32, is_narrow: bool },
    Steps64 { resolution: f64 },
    Xor,
    Gorilla,
}

/// Where the bits are that differ.
#[derive(Clone, Copy)]
struct Window {
    num_bits: u32,
    shift: u32,
}

impl ValueField {
    /// The field of a number, at its place.
    pub(super) fn of(header: &Header<'_>, index: usize, place: &Place<'_>) -> Self {
        let is_narrow = index < header.num_leading_floats();
        let code = code_of(header, place, is_narrow);
        let (offset, size) = (place.offset as usize, place.kind.size());
        Self { offset, size, code, previous: 0, window: None, is_first: true }
    }

    /// Forgets the values before, as at the start of a chunk.
    pub(super) fn restart(&mut self) {
        (self.previous, self.window, self.is_first) = (0, None, true);
    }

    /// Decodes the value of a point.
    pub(super) fn decode(&mut self, input: &mut Input<'_>, point: &mut [u8]) -> Result<()> {
        let place = &mut point[self.offset..self.offset + self.size];
        let value = match self.code {
            Code::Copy => {
                place.copy_from_slice(input.take(self.size)?);
                return Ok(());
            }
            Code::Difference => {
                self.previous = self.previous.wrapping_add_signed(input.integer_difference()?);
                self.previous
            }
            Code::Steps32 { resolution, is_narrow } => {
                let steps = self.steps(input, is_narrow)?;
                u64::from(steps.map_or(f32::NAN, |steps| steps as f32 * resolution).to_bits())
            }
            Code::Steps64 { resolution } => {
                let steps = self.steps(input, false)?;
                steps.map_or(f64::NAN, |steps| steps as f64 * resolution).to_bits()
            }
            Code::Xor => {
                self.previous ^= input.bits(self.size)?;
                self.previous
            }
            Code::Gorilla => {
                let mut bits = Bits::of(input);
                self.previous ^= self.changed(&mut bits)?;
                input.take(bits.num_bytes())?;
                self.previous
            }
        };
        place.copy_from_slice(&value.to_le_bytes()[..self.size]);
        Ok(())
    }

    /// The number of steps of a value; `None` for NaN.
    fn steps(&mut self, input: &mut Input<'_>, is_narrow: bool) -> Result<Option<i64>> {
        let Some(difference) = input.difference()? else {
            self.previous = 0;
            return Ok(None);
        };
        let steps = (self.previous as i64).wrapping_add(difference);
        let steps = if is_narrow { i64::from(steps as i32) } else { steps };
        self.previous = steps as u64;
        Ok(Some(steps))
    }

    /// The bits that differ from the value before: of the first value all 64; then `0` where none does,
    /// `10` and the bits of the last window, or `11`, the window as the number of bits above it (5) and
    /// its own less one (6), and its bits.
    fn changed(&mut self, bits: &mut Bits<'_>) -> Result<u64> {
        if std::mem::take(&mut self.is_first) {
            return bits.take(64);
        }
        if bits.take(1)? == 0 {
            return Ok(0);
        }
        if bits.take(1)? == 1 {
            let above = bits.take(5)? as u32;
            let num_bits = bits.take(6)? as u32 + 1;
            let shift = 64_u32.checked_sub(above + num_bits);
            let shift =
                shift.ok_or_else(|| undecodable("cloudini: a float of more than 64 bits"))?;
            self.window = Some(Window { num_bits, shift });
        }
        let window =
            self.window.ok_or_else(|| undecodable("cloudini: a float without its window"))?;
        Ok(bits.take(window.num_bits)? << window.shift)
    }
}

fn code_of(header: &Header<'_>, place: &Place<'_>, is_narrow: bool) -> Code {
    let (kind, encoding) = (place.kind, header.encoding);
    if encoding == Encoding::None || kind.size() == 1 {
        return Code::Copy;
    }
    if kind.is_integer() {
        return Code::Difference;
    }
    match (kind, place.resolution) {
        (Kind::F32, Some(resolution)) if encoding == Encoding::Lossy => {
            Code::Steps32 { resolution, is_narrow }
        }
        (_, Some(resolution)) if encoding == Encoding::Lossy => {
            Code::Steps64 { resolution: f64::from(resolution) }
        }
        (Kind::F32, _) if encoding == Encoding::Lossless => Code::Xor,
        (Kind::F32, _) => Code::Copy,
        (_, None) if header.version >= 4 => Code::Gorilla,
        _ => Code::Xor,
    }
}
