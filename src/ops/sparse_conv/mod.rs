//! Sparse convolution: features of sites, multiplied by the weights of the taps
//! that a rulebook joins.
//!
//! Input `[N, Cin]` and output `[M, Cout]`, rows in the order of their level's
//! sites. A value of the output is, with one rounding an operation,
//!
//! 1. `sum = fma(x, w, sum)` from +0, over the taps that have a site, ascending,
//!    and the input channels, ascending;
//! 2. `+ bias`, where there is one;
//! 3. `+ residual`, where there is one;
//! 4. ReLU, where asked for: `v < 0 ? 0 : v`, so that NaN stays NaN.
//!
//! Batch normalization is folded into weights and bias where they are made.
//! A NaN or an infinity reaches exactly the outputs that a tap joins to it.
//!
//! **Precision.** [`Precision::F32`] is equal, bit for bit, on CPU and CUDA and
//! for any number of threads. The other precisions round features and weights
//! and sum in f32; tensor cores round inside a sum in their own way, so CPU and
//! CUDA agree within the tolerance of docs/numerics.md, and each is equal from
//! run to run. With F16 and Bf16 the output is rounded once more, to nearest
//! even; biases stay f32.

use crate::error::{Error, ErrorKind, Result};

/// The elements of products; sums are f32 always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32.
    #[default]
    F32,
    /// f32 rounded to 10 bits of mantissa, to nearest, ties away from zero;
    /// features are stored as f32.
    Tf32,
    /// IEEE half, weights and stored features.
    F16,
    /// bfloat16, weights and stored features.
    Bf16,
}

/// The parameters of a convolution as files hold them, folded, in f32: the
/// master that every engine packs for itself when it is loaded.
#[derive(Clone, Copy, Debug)]
pub struct ConvParameters<'a> {
    num_outputs: usize,
    num_taps: usize,
    num_inputs: usize,
    weights: &'a [f32],
    bias: Option<&'a [f32]>,
}

impl<'a> ConvParameters<'a> {
    /// The most channels of an input or an output.
    pub const MAX_CHANNELS: usize = 4096;

    /// Weights `[Cout, taps, Cin]` and a bias `[Cout]`.
    ///
    /// # Errors
    /// `Argument` when a size is 0, there are more than
    /// [`Self::MAX_CHANNELS`], or the lengths are not those of the sizes.
    pub fn new(
        [num_outputs, num_taps, num_inputs]: [usize; 3],
        weights: &'a [f32],
        bias: Option<&'a [f32]>,
    ) -> Result<Self> {
        let channels = 1..=Self::MAX_CHANNELS;
        let fits = channels.contains(&num_outputs)
            && channels.contains(&num_inputs)
            && num_taps > 0
            && num_taps.checked_mul(num_outputs * num_inputs) == Some(weights.len())
            && bias.is_none_or(|bias| bias.len() == num_outputs);
        if !fits {
            return Err(Error::new(
                ErrorKind::Argument,
                "sparse_conv",
                format!(
                    "{} weights and a bias of {} are not those of {num_taps} taps from \
                     {num_inputs} to {num_outputs} channels, of which 1 to {} are possible",
                    weights.len(),
                    bias.map_or(0, <[f32]>::len),
                    Self::MAX_CHANNELS
                ),
            ));
        }
        Ok(Self { num_outputs, num_taps, num_inputs, weights, bias })
    }

    /// Channels of the output.
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// Taps.
    pub fn num_taps(&self) -> usize {
        self.num_taps
    }

    /// Channels of the input.
    pub fn num_inputs(&self) -> usize {
        self.num_inputs
    }

    /// `[Cout, taps, Cin]`.
    pub fn weights(&self) -> &'a [f32] {
        self.weights
    }

    /// `[Cout]`; absent is zero.
    pub fn bias(&self) -> Option<&'a [f32]> {
        self.bias
    }
}
