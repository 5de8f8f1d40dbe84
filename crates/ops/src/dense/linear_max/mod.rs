//! A linear layer with its activation, and the largest result of each group of rows: the PFN layer
//! of PointPillars, whose groups are the points of pillars.
//!
//! Input `[G, S, K]`, weights `[K, N]`, output `[G, N]`, for any strides. For every row and column,
//! each operation rounded once in f32,
//!
//! 1. the sum of `fma(x, w, sum)` over K from +0, ascending, of values as they are stored;
//! 2. `+ bias` of its column, +0 where there is none;
//! 3. the activation.
//!
//! An output is the largest of its group, NaN where one is: `a > b || a is NaN ? a : b` from minus
//! infinity over S, ascending. It is rounded to the elements of the output. CPU and CUDA are equal
//! where the activation is computed by the same operations ([`Activation::is_exact`]).

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

pub use cpu::linear_max;

use super::matmul::RightWeights;
use super::{Activation, Region};
use det_post_types::{Error, ErrorKind, Result};

/// A linear layer and the maximum over groups.
#[derive(Clone, Debug)]
pub struct LinearMax {
    num_inputs: usize,
    num_outputs: usize,
    weights: Vec<f32>,
    bias: Vec<f32>,
    activation: Activation,
}

impl LinearMax {
    /// The most inputs, K, and outputs, N.
    pub const MAX_CHANNELS: [usize; 2] = [16, 1024];

    /// A layer of these weights.
    ///
    /// # Errors
    /// `Argument` when a size is 0 or above [`Self::MAX_CHANNELS`], the lengths do not match
    /// the sizes, or a weight is not finite.
    pub fn new(right: &RightWeights<'_>, activation: Activation) -> Result<Self> {
        let &RightWeights { num_inputs, num_outputs, weights, bias } = right;
        let [max_inputs, max_outputs] = Self::MAX_CHANNELS;
        let fits = (1..=max_inputs).contains(&num_inputs)
            && (1..=max_outputs).contains(&num_outputs)
            && weights.len() == num_inputs * num_outputs
            && bias.is_none_or(|bias| bias.len() == num_outputs);
        if !fits {
            return argument(format!(
                "{} weights and a bias of {} do not match {num_inputs} inputs and {num_outputs} \
                 outputs; 1 to {max_inputs} inputs and 1 to {max_outputs} outputs are allowed",
                weights.len(),
                bias.map_or(0, <[f32]>::len),
            ));
        }
        let all = weights.iter().chain(bias.unwrap_or_default());
        let num_not_finite = all.filter(|value| !value.is_finite()).count();
        if num_not_finite > 0 {
            return argument(format!("{num_not_finite} weights or biases are not finite"));
        }
        let bias = bias.map_or_else(|| vec![0.0; num_outputs], <[f32]>::to_vec);
        Ok(Self { num_inputs, num_outputs, weights: weights.to_vec(), bias, activation })
    }

    /// G and S, if the windows fit.
    fn check(&self, input: &Region, output: &Region) -> Result<[usize; 2]> {
        let (from, to) = (input.window.dims(), output.window.dims());
        match (from, to) {
            (&[groups, rows, inputs], &[groups_out, outputs])
                if groups == groups_out
                    && rows > 0
                    && [inputs, outputs] == [self.num_inputs, self.num_outputs] =>
            {
                Ok([groups, rows])
            }
            _ => argument(format!(
                "from {from:?} to {to:?}: [G, S, {}] with a row in each group and [G, {}] are \
                 required",
                self.num_inputs, self.num_outputs
            )),
        }
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "linear_max", message))
}
