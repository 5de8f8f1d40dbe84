//! The reference: a row at a time.

use super::Softmax;
use crate::dense::rows::{joined, larger, row_len, with_axes_last};
use crate::dense::{HostArena, Region};
use det_post_types::Result;

/// Writes the softmax of a tensor.
///
/// # Errors
/// `Argument` when the dims differ or have no such axis, or a window is not within its buffer or
/// of i32.
pub fn softmax(
    arena: &mut HostArena,
    softmax: &Softmax,
    input: &Region,
    output: &Region,
) -> Result<()> {
    softmax.check(input, output)?;
    let axes = [softmax.axis];
    let (Some(from), Some(to)) = (with_axes_last(input, &axes), with_axes_last(output, &axes))
    else {
        return Ok(());
    };
    let mut values = arena.read(&from)?;
    let len = row_len(input.window.dims(), &axes).max(1);
    for row in values.chunks_exact_mut(len) {
        let largest = joined(row.iter().copied(), f32::NEG_INFINITY, larger);
        let sum = joined(row.iter().map(|x| (x - largest).exp()), 0.0, |a, b| a + b);
        for x in row {
            *x =
                if softmax.is_log { (*x - largest) - sum.ln() } else { (*x - largest).exp() / sum };
        }
    }
    if let Some(weights) = softmax.weights.and_then(|region| with_axes_last(&region, &axes)) {
        let weights = arena.read(&weights)?;
        let rows = values.chunks_exact(len).zip(weights.chunks_exact(len));
        let means = rows.map(|(row, weights)| {
            joined(row.iter().zip(weights).map(|(x, weight)| x * weight), 0.0, |a, b| a + b)
        });
        values = means.collect();
    }
    arena.write(&to, &values)
}
