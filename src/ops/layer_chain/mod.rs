//! Linear layers that follow each other in one launch, on GPUs with thread block clusters and
//! matrix instructions of warpgroups: those of compute capability 9.0.
//!
//! A chain takes rows, at most 2048 columns each, through a list of steps. A step is a layer of
//! [`linear`](crate::ops::linear) over some columns, with bias, ReLU and, after the results
//! are back in other columns of the rows, a [`layer_norm`](crate::ops::layer_norm) and a sum
//! with columns that are there; or the results leave the chain as rows, as a row per output,
//! in f32, or added to anchors, which a further step encodes as a Sparse4D decoder does.
//!
//! Rows do not depend on each other: all but attention and view sampling of a Sparse4D block
//! is three chains. Weights and stored rows are f16, sums, normalizations, factors of
//! normalizations and anchors f32; results are within the bounds of the operations one by one
//! (docs/numerics.md) and equal from run to run. Other GPUs run those operations.

#[cfg(feature = "cuda")]
mod args;
#[cfg(feature = "cuda")]
mod check;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each chain argues that the kernel fits its parameters")]
mod kernels;
#[cfg(feature = "cuda")]
mod layers;
#[cfg(feature = "cuda")]
mod pack;
