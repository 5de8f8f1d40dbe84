//! Sparse convolution: features of sites, multiplied by the weights of the taps
//! that a rulebook joins.
//!
//! Input `[N, Cin]` and output `[M, Cout]`, rows in the order of their level's
//! sites. A value of the output is, with one rounding an operation,
//!
//! 1. `sum = fma(x, w, sum)` from +0, over the taps that have a site, ascending,
//!    and the input channels, ascending;
//! 2. `+ bias`, +0 where there is none;
//! 3. `+ residual`, where there is one;
//! 4. ReLU, where asked for: `v < 0 ? 0 : v`, so that NaN stays NaN.
//!
//! Batch normalization is folded into weights and bias where they are made.
//! Weights are finite, rounded ones as well; a NaN or an infinity among the
//! features reaches exactly the outputs that a tap joins to it.
//!
//! **Precision.** [`Precision::F32`] is equal, bit for bit, on CPU and CUDA and
//! for any number of threads. The other precisions round features and weights
//! and sum in f32; tensor cores round inside a sum in their own way, so CPU and
//! CUDA agree within the tolerance of docs/numerics.md, and each is equal from
//! run to run. The output is stored in a precision of its own
//! ([`Epilogue::stored`]): an f32 input layer may write f16 features. Biases stay
//! f32.

#[cfg(feature = "cuda")]
mod by_precision;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
mod features;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(feature = "cuda")]
mod pack;
#[cfg(feature = "cuda")]
mod shape;

#[cfg(feature = "cuda")]
pub(crate) use by_precision::ByPrecision;
#[cfg(feature = "cuda")]
pub(crate) use kernels::ZERO_BYTES;

use half::{bf16, f16};

use crate::sparse::rulebook::Table;
use det_post_types::{Error, ErrorKind, Result};

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

impl Precision {
    /// A value as products of this precision see it, rounded to nearest even
    /// where not stated otherwise.
    pub fn round(self, value: f32) -> f32 {
        match self {
            Self::F32 => value,
            Self::F16 => f16::from_f32(value).to_f32(),
            Self::Bf16 => bf16::from_f32(value).to_f32(),
            // Half a unit of the last kept place is added to the magnitude.
            Self::Tf32 if value.is_finite() => f32::from_bits((value.to_bits() + 0x1000) & !0x1fff),
            Self::Tf32 => value,
        }
    }

    /// Refuses weights that rounding makes infinite: tiles multiply them by the zeros of
    /// absent rows, which is NaN.
    ///
    /// # Errors
    /// `Argument`, with how many there are and the largest.
    pub(crate) fn check_weights(
        self,
        stage: &'static str,
        weights: impl IntoIterator<Item = f32>,
    ) -> Result<()> {
        let (name, limit) = match self {
            Self::F32 => return Ok(()),
            Self::Tf32 => ("TF32", f32::from_bits(0x7f7f_e000)),
            Self::F16 => ("float16", f16::MAX.to_f32()),
            Self::Bf16 => ("bfloat16", bf16::MAX.to_f32()),
        };
        let beyond = weights.into_iter().filter(|&weight| !self.round(weight).is_finite());
        let (num, largest) = beyond
            .fold((0, 0.0_f32), |(num, largest), weight| (num + 1, largest.max(weight.abs())));
        if num == 0 {
            return Ok(());
        }
        let message =
            format!("{num} weights of up to {largest:e} are beyond {name}: up to {limit:e}");
        Err(Error::new(ErrorKind::Argument, stage, message))
    }

