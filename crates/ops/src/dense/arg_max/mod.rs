//! The position of the largest, or smallest, value along a dimension.
//!
//! Of equal values the first position, or the last ([`ArgMax::is_last`]); zeros are equal. NaN is
//! below every value (above every value for the smallest): in a row of nothing but NaN, it is equal
//! to itself. Positions are i32; an output has 1 where the axis was. CPU and CUDA are equal.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

pub use cpu::arg_max;

/// A search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgMax {
    /// The dimension.
    pub axis: usize,
    /// Whether the smallest value is found.
    pub is_smallest: bool,
    /// Whether the last of equal values is taken.
    pub is_last: bool,
}
