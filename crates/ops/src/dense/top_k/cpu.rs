//! The reference: a full sort of every row.

use super::{Chosen, TopK};
use crate::dense::order::ascending;
use crate::dense::rows::{row_len, with_axes_last};
use crate::dense::{HostArena, Region};
use det_post_types::Result;

/// Chooses values of every row.
///
/// # Errors
/// `Argument` when the axis is not there, the dims do not fit, more than
/// [`MAX_CHOSEN`](super::MAX_CHOSEN) values or than there are are wanted, or a window is not within
/// its buffer or of other elements.
pub fn top_k(arena: &mut HostArena, op: &TopK, input: &Region, chosen: &Chosen) -> Result<()> {
    let num_chosen = op.check(input, chosen)?;
    let axes = [op.axis];
    let Some(from) = with_axes_last(input, &axes) else { return Ok(()) };
    let read = arena.read(&from)?;
    let len = row_len(input.window.dims(), &axes);
    let (mut values, mut positions) = (Vec::new(), Vec::new());
    for row in read.chunks_exact(len.max(1)) {
        let mut order: Vec<usize> = (0..len).collect();
        let rank = |&at: &usize| !ascending(if op.is_smallest { -row[at] } else { row[at] });
        // Stable: positions of equals ascend.
        order.sort_by_key(rank);
        values.extend(order[..num_chosen].iter().map(|&at| row[at]));
        positions.extend(order[..num_chosen].iter().map(|&at| at as i32));
    }
    if let Some(to) = chosen.values.and_then(|region| with_axes_last(&region, &axes)) {
        arena.write(&to, &values)?;
    }
    if let Some(to) = chosen.positions.and_then(|region| with_axes_last(&region, &axes)) {
        arena.write_indices(&to, &positions)?;
    }
    Ok(())
}