    /// A value as features of this precision are stored.
    pub fn round_stored(self, value: f32) -> f32 {
        match self {
            Self::F32 | Self::Tf32 => value,
            Self::F16 | Self::Bf16 => self.round(value),
        }
    }
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
    /// [`Self::MAX_CHANNELS`], the lengths are not those of the sizes, or a
    /// value is not finite.
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
                    "{} weights and a bias of {} do not match {num_taps} taps from {num_inputs} \
                     to {num_outputs} channels; channels must be 1 to {}",
                    weights.len(),
                    bias.map_or(0, <[f32]>::len),
                    Self::MAX_CHANNELS
                ),
            ));
        }
        let values = weights.iter().chain(bias.unwrap_or_default());
        let num_not_finite = values.filter(|value| !value.is_finite()).count();
        if num_not_finite > 0 {
            let message = format!("{num_not_finite} weights or biases are NaN or infinite");
            return Err(Error::new(ErrorKind::Argument, "sparse_conv", message));
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

/// The parameters of a convolution, packed for the CPU.
#[derive(Clone, Debug)]
pub struct PackedWeights {
    precision: Precision,
    num_outputs: usize,
    num_taps: usize,
    num_inputs: usize,
    /// By panel of output channels, tap and input channel; zero in the lanes
    /// past the last output channel.
    panels: Vec<[f32; cpu::NUM_LANES]>,
    bias: Vec<f32>,
}

impl PackedWeights {
    /// Packs parameters for products of a precision.
    ///
    /// # Errors
    /// `Argument` when the precision makes a weight infinite.
    pub fn new(parameters: &ConvParameters<'_>, precision: Precision) -> Result<Self> {
        precision.check_weights("sparse_conv", parameters.weights.iter().copied())?;
        let &ConvParameters { num_outputs, num_taps, num_inputs, weights, bias } = parameters;
        let row_len = num_taps * num_inputs;
        let num_panels = num_outputs.div_ceil(cpu::NUM_LANES);
        let mut panels = vec![[0.0; cpu::NUM_LANES]; num_panels * row_len];
        for (output, weights) in weights.chunks_exact(row_len).enumerate() {
            let (panel, lane) = (output / cpu::NUM_LANES, output % cpu::NUM_LANES);
            for (lanes, &weight) in panels[panel * row_len..].iter_mut().zip(weights) {
                lanes[lane] = precision.round(weight);
            }
        }
        let bias = bias.map_or_else(|| vec![0.0; num_outputs], <[f32]>::to_vec);
        Ok(Self { precision, num_outputs, num_taps, num_inputs, panels, bias })
    }

    /// Channels of the output.
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// Channels of the input.
    pub fn num_inputs(&self) -> usize {
        self.num_inputs
    }

    fn panel(&self, panel: usize) -> &[[f32; cpu::NUM_LANES]] {
        let len = self.num_taps * self.num_inputs;
        &self.panels[panel * len..][..len]
    }
}

/// What follows the sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue<'a> {
    /// Features to add, of the shape of the output.
    pub residual: Option<&'a [f32]>,
    /// Whether negative values become 0.
    pub relu: bool,
    /// The precision in which the output is stored.
    pub stored: Precision,
}

/// `value < 0 ? 0 : value`: NaN and the sign of zero stay.
#[inline]
pub fn relu(value: f32) -> f32 {
    if value < 0.0 { 0.0 } else { value }
}

/// Memory of the op, and its number of threads.
#[derive(Clone, Debug)]
pub struct Workspace {
    threads: Vec<cpu::BlockWorkspace>,
    rounded: Vec<f32>,
}

impl Workspace {
    /// Memory for `num_threads` threads, at least one.
    pub fn new(num_threads: usize) -> Self {
        Self { threads: vec![cpu::BlockWorkspace::new(); num_threads.max(1)], rounded: Vec::new() }
    }
}

/// Writes all of `out`, `[M, Cout]`, from `input`, `[N, Cin]`.
///
/// # Errors
/// `Argument` when the lengths are not those of the table and the weights.
pub fn sparse_conv(
    input: &[f32],
    table: &Table,
    weights: &PackedWeights,
    epilogue: Epilogue<'_>,
    workspace: &mut Workspace,
    out: &mut [f32],
) -> Result<()> {
    let out_len = table.len() * weights.num_outputs;
    let fits = weights.num_taps == table.num_taps()
        && input.len() == table.num_input_rows() * weights.num_inputs
        && out.len() == out_len
        && epilogue.residual.is_none_or(|residual| residual.len() == out_len);
    if !fits {
        return Err(Error::new(
            ErrorKind::Argument,
            "sparse_conv",
            format!(
                "{} input values, {} output values and {} of the residual do not fit a table of {} \
                 taps from {} to {} rows and weights of {} taps from {} to {} channels",
                input.len(),
                out.len(),
                epilogue.residual.map_or(0, <[f32]>::len),
                table.num_taps(),
                table.num_input_rows(),
                table.len(),
                weights.num_taps,
                weights.num_inputs,
                weights.num_outputs
            ),
        ));
    }
    let Workspace { threads, rounded } = workspace;
    let precision = weights.precision;
    let input = if precision == Precision::F32 {
        input
    } else {
        rounded.clear();
        rounded.extend(input.iter().map(|&value| precision.round(value)));
        rounded
    };
    cpu::sparse_conv(&cpu::Convolution { input, table, weights, epilogue }, threads, out);
    if matches!(epilogue.stored, Precision::F16 | Precision::Bf16) {
        out.iter_mut().for_each(|value| *value = epilogue.stored.round(*value));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
