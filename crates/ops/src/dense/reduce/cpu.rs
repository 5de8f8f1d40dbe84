//! The reference: a row at a time.

use super::{Reduction, check};
use crate::dense::rows::{joined, larger, row_len, smaller, with_axes_last};
use crate::dense::{HostArena, Region};
use det_post_types::Result;

/// Reduces a tensor over axes.
///
/// # Errors `Argument` when the axes are not there, the dims of the output are not the dims of the
/// input with 1 along the axes, or a window is not within its buffer or of i32.
pub fn reduce(
    arena: &mut HostArena,
    reduction: Reduction,
    axes: &[usize],
    input: &Region,
    output: &Region,
) -> Result<()> {
    check(input, axes, output)?;
    let Some(from) = with_axes_last(input, axes) else { return Ok(()) };
    let values = arena.read(&from)?;
    let len = row_len(input.window.dims(), axes);
    let rows = values.chunks_exact(len.max(1)).map(|row| {
        let row = row.iter().copied();
        match reduction {
            Reduction::Sum => joined(row, 0.0, |a, b| a + b),
            Reduction::Mean => joined(row, 0.0, |a, b| a + b) / len as f32,
            Reduction::Max => joined(row, f32::NEG_INFINITY, larger),
            Reduction::Min => joined(row, f32::INFINITY, smaller),
            Reduction::Product => joined(row, 1.0, |a, b| a * b),
        }
    });
    let reduced: Vec<f32> = rows.collect();
    arena.write(output, &reduced)
}
