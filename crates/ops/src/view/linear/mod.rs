//! A fully connected layer with what follows it: bias, residuals, normalization
//! and ReLU.
//!
//! Input `[R, I]`, output `[R, O]`. The input rows are the concatenation of parts
//! ([`Part`]): columns of one matrix, or the sum of two. A value of the output is
//!
//! 1. `sum = fma(x, w, sum)` from +0 over the inputs, ascending;
//! 2. `+ bias`, +0 where there is none;
//! 3. `+ residual` for each residual in the order given, each rounded;
//! 4. [`Finish`]: nothing, ReLU (`v < 0 ? 0 : v`, so that NaN stays NaN), layer
//!    normalization ([`layer_norm`](crate::view::layer_norm)), or both in either order.
//!
//! All in f32; a NaN or an infinity in an input row reaches that row of the output
//! and no other. Results on a CPU are equal everywhere. `torch.nn.Linear`,
//! `LayerNorm` and `ReLU` of an equal state dict agree within the rounding of sums.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
pub(crate) mod fold;
#[cfg(feature = "cuda")]
mod job;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(feature = "cuda")]
mod layer;
#[cfg(test)]
mod tests;
#[cfg(feature = "cuda")]
pub mod warpgroup;

use crate::view::layer_norm::LayerNorm;
use crate::view::rows::{Part, Rows, RowsMut};
use det_post_types::{Error, ErrorKind, Result};

/// What follows the sum, the bias and the residuals.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Finish {
    /// Nothing.
    #[default]
    None,
    /// ReLU.
    Relu,
    /// Layer normalization.
    Norm(LayerNorm),
    /// Layer normalization, then ReLU.
    NormRelu(LayerNorm),
    /// ReLU, then layer normalization.
    ReluNorm(LayerNorm),
}

impl Finish {
    /// The normalization, if there is one.
    pub fn norm(&self) -> Option<&LayerNorm> {
        match self {
            Self::None | Self::Relu => None,
            Self::Norm(norm) | Self::NormRelu(norm) | Self::ReluNorm(norm) => Some(norm),
        }
    }
}

/// The parameters of a layer in f32.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearLayer {
    num_inputs: usize,
    num_outputs: usize,
    /// `[inputs, outputs]`, rows padded with zeros to a multiple of
    /// [`cpu::NUM_LANES`].
    weights: Vec<f32>,
    bias: Vec<f32>,
    finish: Finish,
}

impl LinearLayer {
    /// The most inputs or outputs of a layer.
    pub const MAX_CHANNELS: usize = 1 << 14;

    /// A layer from weights `[outputs, inputs]` and a bias `[outputs]`, without
    /// anything that follows.
    ///
    /// # Errors
    /// `Argument` when a size is 0 or above [`Self::MAX_CHANNELS`], the lengths
    /// are not those of the sizes, or a value is not finite.
    pub fn new(
        [num_outputs, num_inputs]: [usize; 2],
        weights: &[f32],
        bias: Option<&[f32]>,
    ) -> Result<Self> {
        let channels = 1..=Self::MAX_CHANNELS;
        let fits = channels.contains(&num_outputs)
            && channels.contains(&num_inputs)
            && weights.len() == num_outputs * num_inputs
            && bias.is_none_or(|bias| bias.len() == num_outputs);
        if !fits {
            return argument(format!(
                "{} weights and a bias of {} do not match {num_inputs} inputs and {num_outputs} \
                 outputs; each must be 1 to {}",
                weights.len(),
                bias.map_or(0, <[f32]>::len),
                Self::MAX_CHANNELS
            ));
        }
        let values = weights.iter().chain(bias.unwrap_or_default());
        let num_not_finite = values.filter(|value| !value.is_finite()).count();
        if num_not_finite > 0 {
            return argument(format!("{num_not_finite} weights or biases are NaN or infinite"));
        }
        let row_len = num_outputs.next_multiple_of(cpu::NUM_LANES);
        let mut transposed = vec![0.0; num_inputs * row_len];
        for (output, row) in weights.chunks_exact(num_inputs).enumerate() {
            for (input, &weight) in row.iter().enumerate() {
                transposed[input * row_len + output] = weight;
            }
        }
        let bias = bias.map_or_else(|| vec![0.0; num_outputs], <[f32]>::to_vec);
        Ok(Self { num_inputs, num_outputs, weights: transposed, bias, finish: Finish::None })
    }

    /// The layer with something that follows it.
    ///
    /// # Errors
    /// `Argument` when a normalization has other channels than the output.
    pub fn with(self, finish: Finish) -> Result<Self> {
        if let Some(norm) = finish.norm().filter(|norm| norm.num_channels() != self.num_outputs) {
            return argument(format!(
                "a normalization of {} channels does not match {} outputs",
                norm.num_channels(),
                self.num_outputs
            ));
        }
        Ok(Self { finish, ..self })
    }

    /// Inputs.
    pub fn num_inputs(&self) -> usize {
        self.num_inputs
    }

    /// Outputs.
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// The weight of an input for an output.
    pub fn weight(&self, output: usize, input: usize) -> f32 {
        self.weights[input * self.num_outputs.next_multiple_of(cpu::NUM_LANES) + output]
    }

    /// The bias, `[outputs]`.
    pub fn bias(&self) -> &[f32] {
        &self.bias
    }

    /// What follows.
    pub fn finish(&self) -> &Finish {
        &self.finish
    }
}

/// Writes all of `out`, `[R, O]`.
///
/// `rows` is memory for some rows of the input; it grows to a fixed size.
///
/// # Errors
/// `Argument` when parts, residuals and output do not fit the layer.
pub fn linear(
    parts: &[Part<'_>],
    layer: &LinearLayer,
    residuals: &[Rows<'_>],
    rows: &mut Vec<f32>,
    out: RowsMut<'_>,
) -> Result<()> {
    let num_rows = out.len();
    out.check("linear", "output", [num_rows, layer.num_outputs])?;
    let num_inputs: usize = parts.iter().map(Part::num_columns).sum();
    if num_inputs != layer.num_inputs {
        return argument(format!("{num_inputs} inputs; the layer has {}", layer.num_inputs));
    }
    parts.iter().try_for_each(|part| part.check("linear", num_rows))?;
    let expected = [num_rows, layer.num_outputs];
    residuals.iter().try_for_each(|rows| rows.check("linear", "residual", expected))?;
    cpu::linear(parts, layer, residuals, rows, out);
    Ok(())
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "linear", message))
}
