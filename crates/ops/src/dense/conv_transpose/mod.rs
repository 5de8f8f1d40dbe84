//! Two-dimensional transposed convolution with what follows it.
//!
//! Input `[N, C, H, W]`, weights `[C, O / groups, KH, KW]`, output `[N, O, OH, OW]`. An output
//! pixel at `y` has the taps `k` for which `y + pad - k * dilation` is a multiple of the stride,
//! of the input pixel at their quotient; those outside the input are zeros. Bias, epilogue,
//! rounding and precision are as in [`conv`](super::conv); with `Products::F32` the sum is
//! `fma(x, w, sum)` from +0 over input rows, input columns and channels of the group, each
//! ascending: the taps in descending order.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(test)]
mod tests;

use super::conv::{Conv, ConvRegions, Products};
use super::{Epilogue, HostArena};
use det_post_types::{Error, ErrorKind, Result};

/// Where the taps of a transposed convolution are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeGeometry {
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    /// Output pixels from one input pixel to the next, by rows and columns.
    pub stride: [usize; 2],
    /// Output pixels from one tap to the next, by rows and columns.
    pub dilation: [usize; 2],
    /// Output pixels that are left out: above, left, below, right.
    pub pads: [usize; 4],
    /// Output pixels that are added below and on the right.
    pub output_padding: [usize; 2],
    /// Groups of channels, which divide those of input and output.
    pub groups: usize,
}

impl TransposeGeometry {
    /// A kernel of one group by a stride, nothing left out.
    pub fn of_kernel(kernel: [usize; 2], stride: [usize; 2]) -> Self {
        Self { kernel, stride, dilation: [1; 2], pads: [0; 4], output_padding: [0; 2], groups: 1 }
    }

    /// Rows and columns of the output; `None` when there are none, or too many.
    pub fn output_size(&self, size: [usize; 2]) -> Option<[usize; 2]> {
        let of = |axis: usize| {
            let last = size[axis].checked_sub(1)?.checked_mul(self.stride[axis])?;
            let kernel = self.kernel[axis].checked_sub(1)?.checked_mul(self.dilation[axis])?;
            let all = last.checked_add(kernel)?.checked_add(1)?;
            let padded = all.checked_add(self.output_padding[axis])?;
            let size = padded.checked_sub(self.pads[axis])?.checked_sub(self.pads[axis + 2])?;
            (size > 0).then_some(size)
        };
        Some([of(0)?, of(1)?])
    }

    /// Whether every output pixel has one tap.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_shuffle(&self) -> bool {
        self.kernel == self.stride
            && self.dilation == [1; 2]
            && self.pads == [0; 4]
            && self.output_padding == [0; 2]
    }
}

/// Channels, weights and bias of a transposed convolution, as files hold them.
#[derive(Clone, Copy, Debug)]
pub struct ConvTransposeParameters<'a> {
    /// Channels of the input, C.
    pub num_inputs: usize,
    /// Channels of the output, O.
    pub num_outputs: usize,
    /// `[C, O / groups, KH, KW]`.
    pub weights: &'a [f32],
    /// `[O]`; absent is zero.
    pub bias: Option<&'a [f32]>,
}

/// A transposed convolution.
#[derive(Clone, Debug)]
pub struct ConvTranspose {
    geometry: TransposeGeometry,
    num_inputs: usize,
    num_outputs: usize,
    weights: Vec<f32>,
    bias: Vec<f32>,
    epilogue: Epilogue,
    products: Products,
}

impl ConvTranspose {
    /// A transposed convolution.
    ///
    /// # Errors
    /// `Argument` when a number is 0 or beyond its limit ([`Conv::MAX_CHANNELS`],
    /// [`Conv::MAX_KERNEL`]), groups do not divide the channels, the lengths are not those of the
    /// sizes, or a weight is not finite, also rounded.
    pub fn new(
        parameters: &ConvTransposeParameters<'_>,
        geometry: TransposeGeometry,
        epilogue: Epilogue,
        products: Products,
    ) -> Result<Self> {
        let &ConvTransposeParameters { num_inputs, num_outputs, weights, bias } = parameters;
        let TransposeGeometry { kernel, stride, dilation, pads, output_padding, groups } = geometry;
        let channels = 1..=Conv::MAX_CHANNELS;
        let spans = 1..=Conv::MAX_KERNEL;
        let fits = channels.contains(&num_outputs)
            && channels.contains(&num_inputs)
            && groups > 0
            && num_outputs.is_multiple_of(groups)
            && num_inputs.is_multiple_of(groups)
            && [kernel, stride, dilation].iter().flatten().all(|span| spans.contains(span))
            && pads.iter().chain(&output_padding).all(|&pad| pad <= Conv::MAX_KERNEL);
        if !fits {
            return argument(format!(
                "{num_inputs} to {num_outputs} channels by {geometry:?}: channels must be 1 to {} and \
                 multiples of the groups, kernel, stride and dilation 1 to {}",
                Conv::MAX_CHANNELS,
                Conv::MAX_KERNEL
            ));
        }
        let expected = num_inputs * (num_outputs / groups) * kernel[0] * kernel[1];
        let (weights, bias) =
            products.rounded("conv_transpose", weights, bias, [expected, num_outputs])?;
        Ok(Self { geometry, num_inputs, num_outputs, weights, bias, epilogue, products })
    }

    /// Where the taps are.
    pub fn geometry(&self) -> &TransposeGeometry {
        &self.geometry
    }

    /// Channels of the input.
    pub fn num_inputs(&self) -> usize {
        self.num_inputs
    }

    /// Channels of the output.
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// The elements of products.
    pub fn products(&self) -> Products {
        self.products
    }

    /// What follows the sum.
    pub fn epilogue(&self) -> &Epilogue {
        &self.epilogue
    }

    /// The weight of an input channel of the group for an output channel at a tap.
    fn weight(&self, output: usize, input: usize, [ky, kx]: [usize; 2]) -> f32 {
        let groups = self.geometry.groups;
        let outputs = self.num_outputs / groups;
        let group = output / outputs;
        let input = group * (self.num_inputs / groups) + input;
        let [kernel_y, kernel_x] = self.geometry.kernel;
        let row = (input * outputs + output % outputs) * kernel_y + ky;
        self.weights[row * kernel_x + kx]
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
        let residual = regions.residual.map(|region| region.window);
        let Some(size) = size.filter(|size| {
            *output == *size && residual.is_none_or(|window| *window.dims() == *size)
        }) else {
            return argument(format!(
                "an input of {input:?}, an output of {output:?} and a residual of {:?} do not fit {} to \
                 {} channels by {:?}",
                residual.map(|window| window.dims().to_vec()),
                self.num_inputs,
                self.num_outputs,
                self.geometry
            ));
        };
        if residual.is_some() != self.epilogue.residual.is_some() {
            return argument(format!(
                "a residual is there or missing, unlike in {:?}",
                self.epilogue
            ));
        }
        Ok(size)
    }
}

/// Computes the transposed convolution on the CPU.
///
/// # Errors
/// `Argument` when windows do not fit the convolution or their buffers.
pub fn conv_transpose(
    arena: &mut HostArena,
    conv: &ConvTranspose,
    regions: &ConvRegions,
) -> Result<()> {
    let size = conv.check(regions)?;
    cpu::conv_transpose(arena, conv, regions, size)
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "conv_transpose", message))
}
