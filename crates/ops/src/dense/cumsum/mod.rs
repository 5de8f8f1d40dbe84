//! Running sums along a dimension: ONNX's `CumSum`.
//!
//! Values are added one after the other from +0, in f32, of i32 with wrapping; from the end if
//! [`CumSum::is_reversed`]. With [`CumSum::is_exclusive`], a result is the sum before its value.
//! CPU and CUDA are equal. On CUDA a row is the work of one thread: it is meant for short rows. The
//! output may be the same window as the input.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

pub use cpu::cumsum;

use super::Region;
use super::rows::check_axes;
use det_post_types::{Error, ErrorKind, Result};

/// A running sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CumSum {
    /// The dimension.
    pub axis: usize,
    /// Whether a sum is without its value.
    pub is_exclusive: bool,
    /// Whether it begins at the end.
    pub is_reversed: bool,
}

impl CumSum {
    fn check(&self, input: &Region, output: &Region) -> Result<()> {
        let (from, to) = (input.window.dims(), output.window.dims());
        check_axes("cumsum", from, &[self.axis])?;
        if from == to {
            return Ok(());
        }
        let message = format!("from {from:?} to {to:?}, equal dims are required");
        Err(Error::new(ErrorKind::Argument, "cumsum", message))
    }
}
