//! Kernel, stride, padding and dilation, and the grids that follow from them.

use det_post_types::{Error, ErrorKind, Result};

/// The geometry of a sparse convolution or pooling, per axis, in the order of
/// the axes of the [`SiteGrid`](super::SiteGrid).
///
/// Tap number `k = (k0 * kernel[1] + k1) * kernel[2] + k2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Taps per axis.
    pub kernel: [u32; 3],
    /// Cells of the input from one output cell to the next.
    pub stride: [u32; 3],
    /// Cells added in front of and behind the input.
    pub padding: [u32; 3],
    /// Cells of the input from one tap to the next.
    pub dilation: [u32; 3],
}

/// Which sites the output has, and how taps join it to the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The output has the sites of the input: `input = output + (k - kernel / 2) * dilation`.
    /// The kernel is odd and the stride 1; the padding is ignored.
    Submanifold,
    /// The output has every cell with a site under its kernel:
    /// `input = output * stride - padding + k * dilation`.
    Strided,
    /// The output has every cell that a site reaches:
    /// `output = input * stride - padding + k * dilation`.
    Transposed,
    /// The output has the sites that a strided convolution of this geometry
    /// started from, and the pairs of that convolution with their roles
    /// exchanged, at the same tap numbers.
    Inverse,
}

impl Geometry {
    /// The most taps along an axis.
    pub const MAX_KERNEL: u32 = 15;
    /// The largest stride, padding and dilation.
    pub const MAX_STEP: u32 = 255;

    /// A submanifold geometry: stride 1, dilation 1.
    pub fn submanifold(kernel: [u32; 3]) -> Self {
        Self { kernel, stride: [1; 3], padding: kernel.map(|taps| taps / 2), dilation: [1; 3] }
    }

    /// Number of taps.
    pub fn num_taps(&self) -> usize {
        self.kernel.iter().map(|&taps| taps as usize).product()
    }

    /// The place of a tap in the kernel.
    pub fn tap_offset(&self, tap: usize) -> [u32; 3] {
        let [_, k1, k2] = self.kernel;
        let tap = tap as u32;
        [tap / (k1 * k2), tap / k2 % k1, tap % k2]
    }

    /// Checks the values themselves, and those that a mode excludes.
    ///
    /// # Errors
    /// `Argument` when a kernel, stride or dilation is 0, a value is above
    /// [`Self::MAX_KERNEL`] or [`Self::MAX_STEP`], or a submanifold geometry
    /// has an even kernel or a stride.
    pub fn check(&self, mode: Mode) -> Result<()> {
        let in_range = |values: [u32; 3], min, max| values.iter().all(|v| (min..=max).contains(v));
        let fits = in_range(self.kernel, 1, Self::MAX_KERNEL)
            && in_range(self.stride, 1, Self::MAX_STEP)
            && in_range(self.padding, 0, Self::MAX_STEP)
            && in_range(self.dilation, 1, Self::MAX_STEP);
        if !fits {
            return argument(format!(
                "{self}; kernels must be 1 to {}, strides and dilations 1 to {max}, paddings 0 to \
                 {max}",
                Self::MAX_KERNEL,
                max = Self::MAX_STEP
            ));
        }
        let centred = self.kernel.iter().all(|taps| taps % 2 == 1) && self.stride == [1; 3];
        if mode == Mode::Submanifold && !centred {
            return argument(format!("{self}; submanifold needs an odd kernel and stride 1"));
        }
        Ok(())
    }

    /// The shape of a strided output:
    /// `(input + 2 padding - dilation (kernel - 1) - 1) / stride + 1`, rounded
    /// down.
    ///
    /// # Errors
    /// `Argument` as [`Self::check`], or when the kernel is longer than the
    /// padded input.
    pub fn strided_shape(&self, input: [u32; 3]) -> Result<[u32; 3]> {
        self.check(Mode::Strided)?;
        self.shape(input, |axis| {
            let padded = i64::from(input[axis]) + 2 * i64::from(self.padding[axis]);
            let last = padded - self.extent(axis);
            if last < 0 { 0 } else { last / i64::from(self.stride[axis]) + 1 }
        })
    }

    /// The shape of a transposed output:
    /// `(input - 1) stride - 2 padding + dilation (kernel - 1) + 1 + output_padding`.
    ///
    /// # Errors
    /// `Argument` as [`Self::check`], or when no cell is left.
    pub fn transposed_shape(&self, input: [u32; 3], output_padding: [u32; 3]) -> Result<[u32; 3]> {
        self.check(Mode::Transposed)?;
        self.shape(input, |axis| {
            (i64::from(input[axis]) - 1) * i64::from(self.stride[axis])
                - 2 * i64::from(self.padding[axis])
                + self.extent(axis)
                + i64::from(output_padding[axis])
        })
    }

    /// Cells from the first tap to the last, both included.
    fn extent(&self, axis: usize) -> i64 {
        i64::from(self.dilation[axis]) * (i64::from(self.kernel[axis]) - 1) + 1
    }

    fn shape(&self, input: [u32; 3], cells: impl Fn(usize) -> i64) -> Result<[u32; 3]> {
        let mut shape = [0; 3];
        for (axis, size) in shape.iter_mut().enumerate() {
            let cells = cells(axis);
            *size = match u32::try_from(cells) {
                Ok(cells) if cells > 0 => cells,
                _ => {
                    return argument(format!(
                        "{self} on a grid of {input:?} gives {cells} cells along axis {axis}"
                    ));
                }
            };
        }
        Ok(shape)
    }
}

impl std::fmt::Display for Geometry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kernel, stride, padding, dilation } = self;
        write!(f, "kernel {kernel:?} stride {stride:?} padding {padding:?} dilation {dilation:?}")
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "rulebook", message))
}
