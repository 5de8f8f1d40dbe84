//! Softmax, or its logarithm, along a dimension.
//!
//! For a row `x`, in f32: `m` is the largest value; the sum `s` of `exp(x - m)` is made of 32 sums,
//! to which value `i` is added at `i % 32`, ascending from +0; then sums at distances 16, 8, 4,
//! 2 and 1 are added. The result is `exp(x - m) / s`, or `(x - m) - log(s)`. A NaN, or plus
//! infinity, makes its whole row NaN, as does a row of minus infinities.
//!
//! With weights, a row becomes one value: the sum of `exp(x - m) / s * w`, added as `s` is. That is
//! the integral of a distribution over box sides (DFL).
//!
//! The CUDA implementation differs by the exponential and the logarithm: docs/numerics.md has the
//! bounds. The output may be the same window as the input.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

pub use cpu::softmax;

use super::Region;
use super::reduce::check_reduced;
use super::rows::check_axes;
use det_post_types::{Error, ErrorKind, Result};

/// A softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// The dimension along which results add up to 1.
    pub axis: usize,
    /// Whether the logarithm is taken.
    pub is_log: bool,
    /// Of the input's dims, where a row becomes its weighted mean: the output has 1 along the axis.
    pub weights: Option<Region>,
}

impl Softmax {
    fn check(&self, input: &Region, output: &Region) -> Result<()> {
        let (from, to) = (input.window.dims(), output.window.dims());
        if let Some(weights) = &self.weights {
            check_reduced("softmax", input, &[self.axis], output)?;
            if !self.is_log && weights.window.dims() == from {
                return Ok(());
            }
        }
        check_axes("softmax", from, &[self.axis])?;
        if self.weights.is_none() && from == to {
            return Ok(());
        }
        let message = format!(
            "{self:?} from {from:?} to {to:?}: equal dims are required, and weights without a \
             logarithm"
        );
        Err(Error::new(ErrorKind::Argument, "softmax", message))
    }
}
