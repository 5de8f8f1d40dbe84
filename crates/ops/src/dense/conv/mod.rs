//! Two-dimensional convolution with what precedes and follows it.
//!
//! Input `[N, C, H, W]`, weights `[O, C / groups, KH, KW]`, output `[N, O, OH, OW]`, each a window
//! of a buffer. With `upsample` 2 the input is read as the nearest-neighbour enlargement by 2.
//! A value of the output is, each operation rounded once,
//!
//! 1. the sum of `x * w` over the taps that are within the input; outside are zeros;
//! 2. `+ bias`, +0 where there is none;
//! 3. [`Epilogue`]: `+ residual` and the activation, in its order; rounded to the elements of the
//!    output.
//!
//! **Precision.** With [`Products::F32`] the sum is `fma(x, w, sum)` from +0 over kernel rows,
//! kernel columns and channels of the group, each ascending; CPU and CUDA are equal to the bit
//! where the activation is ([`Activation::is_exact`](super::Activation::is_exact)). With
//! [`Products::F16`] inputs and weights are rounded to f16, and sums are f32 in an order of each
//! device: within the tolerance of docs/numerics.md, equal from run to run, and for an item of a
//! batch equal to the item by itself, unless items are always together
//! ([`Conv::with_fixed_items`]). Weights are finite, rounded ones as well.
//!
//! A NaN or an infinity of the input reaches the outputs whose taps read it. With
//! [`Products::F16`] on CUDA, an input of at most 8 channels and a kernel wider than one column,
//! it also reaches outputs up to 3 pixels to the left, whose weights for it are zeros.

#[cfg(feature = "cuda")]
mod args;
pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
mod exact;
#[cfg(feature = "cuda")]
pub(crate) mod job;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(feature = "cuda")]
pub(crate) mod launch;
#[cfg(feature = "cuda")]
pub(crate) mod pack;
#[cfg(test)]
mod tests;
#[cfg(feature = "cuda")]
mod tiling;

use super::host::round_f16;
use super::{Epilogue, HostArena, Region};
use det_post_types::{Error, ErrorKind, Result};

/// The elements of products; sums are f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Products {
    /// f32, in the order of the contract.
    F32,
    /// f16.
    F16,
}

impl Products {
    /// A factor of a product.
    pub(crate) fn round(self, value: f32) -> f32 {
        match self {
            Self::F32 => value,
            Self::F16 => round_f16(value),
        }
    }

    /// Weights, each as a factor of products, and a bias for every output, which is 0 where there
    /// is none.
    ///
    /// # Errors
    /// `Argument` of `stage` for other numbers of them, and for a value that is not finite, also
    /// rounded.
    pub(crate) fn rounded(
        self,
        stage: &'static str,
        weights: &[f32],
        bias: Option<&[f32]>,
        [num_weights, num_outputs]: [usize; 2],
    ) -> Result<(Vec<f32>, Vec<f32>)> {
        let refuse = |message| Err(Error::new(ErrorKind::Argument, stage, message));
        if weights.len() != num_weights || bias.is_some_and(|bias| bias.len() != num_outputs) {
            return refuse(format!(
                "{} weights and a bias of {}; allowed: {num_weights}, and none or {num_outputs}",
                weights.len(),
                bias.map_or(0, <[f32]>::len),
            ));
        }
        let weights: Vec<f32> = weights.iter().map(|&weight| self.round(weight)).collect();
        let values = weights.iter().chain(bias.unwrap_or_default());
        let num_not_finite = values.filter(|value| !value.is_finite()).count();
        if num_not_finite > 0 {
            return refuse(format!(
                "{num_not_finite} weights or biases are not finite as {self:?}"
            ));
        }
        Ok((weights, bias.map_or_else(|| vec![0.0; num_outputs], <[f32]>::to_vec)))
    }
}

/// Where the taps of a convolution are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    /// Input pixels from one output pixel to the next, by rows and columns.
    pub stride: [usize; 2],
    /// Input pixels from one tap to the next, by rows and columns.
    pub dilation: [usize; 2],
    /// Zeros around the input: above, left, below, right.
    pub pads: [usize; 4],
    /// Groups of channels, which divide those of input and output.
    pub groups: usize,
    /// 1, or 2 for an input that is enlarged when it is read.
    pub upsample: usize,
}

impl Geometry {
    /// A kernel of one group by every pixel, without zeros around the input.
    pub fn of_kernel(kernel: [usize; 2]) -> Self {
        Self { kernel, stride: [1; 2], dilation: [1; 2], pads: [0; 4], groups: 1, upsample: 1 }
    }

    /// Rows and columns of the output; `None` when the kernel does not fit the input, or a
    /// number is 0 or too large.
    pub fn output_size(&self, size: [usize; 2]) -> Option<[usize; 2]> {
        let of = |axis: usize| {
            let input = size[axis].checked_mul(self.upsample)?;
            let padded = input.checked_add(self.pads[axis])?.checked_add(self.pads[axis + 2])?;
            let kernel = self.kernel[axis].checked_sub(1)?.checked_mul(self.dilation[axis])?;
            Some(padded.checked_sub(kernel.checked_add(1)?)?.checked_div(self.stride[axis])? + 1)
        };
        Some([of(0)?, of(1)?])
    }
}

/// Channels, weights and bias of a convolution, as files hold them.
#[derive(Clone, Copy, Debug)]
pub struct ConvParameters<'a> {
    /// Channels of the output, O.
    pub num_outputs: usize,
    /// Channels of the input, C.
    pub num_inputs: usize,
    /// `[O, C / groups, KH, KW]`.
    pub weights: &'a [f32],
    /// `[O]`; absent is zero.
    pub bias: Option<&'a [f32]>,
}

