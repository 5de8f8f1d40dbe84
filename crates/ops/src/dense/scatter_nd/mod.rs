//! Values written at indices of a tensor: ONNX's `ScatterND` with constant indices, after its data
//! were copied to the output.
//!
//! Indices are `[..., q]`: a tuple names the first `q` dimensions of the output; updates are
//! `[...]` and the output's other dims. A number counts from the end where it is negative; a tuple
//! that is not there is left out. No two tuples may name the same element, or the result would
//! depend on the order: [`check_indices`] refuses both when a network is loaded. CPU and CUDA are
//! equal.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

pub use cpu::scatter_nd;

use super::{MAX_RANK, Region};
use det_post_types::{Error, ErrorKind, Result};

/// Where values are written, and which.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    /// Of i32, `[..., q]`.
    pub indices: Region,
    /// `[...]`, then the output's dims from `q` on.
    pub updates: Region,
    /// What is written, only at the indices.
    pub output: Region,
}

/// Refuses constant indices that name no element, or one twice. `dims` are the output's; indices
/// are tuples of `num_axes`.
///
/// # Errors
/// `Argument` with the first of them.
pub fn check_indices(indices: &[i32], num_axes: usize, dims: &[usize]) -> Result<()> {
    let mut found = HashSet::new();
    for tuple in indices.chunks(num_axes.max(1)) {
        let place = place(tuple, dims);
        if !place.is_some_and(|place| found.insert(place)) {
            let message = format!(
                "the index {tuple:?} of {dims:?} is not there, or names an element a second time"
            );
            return Err(Error::new(ErrorKind::Argument, "scatter_nd", message));
        }
    }
    Ok(())
}

/// The number of a tuple in row-major order; `None` where it is not there.
fn place(tuple: &[i32], dims: &[usize]) -> Option<usize> {
    tuple.iter().zip(dims).try_fold(0, |sum, (&index, &len)| {
        let index = i64::from(index);
        let at = if index < 0 { index.checked_add_unsigned(len as u64)? } else { index };
        let at = usize::try_from(at).ok().filter(|&at| at < len)?;
        Some(sum * len + at)
    })
}

impl Scatter {
    /// The numbers of a tuple.
    fn check(&self) -> Result<usize> {
        let [indices, updates, output] =
            [&self.indices, &self.updates, &self.output].map(|region| region.window.dims());
        if let Some((&num_axes, tuples)) = indices.split_last() {
            let expected = output.get(num_axes..).map(|rest| [tuples, rest].concat());
            if num_axes > 0 && expected.as_deref() == Some(updates) && updates.len() <= MAX_RANK {
                return Ok(num_axes);
            }
        }
        let message = format!(
            "updates of {updates:?} at indices of {indices:?} to {output:?}: updates have to be of \
             the indices' dims but the last, q, then the output's from q on"
        );
        Err(Error::new(ErrorKind::Argument, "scatter_nd", message))
    }
}
