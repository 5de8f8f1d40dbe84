//! A whole block of a DETR3D decoder in one launch, on GPUs with thread block clusters.
//!
//! For the rows of `Q` queries, in the notation of [`linear`](crate::view::linear),
//! [`attention`](crate::view::attention), [`view_sample`](crate::view::sample) and
//! [`refine`](crate::view::refine):
//!
//! 1. `a = attention(queries, keys, values)` over all queries;
//! 2. `x1 = LN(W_o a + b_o + content (+ position))`;
//! 3. `g = view_sample(x1, points)`, weighted by sigmoids;
//! 4. `x2 = LN(W_v g + b_v + x1 + ReLU LN(W_e ReLU LN(encode(points)) + b_e))`;
//! 5. `x3 = LN(W_2 ReLU(W_1 x2 + b_1) + b_2 + x2)`, the next content;
//! 6. the points moved by three layers of `x3`; in the last block boxes and logits instead,
//!    otherwise queries, keys and values of the next block.
//!
//! The first block starts after step 2's sum, which does not depend on the frame. Networks
//! have 256 channels in 8 heads, 512 hidden channels and at most 32 classes; other networks
//! and GPUs run the operations one by one, with results within the same bounds
//! (docs/numerics.md). Results are equal from run to run. A texel that no query sees is not
//! read. The method is DETR3D's (Wang et al., CoRL 2021).

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
