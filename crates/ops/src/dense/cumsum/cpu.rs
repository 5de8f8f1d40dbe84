//! The reference: a row at a time.

use super::CumSum;
use crate::dense::rows::{row_len, with_axes_last};
use crate::dense::{HostArena, Region};
use det_post_types::{ElementType, Result};

/// Sums along a dimension.
///
/// # Errors
/// `Argument` when the dims differ or have no such axis, or a window is not within its buffer or of
/// another kind of elements than the other.
pub fn cumsum(arena: &mut HostArena, op: &CumSum, input: &Region, output: &Region) -> Result<()> {
    op.check(input, output)?;
    let axes = [op.axis];
    let (Some(from), Some(to)) = (with_axes_last(input, &axes), with_axes_last(output, &axes))
    else {
        return Ok(());
    };
    let len = row_len(input.window.dims(), &axes).max(1);
    if arena.element(input.buffer)? == ElementType::I32 {
        let mut values = arena.read_indices(&from)?;
        values.chunks_exact_mut(len).for_each(|row| op.sum(row, 0, i32::wrapping_add));
        return arena.write_indices(&to, &values);
    }
    let mut values = arena.read(&from)?;
    values.chunks_exact_mut(len).for_each(|row| op.sum(row, 0.0, |a, b| a + b));
    arena.write(&to, &values)
}

impl CumSum {
    fn sum<T: Copy>(&self, row: &mut [T], first: T, add: impl Fn(T, T) -> T) {
        let mut sum = first;
        for n in 0..row.len() {
            let i = if self.is_reversed { row.len() - 1 - n } else { n };
            let next = add(sum, row[i]);
            row[i] = if self.is_exclusive { sum } else { next };
            sum = next;
        }
    }
}
