//! The CUDA implementation of [`attention`](super): keys in tiles with a running maximum,
//! scores never stored. Within the tolerance of docs/numerics.md of the CPU, and the same
//! from run to run. Heads have 8 to 64 channels in steps of 8.
//!
//! Values are stored transposed, a row per channel, its length padded to a multiple of 32
//! keys ([`value_stride`]): what a linear layer writes as a transposed output. Linear layers
//! that do not depend on the attention can be computed in the same launch. On compute capability
//! 9.0 heads of more than 32 channels in f16 have a kernel of their own for launches without any.

pub use super::kernels::{AttentionArgs, AttentionElement, AttentionKernel};

use super::kernels::STEP_KEYS;

/// Values from one row of transposed values to the next.
pub fn value_stride(num_keys: usize) -> usize {
    num_keys.next_multiple_of(STEP_KEYS as usize)
}

/// The factor of the scores of heads of `head_len` channels: `1 / sqrt(head_len)`, to the
/// base 2.
pub fn score_scale(head_len: usize) -> f32 {
    (std::f64::consts::LOG2_E / (head_len as f64).sqrt()) as f32
}
