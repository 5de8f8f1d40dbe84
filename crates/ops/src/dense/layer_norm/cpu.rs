//! The reference: a row at a time.

use super::LayerNorm;
use crate::dense::rows::{joined, row_len, with_axes_last};
use crate::dense::{HostArena, Region};
use det_post_types::Result;

/// Normalizes the rows of a tensor.
///
/// # Errors
/// `Argument` when the axes are not there, dims differ, or a window is not within its buffer or of
/// i32.
pub fn layer_norm(
    arena: &mut HostArena,
    norm: &LayerNorm<'_>,
    input: &Region,
    output: &Region,
) -> Result<()> {
    norm.check(input, output)?;
    let read = |region: &Region| {
        with_axes_last(region, norm.axes).map_or_else(|| Ok(Vec::new()), |rows| arena.read(&rows))
    };
    let mut values = read(input)?;
    let scales = read(&norm.scales)?;
    let shifts = norm.shifts.as_ref().map_or_else(|| Ok(vec![0.0; values.len()]), read)?;
    let len = row_len(input.window.dims(), norm.axes).max(1);
    let factors = scales.chunks_exact(len).zip(shifts.chunks_exact(len));
    for (row, (scales, shifts)) in values.chunks_exact_mut(len).zip(factors) {
        let mean = joined(row.iter().copied(), 0.0, |a, b| a + b) / len as f32;
        let squares = row.iter().map(|x| (x - mean) * (x - mean));
        let variance = joined(squares, 0.0, |a, b| a + b) / len as f32;
        let r = 1.0 / (variance + norm.epsilon).sqrt();
        for ((x, &scale), &shift) in row.iter_mut().zip(scales).zip(shifts) {
            *x = ((*x - mean) * r).mul_add(scale, shift);
        }
    }
    let Some(to) = with_axes_last(output, norm.axes) else { return Ok(()) };
    arena.write(&to, &values)
}
