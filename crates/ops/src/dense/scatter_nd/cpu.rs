//! The reference: a tuple at a time.

use super::{Scatter, place};
use crate::dense::HostArena;
use det_post_types::{ElementType, Result};

/// Writes updates at indices.
///
/// # Errors
/// `Argument` when the dims do not fit, updates and output are not both of floats or both of i32,
/// or a window is not within its buffer.
pub fn scatter_nd(arena: &mut HostArena, scatter: &Scatter) -> Result<()> {
    let num_axes = scatter.check()?;
    let indices = arena.read_indices(&scatter.indices)?;
    let Scatter { updates, output, .. } = scatter;
    let dims = output.window.dims();
    let slice_len: usize = dims[num_axes..].iter().product();
    // Where slices begin in the output, in row-major order.
    let starts = indices.chunks_exact(num_axes);
    let starts = starts.map(|tuple| place(tuple, dims).map(|slice| slice * slice_len));
    let moves = starts.enumerate().filter_map(|(at, to)| Some((at * slice_len, to?)));
    if arena.element(output.buffer)? == ElementType::I32 {
        let (from, mut values) = (arena.read_indices(updates)?, arena.read_indices(output)?);
        moves.for_each(|(at, to)| copy(&from[at..], &mut values[to..], slice_len));
        return arena.write_indices(output, &values);
    }
    let (from, mut values) = (arena.read(updates)?, arena.read(output)?);
    moves.for_each(|(at, to)| copy(&from[at..], &mut values[to..], slice_len));
    arena.write(output, &values)
}

fn copy<T: Copy>(from: &[T], to: &mut [T], len: usize) {
    to[..len].copy_from_slice(&from[..len]);
}
