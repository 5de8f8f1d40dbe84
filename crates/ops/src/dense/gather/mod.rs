//! Elements at indices along a dimension: ONNX's `Gather` and `GatherElements`.
//!
//! [`Mode::Slices`]: the output has, in the place of the axis, the dims of the indices; every index
//! takes a slice of the input. [`Mode::Elements`]: output and indices have equal dims, which are
//! within the input's but for the axis; every index takes one element. An index counts from the end
//! where it is negative; one that is not there gives NaN, of i32 its lowest value (constant indices
//! are to be compared with the axis before: [`check_indices`]). Elements are copied: CPU and CUDA
//! are equal.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

pub use cpu::gather;

use super::{MAX_RANK, Region, Window};
use det_post_types::{Error, ErrorKind, Result};

/// What an index takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A slice of the input.
    Slices,
    /// An element.
    Elements,
}

/// A selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The dimension that indices are of.
    pub axis: usize,
    /// What an index takes.
    pub mode: Mode,
}

/// Windows of the output's dims: the input at index 0, and the indices.
#[derive(Clone, Copy, Debug)]
struct Spread {
    input: Window,
    indices: Window,
}

/// Refuses constant indices that are not within an axis of so many elements.
///
/// # Errors
/// `Argument` with the first of them.
pub fn check_indices(indices: &[i32], axis_len: usize) -> Result<()> {
    match indices.iter().find(|&&index| place(index, axis_len).is_none()) {
        None => Ok(()),
        Some(index) => Err(refused(&format!(
            "the index {index} is not within a dimension of {axis_len} elements"
        ))),
    }
}

/// The element of an index; `None` where it is not there.
fn place(index: i32, axis_len: usize) -> Option<usize> {
    let index = i64::from(index);
    let at = if index < 0 { index.checked_add_unsigned(axis_len as u64)? } else { index };
    usize::try_from(at).ok().filter(|&at| at < axis_len)
}

impl Gather {
    /// The dims of the output; `None` where input and indices do not fit.
    pub fn output_dims(&self, input: &[usize], indices: &[usize]) -> Option<Vec<usize>> {
        if self.axis >= input.len() {
            return None;
        }
        match self.mode {
            Mode::Slices => {
                let dims = [&input[..self.axis], indices, &input[self.axis + 1..]].concat();
                (dims.len() <= MAX_RANK).then_some(dims)
            }
            Mode::Elements => {
                let mut pairs = input.iter().zip(indices).enumerate();
                let fits = input.len() == indices.len()
                    && pairs.all(|(axis, (dim, of_index))| axis == self.axis || of_index <= dim);
                fits.then(|| indices.to_vec())
            }
        }
    }

    fn check(&self, input: &Region, indices: &Region, output: &Region) -> Result<Spread> {
        let dims = output.window.dims();
        let (from, of_indices) = (input.window.dims(), indices.window.dims());
        let expected = self.output_dims(from, of_indices);
        let spread = (expected.as_deref() == Some(dims))
            .then(|| self.spread(&input.window, &indices.window, dims));
        spread.flatten().ok_or_else(|| {
            refused(&format!(
                "{self:?} of {from:?} at indices of {of_indices:?} to {dims:?}: the output has to \
                 have {expected:?}"
            ))
        })
    }

    fn spread(&self, input: &Window, indices: &Window, dims: &[usize]) -> Option<Spread> {
        let (mut of_input, mut of_indices) = ([0; MAX_RANK], [0; MAX_RANK]);
        match self.mode {
            Mode::Slices => {
                let end = self.axis + indices.rank();
                let (before, behind) = input.strides().split_at(self.axis);
                of_input[..self.axis].copy_from_slice(before);
                of_input[end..dims.len()].copy_from_slice(&behind[1..]);
                of_indices[self.axis..end].copy_from_slice(indices.strides());
            }
            Mode::Elements => {
                of_input[..dims.len()].copy_from_slice(input.strides());
                of_input[self.axis] = 0;
                of_indices[..dims.len()].copy_from_slice(indices.strides());
            }
        }
        Some(Spread {
            input: Window::new(input.offset, dims, &of_input[..dims.len()])?,
            indices: Window::new(indices.offset, dims, &of_indices[..dims.len()])?,
        })
    }
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::Argument, "gather", message)
}
