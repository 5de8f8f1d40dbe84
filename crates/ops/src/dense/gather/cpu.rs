//! The reference: an element at a time.

use super::{Gather, Spread, place};
use crate::dense::{HostArena, Region, Window};
use det_post_types::{ElementType, Result};

/// Takes elements at indices, which are i32.
///
/// # Errors
/// `Argument` when the dims do not fit, input and output are not both of floats or both of i32, or
/// a window is not within its buffer.
pub fn gather(
    arena: &mut HostArena,
    gather: &Gather,
    input: &Region,
    indices: &Region,
    output: &Region,
) -> Result<()> {
    let spread = gather.check(input, indices, output)?;
    // Positions in the input are in the order of its dims.
    let from = gather.positions(arena, &spread, input, indices)?;
    if arena.element(input.buffer)? == ElementType::I32 {
        let values = arena.read_indices(input)?;
        let taken: Vec<i32> = from.iter().map(|at| at.map_or(i32::MIN, |at| values[at])).collect();
        return arena.write_indices(output, &taken);
    }
    let values = arena.read(input)?;
    let taken: Vec<f32> = from.iter().map(|at| at.map_or(f32::NAN, |at| values[at])).collect();
    arena.write(output, &taken)
}

impl Gather {
    /// Where each element of the output comes from, in row-major order of both.
    fn positions(
        &self,
        arena: &HostArena,
        spread: &Spread,
        input: &Region,
        indices: &Region,
    ) -> Result<Vec<Option<usize>>> {
        // A tensor in row-major order stands for the input.
        let dims = input.window.dims();
        let axis_stride: usize = dims[self.axis + 1..].iter().product();
        let whole = Window::contiguous(dims);
        let dims_out = spread.indices.dims();
        let numbers = whole.zip(Window::contiguous(indices.window.dims()));
        let numbers = numbers.and_then(|(whole, own)| self.spread(&whole, &own, dims_out));
        let Some(Spread { input: first, .. }) = numbers else { return Ok(Vec::new()) };
        let spread_indices = Region { window: spread.indices, ..*indices };
        let mut found = arena.read_indices(&spread_indices)?.into_iter();
        let mut positions = Vec::with_capacity(found.len());
        first.for_each_offset(|offset| {
            let at = found.next().and_then(|index| place(index, dims[self.axis]));
            positions.push(at.map(|at| offset + at * axis_stride));
        });
        Ok(positions)
    }
}
