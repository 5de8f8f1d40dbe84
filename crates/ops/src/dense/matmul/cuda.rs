//! The CUDA implementation of [`matmul`](super): the kernels of [`conv`](crate::dense::conv) by a
//! kernel of one pixel, whose pixels are the rows of the left side.

use super::{MatMul, MatMulRegions, argument};
use crate::dense::arena::Arena;
use crate::dense::conv::job::{Job, Operand};
use crate::dense::conv::launch::Launch;
use crate::dense::conv::pack::Source;
use crate::dense::{Region, Window};
use det_post_types::Result;

/// A product between windows of an arena, with its weights in device memory.
pub struct DeviceMatMul {
    launches: Vec<Launch>,
}

impl DeviceMatMul {
    /// Packs the weights, if there are any, for the kernels that suit the windows best.
    ///
    /// # Errors
    /// `Argument` when windows do not fit the product or their buffers; `Device` when this build
    /// has no such kernels or there is not enough memory.
    pub fn new(arena: &Arena, product: &MatMul, regions: &MatMulRegions) -> Result<Self> {
        product.check(regions)?;
        let mut launches = Vec::new();
        add_launches(arena, product, regions, &mut launches)?;
        Ok(Self { launches })
    }

    /// Queues the product.
    ///
    /// # Errors
    /// As [`DeviceConv::enqueue`](crate::dense::conv::cuda::DeviceConv::enqueue).
    pub fn enqueue(&self, arena: &Arena) -> Result<()> {
        self.launches.iter().try_for_each(|launch| launch.enqueue(arena))
    }
}

/// One launch, or where the leading dimensions are none of one stride, one for each index of the
/// first.
fn add_launches(
    arena: &Arena,
    product: &MatMul,
    regions: &MatMulRegions,
    launches: &mut Vec<Launch>,
) -> Result<()> {
    let map = |region: &Region, is_right| map_of(&region.window, is_right);
    let right = regions.right.as_ref().map(|region| map(region, true));
    let residual = regions.residual.as_ref().map(|region| map(region, false));
    let (Some(left), Some(output), true, true) = (
        map(&regions.left, false),
        map(&regions.output, false),
        right.is_none_or(|window| window.is_some()),
        residual.is_none_or(|window| window.is_some()),
    ) else {
        let num = regions.left.window.dims().first().copied().unwrap_or_default();
        return (0..num).try_for_each(|index| {
            let part = |region: &Region| match first_of(&region.window, index) {
                Some(window) => Ok(Region { window, ..*region }),
                None => argument(format!("no strides name {:?}", region.window.dims())),
            };
            let regions = MatMulRegions {
                left: part(&regions.left)?,
                right: regions.right.as_ref().map(part).transpose()?,
                residual: regions.residual.as_ref().map(part).transpose()?,
                output: part(&regions.output)?,
            };
            add_launches(arena, product, &regions, launches)
        });
    };
    let operand = |region: &Region, window: Window| -> Result<Operand> {
        let element = arena.buffer(region.buffer)?.element();
        Ok(Operand { region: Region { window, ..*region }, element })
    };
    let optional = |region: Option<&Region>, window: Option<Option<Window>>| {
        region.zip(window.flatten()).map(|(region, window)| operand(region, window)).transpose()
    };
    let [items, inputs, _, rows] = *left.dims() else { return argument("no map".to_owned()) };
    let job = Job {
        items: items as u32,
        input_size: [1, rows as u32],
        size: [1, rows as u32],
        // Rows of a matrix without leading dimensions may be items of a batch.
        item_pixels: if regions.left.window.rank() < 3 { 1 } else { rows as u32 },
        kernel: [1; 2],
        stride: [1; 2],
        dilation: [1; 2],
        pad: [0; 2],
        groups: 1,
        upsample: 1,
        shuffle: [1; 2],
        inputs: inputs as u32,
        outputs: output.dims()[1] as u32,
        products: product.products,
        epilogue: product.epilogue,
        input: operand(&regions.left, left)?,
        right: optional(regions.right.as_ref(), right)?,
        residual: optional(regions.residual.as_ref(), residual)?,
        output: operand(&regions.output, output)?,
    };
    let weights = product.right.as_ref();
    let weight = |_: u32, column: u32, _: [u32; 2], input: u32| {
        weights
            .map_or(0.0, |right| right.values[input as usize * right.num_outputs + column as usize])
    };
    let bias = |_: u32, column: u32| weights.map_or(0.0, |right| right.bias[column as usize]);
    let source = Source { weight: &weight, bias: &bias };
    launches.push(Launch::new(arena, job.flattened(), &source, None)?);
    Ok(())
}

/// `[..., R, C]` as a map `[B, C, 1, R]`, or of the right side `[B, R, 1, C]`; `None` where no strides
/// name it.
fn map_of(window: &Window, is_right: bool) -> Option<Window> {
    let (leading, &[rows, columns]) = window.dims().split_last_chunk()?;
    let batch = leading.iter().product();
    let window = window.reshape(&[batch, rows, columns])?;
    let [b, r, c] = *window.strides() else { return None };
    if is_right {
        Window::new(window.offset, &[batch, rows, 1, columns], &[b, r, 0, c])
    } else {
        Window::new(window.offset, &[batch, columns, 1, rows], &[b, c, 0, r])
    }
}

/// The window of an index of the first dimension, which it loses.
fn first_of(window: &Window, index: usize) -> Option<Window> {
    // Without leading dimensions there is always a map.
    if window.rank() < 3 {
        return None;
    }
    let part = window.slice(0, index, 1, 1)?;
    Window::new(part.offset, &part.dims()[1..], &part.strides()[1..])
}
