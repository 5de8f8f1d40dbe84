//! The largest, or smallest, values along a dimension, in order, and their positions.
//!
//! The order is total: value descending (ascending for the smallest), then position ascending;
//! zeros are equal, and NaN comes after every value. Values are copied; positions are i32. CPU and
//! CUDA are equal. On CUDA a row is the work of one block.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

pub use cpu::top_k;

use super::Region;
use super::rows::check_axes;
use det_post_types::{Error, ErrorKind, Result};

/// The most values that are chosen of a row.
pub const MAX_CHOSEN: usize = 2048;

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK {
    /// The dimension.
    pub axis: usize,
    /// Whether the smallest are chosen.
    pub is_smallest: bool,
}

/// What is written: windows of equal dims, the number of chosen values along the axis.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// Their values, of floats.
    pub values: Option<Region>,
    /// Their positions, of i32.
    pub positions: Option<Region>,
}

impl TopK {
    /// The number of values that are chosen of a row.
    fn check(&self, input: &Region, chosen: &Chosen) -> Result<usize> {
        let from = input.window.dims();
        check_axes("top_k", from, &[self.axis])?;
        let mut num_chosen = None;
        for region in [chosen.values, chosen.positions].into_iter().flatten() {
            let to = region.window.dims();
            let mut expected = from.to_vec();
            let num = to.get(self.axis).copied().unwrap_or(0);
            expected[self.axis] = num;
            let is_same = num_chosen.replace(num).is_none_or(|found| found == num);
            if to != expected || num > from[self.axis] || num > MAX_CHOSEN || !is_same {
                let message = format!(
                    "{self:?} from {from:?} to {to:?}: at most the {} values of a row, and \
                     {MAX_CHOSEN}, and equal other dims are allowed",
                    from[self.axis]
                );
                return Err(Error::new(ErrorKind::Argument, "top_k", message));
            }
        }
        Ok(num_chosen.unwrap_or(0))
    }
}
