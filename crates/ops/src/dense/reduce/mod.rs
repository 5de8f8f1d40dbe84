//! Sums, means, products and extremes over dimensions.
//!
//! The values of an output are those along the axes in row-major order, `n` of them. They are
//! joined in f32 in 32 parts, value `i` in part `i % 32`, ascending, then parts at distances 16,
//! 8, 4, 2 and 1. Parts start at +0, for a product at 1, for the largest at minus infinity, for
//! the smallest at plus infinity. `Mean` divides the sum by `n`. A NaN makes its result NaN. CPU
//! and CUDA are equal. An output has 1 where the axes were; without axes each value is a row.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

pub use cpu::reduce;

use super::Region;
use super::rows::check_axes;
use det_post_types::{Error, ErrorKind, Result};

/// How values are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The sum over the number.
    Mean,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The product.
    Product,
}

/// Refuses dims of the output that are not the input's with 1 along the axes, and rows of no value.
fn check(input: &Region, axes: &[usize], output: &Region) -> Result<()> {
    check_reduced("reduce", input, axes, output)
}

/// As [`check`], for other operations with rows.
pub(super) fn check_reduced(
    operation: &'static str,
    input: &Region,
    axes: &[usize],
    output: &Region,
) -> Result<()> {
    let (from, to) = (input.window.dims(), output.window.dims());
    check_axes(operation, from, axes)?;
    let expected = |(axis, dim): (usize, &usize)| if axes.contains(&axis) { 1 } else { *dim };
    let has_rows = axes.iter().all(|&axis| from[axis] > 0) || to.contains(&0);
    if from.iter().enumerate().map(expected).eq(to.iter().copied()) && has_rows {
        return Ok(());
    }
    let message = format!(
        "from {from:?} to {to:?} over axes {axes:?}: the dims of the input with 1 along the axes, \
         and a value in each row, are required"
    );
    Err(Error::new(ErrorKind::Argument, operation, message))
}
