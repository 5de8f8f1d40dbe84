//! A convolution as kernels compute it: also transposed convolutions and products of matrices.

use super::{Conv, ConvRegions, Products};
use crate::dense::{Epilogue, Region, Window};
use det_post_types::{ElementType, Result};

/// Sizes, taps and windows of a launch.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) items: u32,
    /// Rows and columns of the input.
    pub(crate) input_size: [u32; 2],
    /// Rows and columns of output pixels, before they are shuffled.
    pub(crate) size: [u32; 2],
    /// Output pixels of an item, or of items that are always together, whatever they are flattened
    /// or merged to: what the order of sums may depend on.
    pub(crate) item_pixels: u32,
    pub(crate) kernel: [u32; 2],
    pub(crate) stride: [u32; 2],
    pub(crate) dilation: [u32; 2],
    /// Zeros above and to the left; less than 0 cuts the input.
    pub(crate) pad: [i32; 2],
    pub(crate) groups: u32,
    pub(crate) upsample: u32,
    /// Each output pixel of the sums is so many rows and columns of the output.
    pub(crate) shuffle: [u32; 2],
    /// Channels of a group.
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
    pub(crate) products: Products,
    pub(crate) epilogue: Epilogue,
    pub(crate) input: Operand,
    /// The right side of a product, `[N, K, 1, columns]`; absent with weights.
    pub(crate) right: Option<Operand>,
    pub(crate) residual: Option<Operand>,
    pub(crate) output: Operand,
}

/// A window `[N, C, H, W]` of a buffer with its elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) region: Region,
    pub(crate) element: ElementType,
}

impl Operand {
    /// Whether channels can be read or written 16 bytes at once.
    pub(crate) fn is_vector(&self) -> bool {
        let window = &self.region.window;
        let is_multiple =
            |axis: usize| window.dims()[axis] == 1 || window.strides()[axis].is_multiple_of(8);
        (window.dims()[1] == 1 || window.strides()[1] == 1)
            && [0, 2, 3].into_iter().all(is_multiple)
            && window.offset.is_multiple_of(8)
            && self.element != ElementType::I32
    }

    /// All pixels in one row.
    fn flattened(&self) -> Option<Self> {
        let window = &self.region.window;
        let [n, c, h, w] = *window.dims() else { return None };
        let window = window.reshape(&[n, c, h * w])?;
        let [s_n, s_c, s_w] = *window.strides() else { return None };
        let window = Window::new(window.offset, &[n, c, 1, h * w], &[s_n, s_c, 0, s_w])?;
        Some(Self { region: Region { window, ..self.region }, ..*self })
    }

    /// All items in one.
    fn merged(&self) -> Option<Self> {
        let window = &self.region.window;
        let [n, c, 1, w] = *window.dims() else { return None };
        let turned = window.permute(&[1, 0, 2, 3])?.reshape(&[c, n * w])?;
        let [s_c, s_w] = *turned.strides() else { return None };
        let window = Window::new(window.offset, &[1, c, 1, n * w], &[0, s_c, 0, s_w])?;
        Some(Self { region: Region { window, ..self.region }, ..*self })
    }
}

impl Job {
    /// # Errors
    /// `Argument` when windows do not fit the convolution.
    pub(crate) fn of_conv(
        conv: &Conv,
        regions: &ConvRegions,
        element: impl Fn(usize) -> Result<ElementType>,
    ) -> Result<Self> {
        let [n, _, oh, ow] = conv.check(regions)?;
        let geometry = conv.geometry();
        let dims = regions.input.window.dims();
        let operand = |region: &Region| -> Result<Operand> {
            Ok(Operand { region: *region, element: element(region.buffer)? })
        };
        Ok(Self {
            items: n as u32,
            input_size: [dims[2] as u32, dims[3] as u32],
            size: [oh as u32, ow as u32],
            item_pixels: (oh * ow * if n == conv.fixed_items { n } else { 1 }) as u32,
            kernel: geometry.kernel.map(|v| v as u32),
            stride: geometry.stride.map(|v| v as u32),
            dilation: geometry.dilation.map(|v| v as u32),
            pad: [geometry.pads[0] as i32, geometry.pads[1] as i32],
            groups: geometry.groups as u32,
            upsample: geometry.upsample as u32,
            shuffle: [1; 2],
            inputs: (conv.num_inputs() / geometry.groups) as u32,
            outputs: (conv.num_outputs() / geometry.groups) as u32,
            products: conv.products(),
            epilogue: *conv.epilogue(),
            input: operand(&regions.input)?,
            right: None,
            residual: regions.residual.as_ref().map(operand).transpose()?,
            output: operand(&regions.output)?,
        })
    }

    /// Columns of a group: its output channels, of each shuffled pixel a multiple of 8.
    pub(crate) fn columns(&self) -> u32 {
        match self.shuffle {
            [1, 1] => self.outputs,
            [y, x] => self.tap_columns() * y * x,
        }
    }

    pub(crate) fn tap_columns(&self) -> u32 {
        self.outputs.next_multiple_of(8)
    }

    /// Rows or columns of input that so many of the output read.
    pub(crate) fn patch(&self, axis: usize, outputs: u32) -> u32 {
        (outputs - 1) * self.stride[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1
    }

    /// Whether the input is f16 and can be copied 16 bytes at once.
    pub(crate) fn is_vector(&self) -> bool {
        self.input.element == ElementType::F16
            && self.input.is_vector()
            && (self.groups == 1 || self.inputs.is_multiple_of(8))
    }

    /// With all pixels in one row, and all items in one, where the kernel is one pixel and the
    /// strides allow it: fewer and whole tiles.
    pub(crate) fn flattened(mut self) -> Self {
        let is_pointwise = self.kernel == [1; 2]
            && self.stride == [1; 2]
            && self.pad == [0; 2]
            && self.upsample == 1
            && self.shuffle == [1; 2]
            && self.right.is_none()
            && self.size == self.input_size;
        if is_pointwise {
            self.reform(Operand::flattened);
            self.reform(Operand::merged);
            let [n, _, h, w] = *self.input.region.window.dims() else { return self };
            self.items = n as u32;
            self.input_size = [h as u32, w as u32];
            self.size = self.input_size;
        }
        self
    }

    /// Replaces all operands, or none.
    fn reform(&mut self, of: impl Fn(&Operand) -> Option<Operand>) {
        let residual = self.residual.as_ref().map(&of);
        if let (Some(input), Some(output)) = (of(&self.input), of(&self.output))
            && residual.as_ref().is_none_or(Option::is_some)
        {
            (self.input, self.output, self.residual) = (input, output, residual.flatten());
        }
    }
}
