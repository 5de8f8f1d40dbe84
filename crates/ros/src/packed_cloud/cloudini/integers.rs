//! Integers of version 5, a section per field behind the other values of a chunk.
//!
//! A section begins with a byte that says how its values are stored:
//!
//! | byte | values |
//! |---|---|
//! | 0 | differences |
//! | 1 | a palette: its length (u16), its values, and of each point an index of as few bits as fit, packed |
//! | 2 | runs: their number (u32), of each the value and how often it is repeated |
//! | 3 | runs of differences: their number (u32), of each the difference and how often it is added |

use super::header::{Encoding, Header};
use super::input::{Bits, Input};
use crate::packed_cloud::codec::undecodable;
use det_post_types::Result;

/// An integer field.
pub(super) struct IntegerField {
    offset: usize,
    size: usize,
}

impl IntegerField {
    /// The field of a number, if it is stored in sections.
    pub(super) fn of(header: &Header<'_>, index: usize) -> Option<Self> {
        let field = header.fields.get(index)?;
        let is_in_section =
            header.version >= 5 && header.encoding == Encoding::Lossy && field.kind.is_integer();
        let (offset, size) = (field.offset as usize, field.kind.size());
        is_in_section.then_some(Self { offset, size })
    }

    /// Decodes the section of a chunk.
    pub(super) fn decode(
        &self,
        input: &mut Input<'_>,
        points: &mut [u8],
        point_step: usize,
    ) -> Result<()> {
        let values = points.chunks_exact_mut(point_step);
        let values = values.map(|point| &mut point[self.offset..self.offset + self.size]);
        match input.u8()? {
            0 => decode_differences(input, values),
            1 => self.decode_palette(input, values),
            2 => self.decode_runs(input, values),
            3 => decode_difference_runs(input, values),
            other => {
                Err(undecodable(format!("cloudini: integers stored as {other}; known: 0 to 3")))
            }
        }
    }

    fn decode_palette<'p>(
        &self,
        input: &mut Input<'_>,
        mut values: impl Iterator<Item = &'p mut [u8]>,
    ) -> Result<()> {
        let len = usize::from(input.u16()?);
        let palette = input.take(len * self.size)?;
        let num_bits =
            len.checked_sub(1).ok_or_else(|| undecodable("cloudini: an empty palette"))?;
        let num_bits = usize::BITS - num_bits.leading_zeros();
        let mut bits = Bits::of(input);
        values.try_for_each(|value| {
            let at = bits.take(num_bits)? as usize * self.size;
            let found = palette.get(at..at + self.size);
            value.copy_from_slice(
                found.ok_or_else(|| undecodable("cloudini: an index beyond the palette"))?,
            );
            Ok(())
        })?;
        input.take(bits.num_bytes()).map(drop)
    }

    fn decode_runs<'p>(
        &self,
        input: &mut Input<'_>,
        mut values: impl Iterator<Item = &'p mut [u8]>,
    ) -> Result<()> {
        for _ in 0..input.u32()? {
            let repeated = input.take(self.size)?;
            for _ in 0..input.varint()? {
                values.next().ok_or_else(too_long)?.copy_from_slice(repeated);
            }
        }
        is_filled(values)
    }
}

fn decode_differences<'p>(
    input: &mut Input<'_>,
    mut values: impl Iterator<Item = &'p mut [u8]>,
) -> Result<()> {
    let mut value = 0_i64;
    values.try_for_each(|place| {
        value = value.wrapping_add(input.integer_difference()?);
        write(value, place);
        Ok(())
    })
}

fn decode_difference_runs<'p>(
    input: &mut Input<'_>,
    mut values: impl Iterator<Item = &'p mut [u8]>,
) -> Result<()> {
    let mut value = 0_i64;
    for _ in 0..input.u32()? {
        let difference = input.integer_difference()?;
        for _ in 0..input.varint()? {
            value = value.wrapping_add(difference);
            write(value, values.next().ok_or_else(too_long)?);
        }
    }
    is_filled(values)
}

fn write(value: i64, place: &mut [u8]) {
    let len = place.len();
    place.copy_from_slice(&value.to_le_bytes()[..len]);
}

fn is_filled<'p>(mut values: impl Iterator<Item = &'p mut [u8]>) -> Result<()> {
    match values.next() {
        None => Ok(()),
        Some(_) => Err(undecodable("cloudini: the runs of a field end before its points do")),
    }
}

fn too_long() -> det_post_types::Error {
    undecodable("cloudini: the runs of a field are longer than its points")
}