/// A convolution.
#[derive(Clone, Debug)]
pub struct Conv {
    geometry: Geometry,
    num_outputs: usize,
    num_inputs: usize,
    /// As given, rounded as products are.
    weights: Vec<f32>,
    bias: Vec<f32>,
    epilogue: Epilogue,
    products: Products,
    fixed_items: usize,
}

/// What a convolution reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvRegions {
    /// `[N, C, H, W]`.
    pub input: Region,
    /// `[N, O, OH, OW]`, where the epilogue has one.
    pub residual: Option<Region>,
    /// `[N, O, OH, OW]`.
    pub output: Region,
}

impl Conv {
    /// The most channels of an input or an output, and the most rows or columns of a kernel.
    pub const MAX_CHANNELS: usize = 1 << 14;
    /// The most rows or columns of a kernel, a stride or a dilation.
    pub const MAX_KERNEL: usize = 64;

    /// A convolution.
    ///
    /// # Errors
    /// `Argument` when a number is 0 or beyond its limit, groups do not divide the channels, the
    /// lengths are not those of the sizes, or a weight is not finite, also rounded.
    pub fn new(
        parameters: &ConvParameters<'_>,
        geometry: Geometry,
        epilogue: Epilogue,
        products: Products,
    ) -> Result<Self> {
        let &ConvParameters { num_outputs, num_inputs, weights, bias } = parameters;
        let Geometry { kernel, stride, dilation, pads, groups, upsample } = geometry;
        let channels = 1..=Self::MAX_CHANNELS;
        let spans = 1..=Self::MAX_KERNEL;
        let fits = channels.contains(&num_outputs)
            && channels.contains(&num_inputs)
            && groups > 0
            && num_outputs.is_multiple_of(groups)
            && num_inputs.is_multiple_of(groups)
            && [kernel, stride, dilation].iter().flatten().all(|span| spans.contains(span))
            && pads.iter().all(|&pad| pad <= Self::MAX_KERNEL * Self::MAX_KERNEL)
            && (1..=2).contains(&upsample);
        if !fits {
            return argument(format!(
                "{num_inputs} to {num_outputs} channels by {geometry:?}: channels must be 1 to {} and \
                 multiples of the groups, kernel, stride and dilation 1 to {}, upsample 1 or 2",
                Self::MAX_CHANNELS,
                Self::MAX_KERNEL
            ));
        }
        let expected = num_outputs * (num_inputs / groups) * kernel[0] * kernel[1];
        let (weights, bias) = products.rounded("conv", weights, bias, [expected, num_outputs])?;
        let fixed_items = 1;
        Ok(Self {
            geometry,
            num_outputs,
            num_inputs,
            weights,
            bias,
            epilogue,
            products,
            fixed_items,
        })
    }

    /// For inputs of so many items, which are never computed one by one: the order of f16 sums may
    /// depend on their number. Other numbers of items are a batch, as by default.
    #[must_use]
    pub fn with_fixed_items(mut self, num: usize) -> Self {
        self.fixed_items = num;
        self
    }

    /// Where the taps are.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Channels of the output.
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// Channels of the input.
    pub fn num_inputs(&self) -> usize {
        self.num_inputs
    }

    /// What follows the sum.
    pub fn epilogue(&self) -> &Epilogue {
        &self.epilogue
    }

    /// The elements of products.
    pub fn products(&self) -> Products {
        self.products
    }

    /// The bias, `[O]`.
    pub fn bias(&self) -> &[f32] {
        &self.bias
    }

    /// The weight of an input channel of the group for an output channel at a tap.
    pub(crate) fn weight(&self, output: usize, input: usize, [ky, kx]: [usize; 2]) -> f32 {
        let [_, kernel_x] = self.geometry.kernel;
        let per_input = self.geometry.kernel[0] * kernel_x;
        let inputs = self.num_inputs / self.geometry.groups;
        self.weights[(output * inputs + input) * per_input + ky * kernel_x + kx]
    }

    /// Sizes of the output, if the windows fit the convolution.
    fn check(&self, regions: &ConvRegions) -> Result<[usize; 4]> {
        let input = regions.input.window.dims();
        let size = match *input {
            [n, c, h, w] if c == self.num_inputs => {
                self.geometry.output_size([h, w]).map(|[oh, ow]| [n, self.num_outputs, oh, ow])
            }
            _ => None,
        };
        let output = regions.output.window.dims();
        let Some(size) = size.filter(|size| *output == *size) else {
            return argument(format!(
                "an input of {input:?} and an output of {output:?} do not fit {} to {} channels by {:?}",
                self.num_inputs, self.num_outputs, self.geometry
            ));
        };
        let residual = regions.residual.map(|region| region.window);
        let fits = residual.is_none_or(|window| *window.dims() == size);
        if residual.is_some() != self.epilogue.residual.is_some() || !fits {
            return argument(format!(
                "a residual of {:?} does not fit an output of {size:?} and {:?}",
                residual.map(|window| window.dims().to_vec()),
                self.epilogue
            ));
        }
        Ok(size)
    }
}

/// Computes the convolution on the CPU.
///
/// # Errors
/// `Argument` when windows do not fit the convolution or their buffers.
pub fn conv(arena: &mut HostArena, conv: &Conv, regions: &ConvRegions) -> Result<()> {
    let size = conv.check(regions)?;
    cpu::conv(arena, conv, regions, size)
}

pub(crate) fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "conv", message))
}
