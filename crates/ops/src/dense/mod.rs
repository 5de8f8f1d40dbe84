//! Dense layers of networks: convolution, products of matrices, what surrounds them.
//!
//! Every tensor is a [`Window`]: a strided view of a buffer, so that concatenations, slices,
//! transpositions and broadcasts cost nothing. Operations name buffers by numbers ([`Region`]),
//! those of the host in a [`HostArena`], those of a GPU in an [`Arena`](arena::Arena).
//!
//! Maps are `[N, C, H, W]` by their dimensions and channels-last by their strides: the channels
//! of a pixel are neighbours.
//!
//! **Precision.** On the host, values are f32; what is stored in a buffer of f16 is rounded once,
//! to nearest even. Sums are f32 on both sides.

pub mod activation;
#[cfg(feature = "cuda")]
pub mod arena;
pub mod arg_max;
pub mod conv;
pub mod conv_transpose;
pub mod cumsum;
pub mod gather;
pub mod grid_sample;
pub mod host;
#[cfg(feature = "cuda")]
mod launch;
pub mod layer_norm;
#[cfg(feature = "cuda")]
mod layout;
pub mod linear_max;
pub mod matmul;
mod order;
pub mod pointwise;
pub mod pool;
pub mod reduce;
pub mod resize;
mod rows;
pub mod scatter_nd;
pub mod softmax;
#[cfg(test)]
mod testing;
pub mod top_k;
pub mod window;

pub use activation::{Activation, Epilogue, Residual};
pub use host::HostArena;
pub use window::{MAX_RANK, Region, Window};
