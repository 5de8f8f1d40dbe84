//! Pooling of maps `[N, C, H, W]`: the largest value or the mean under a kernel.
//!
//! Taps are visited row by row, from the left to the right; those outside the map are left out.
//! `Max` starts at minus infinity and takes every value that is greater or NaN. `Average` adds to
//! +0 and divides the sum by the number of taps inside, or with [`Kind::Average`]'s
//! `counts_padding` of the taps before the end of the padding. A mean of no taps is NaN. A global
//! average is the mean of [`reduce`](super::reduce) over rows and columns.
//!
//! With `ceil_mode`, sizes are rounded up, but a kernel that would begin behind the map and the
//! padding before it is left out, as ONNX and PyTorch do. CPU and CUDA are equal.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

pub use cpu::pool;

use super::Region;
use det_post_types::{Error, ErrorKind, Result};

/// What becomes of the values under the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The largest.
    Max,
    /// Their mean.
    Average {
        /// Whether taps in the padding count, as 0.
        counts_padding: bool,
    },
}

/// A pooling. Pairs are rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// What becomes of the values.
    pub kind: Kind,
    /// The size of the kernel.
    pub kernel: [usize; 2],
    /// Steps of the kernel.
    pub steps: [usize; 2],
    /// Distances of neighbouring taps.
    pub dilations: [usize; 2],
    /// Rows above, columns on the left, rows below, columns on the right.
    pub pads: [usize; 4],
    /// Whether sizes are rounded up.
    pub ceil_mode: bool,
}

impl Pool {
    /// The size of the output for an input of so many rows and columns; `None` where the kernel
    /// is larger than the padded input, a number is 0 or too large.
    pub fn output_size(&self, size: [usize; 2]) -> Option<[usize; 2]> {
        let [rows, columns] = [0, 1].map(|axis| {
            let [kernel, step, dilation] =
                [self.kernel[axis], self.steps[axis], self.dilations[axis]];
            let [before, behind] = [self.pads[axis], self.pads[axis + 2]];
            if dilation == 0 {
                return None;
            }
            let extent = kernel.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
            let with_start = size[axis].checked_add(before)?;
            let rest = with_start.checked_add(behind)?.checked_sub(extent)?;
            let num = if self.ceil_mode { rest.checked_next_multiple_of(step)? } else { rest };
            let num = num.checked_div(step)? + 1;
            // The last kernel has to begin in the map or the padding before it.
            let is_behind = self.ceil_mode && (num - 1).checked_mul(step)? >= with_start;
            Some(if is_behind { num - 1 } else { num })
        });
        Some([rows?, columns?])
    }

    /// The sizes of the input and of the output.
    fn check(&self, input: &Region, output: &Region) -> Result<[[usize; 4]; 2]> {
        let (from, to) = (input.window.dims(), output.window.dims());
        if let (Ok(from), Ok(to)) = (<[usize; 4]>::try_from(from), <[usize; 4]>::try_from(to)) {
            let size = self.output_size([from[2], from[3]]);
            let is_small = from[2..].iter().chain(&self.pads).chain(&self.kernel);
            let is_small = is_small.chain(&self.steps).chain(&self.dilations).all(|&n| n < 1 << 14);
            if from[..2] == to[..2] && size == Some([to[2], to[3]]) && is_small {
                return Ok([from, to]);
            }
        }
        let message = format!(
            "{self:?} from {from:?} to {to:?}: maps [N, C, H, W] with the sizes of the pooling are \
             required, of less than 16384 rows and columns"
        );
        Err(Error::new(ErrorKind::Argument, "pool", message))
    }
}
