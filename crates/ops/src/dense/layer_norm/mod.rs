//! Rows along some dimensions brought to mean 0 and variance 1, then scaled and shifted: ONNX's
//! `LayerNormalization`, and by the choice of axes and windows `InstanceNormalization` and
//! `GroupNormalization`.
//!
//! For a row `x` of `n` values in row-major order of its axes, in f32:
//!
//! 1. `mean = sum(x) / n`;
//! 2. `variance = sum((x - mean) * (x - mean)) / n`;
//! 3. `r = 1 / sqrt(variance + epsilon)`;
//! 4. `y = fma((x - mean) * r, scale, shift)`; `shift` is +0 where there is none.
//!
//! Both sums are made of 32 sums: value `i` is added to sum `i % 32`, ascending from +0; then sums
//! at distances 16, 8, 4, 2 and 1 are added. Scales and shifts are windows of the input's dims:
//! strides of 0 repeat them. A NaN or an infinity makes its row NaN. CPU and CUDA are equal. The
//! output may be the same window as the input.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

pub use cpu::layer_norm;

use super::Region;
use super::rows::check_axes;
use det_post_types::{Error, ErrorKind, Result};

/// A normalization.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm<'a> {
    /// The dimensions that make a row.
    pub axes: &'a [usize],
    /// Added to the variance.
    pub epsilon: f32,
    /// Factors, of the input's dims.
    pub scales: Region,
    /// Summands, likewise.
    pub shifts: Option<Region>,
}

impl LayerNorm<'_> {
    fn check(&self, input: &Region, output: &Region) -> Result<()> {
        let dims = input.window.dims();
        check_axes("layer_norm", dims, self.axes)?;
        let others = [Some(output), Some(&self.scales), self.shifts.as_ref()];
        let mut others = others.into_iter().flatten().map(|region| region.window.dims());
        if let Some(other) = others.find(|other| *other != dims) {
            let message = format!("{other:?} beside an input of {dims:?}, equal dims are required");
            return Err(Error::new(ErrorKind::Argument, "layer_norm", message));
        }
        Ok(())
    }
}
