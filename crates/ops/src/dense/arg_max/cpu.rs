//! The reference: a row at a time.

use super::ArgMax;
use crate::dense::order::ascending;
use crate::dense::reduce::check_reduced;
use crate::dense::rows::{row_len, with_axes_last};
use crate::dense::{HostArena, Region};
use det_post_types::Result;

/// Finds positions along a dimension.
///
/// # Errors
/// `Argument` when the axis is not there, the dims of the output are not the dims of the input with
/// 1 along the axis, or a window is not within its buffer, or of other elements than floats to i32.
pub fn arg_max(
    arena: &mut HostArena,
    search: &ArgMax,
    input: &Region,
    output: &Region,
) -> Result<()> {
    let ArgMax { axis, is_smallest, is_last } = *search;
    check_reduced("arg_max", input, &[axis], output)?;
    let Some(from) = with_axes_last(input, &[axis]) else { return Ok(()) };
    let values = arena.read(&from)?;
    let len = row_len(input.window.dims(), &[axis]);
    let rows = values.chunks_exact(len.max(1)).map(|row| {
        let (mut best, mut rank_of_best) = (0, 0);
        for (position, &value) in (0..).zip(row) {
            let rank = ascending(if is_smallest { -value } else { value });
            if rank > rank_of_best || is_last && rank == rank_of_best {
                (best, rank_of_best) = (position, rank);
            }
        }
        best
    });
    let positions: Vec<i32> = rows.collect();
    arena.write_indices(output, &positions)
}
