//! The CUDA implementation of [`conv_transpose`](super): launches of the kernels of
//! [`conv`](crate::dense::conv). Where every output pixel has one tap, one launch whose columns
//! are the pixels and channels of an input pixel; else one for each remainder of output rows and
//! columns by the stride, which is a convolution with some of the taps.

use super::{ConvTranspose, argument};
use crate::dense::arena::Arena;
use crate::dense::conv::ConvRegions;
use crate::dense::conv::job::{Job, Operand};
use crate::dense::conv::launch::Launch;
use crate::dense::conv::pack::Source;
use crate::dense::{Region, Window};
use det_post_types::Result;

/// A transposed convolution between windows of an arena, with its weights in device memory.
pub struct DeviceConvTranspose {
    launches: Vec<Launch>,
}

impl DeviceConvTranspose {
    /// Packs the weights for the kernels that suit the windows best.
    ///
    /// # Errors
    /// As [`DeviceConv::new`](crate::dense::conv::cuda::DeviceConv::new).
    pub fn new(arena: &Arena, conv: &ConvTranspose, regions: &ConvRegions) -> Result<Self> {
        conv.check(regions)?;
        let launches = if conv.geometry.is_shuffle() {
            vec![shuffle(arena, conv, regions)?]
        } else {
            let [stride_y, stride_x] = conv.geometry.stride;
            let [_, _, oh, ow] = *regions.output.window.dims() else {
                return argument("the output is no map".to_owned());
            };
            let phases =
                (0..stride_y.min(oh)).flat_map(|y| (0..stride_x.min(ow)).map(move |x| [y, x]));
            phases.map(|phase| of_phase(arena, conv, regions, phase)).collect::<Result<_>>()?
        };
        Ok(Self { launches })
    }

    /// Queues the transposed convolution.
    ///
    /// # Errors
    /// As [`DeviceConv::enqueue`](crate::dense::conv::cuda::DeviceConv::enqueue).
    pub fn enqueue(&self, arena: &Arena) -> Result<()> {
        self.launches.iter().try_for_each(|launch| launch.enqueue(arena))
    }
}

/// A convolution by one pixel and stride 1, with these windows.
fn pointwise(arena: &Arena, conv: &ConvTranspose, regions: &ConvRegions) -> Result<Job> {
    let operand = |region: &Region| -> Result<Operand> {
        Ok(Operand { region: *region, element: arena.buffer(region.buffer)?.element() })
    };
    let dims = regions.input.window.dims();
    let out = regions.output.window.dims();
    let groups = conv.geometry.groups;
    Ok(Job {
        items: dims[0] as u32,
        input_size: [dims[2] as u32, dims[3] as u32],
        size: [out[2] as u32, out[3] as u32],
        item_pixels: (out[2] * out[3]) as u32,
        kernel: [1; 2],
        stride: [1; 2],
        dilation: [1; 2],
        pad: [0; 2],
        groups: groups as u32,
        upsample: 1,
        shuffle: [1; 2],
        inputs: (conv.num_inputs / groups) as u32,
        outputs: (conv.num_outputs / groups) as u32,
        products: conv.products,
        epilogue: conv.epilogue,
        input: operand(&regions.input)?,
        right: None,
        residual: regions.residual.as_ref().map(operand).transpose()?,
        output: operand(&regions.output)?,
    })
}

fn shuffle(arena: &Arena, conv: &ConvTranspose, regions: &ConvRegions) -> Result<Launch> {
    let mut job = pointwise(arena, conv, regions)?;
    job.size = job.input_size;
    job.shuffle = conv.geometry.kernel.map(|v| v as u32);
    let (outputs, tap_columns, [_, kernel_x]) = (job.outputs, job.tap_columns(), job.shuffle);
    // Columns are taps, then channels padded to a multiple of 8.
    let weight = |group: u32, column: u32, _: [u32; 2], input: u32| {
        let (tap, channel) = (column / tap_columns, column % tap_columns);
        if channel >= outputs {
            return 0.0;
        }
        let tap = [tap / kernel_x, tap % kernel_x].map(|v| v as usize);
        conv.weight((group * outputs + channel) as usize, input as usize, tap)
    };
    let bias = |group: u32, column: u32| {
        let channel = column % tap_columns;
        let at = (group * outputs + channel) as usize;
        if channel < outputs { conv.bias[at] } else { 0.0 }
    };
    Launch::new(arena, job, &Source { weight: &weight, bias: &bias }, None)
}

/// The taps along an axis of the output pixels with a remainder, descending, and the input pixel
/// of the first for the first output pixel.
fn taps_of(conv: &ConvTranspose, axis: usize, phase: usize) -> (Vec<usize>, i32) {
    let geometry = &conv.geometry;
    let (stride, dilation) = (geometry.stride[axis] as i32, geometry.dilation[axis] as i32);
    let from = (phase + geometry.pads[axis]) as i32;
    let taps = (0..geometry.kernel[axis] as i32).rev();
    let taps: Vec<i32> =
        taps.filter(|tap| (from - tap * dilation).rem_euclid(stride) == 0).collect();
    let first = taps.first().map_or(0, |tap| (from - tap * dilation).div_euclid(stride));
    (taps.iter().map(|&tap| tap as usize).collect(), first)
}

/// The window's rows and columns of a remainder.
fn window_of(
    window: &Window,
    [y, x]: [usize; 2],
    [stride_y, stride_x]: [usize; 2],
) -> Option<Window> {
    let [_, _, h, w] = *window.dims() else { return None };
    window.slice(2, y, stride_y, (h - y).div_ceil(stride_y))?.slice(
        3,
        x,
        stride_x,
        (w - x).div_ceil(stride_x),
    )
}

fn of_phase(
    arena: &Arena,
    conv: &ConvTranspose,
    regions: &ConvRegions,
    phase: [usize; 2],
) -> Result<Launch> {
    let stride = conv.geometry.stride;
    let part = |region: &Region| match window_of(&region.window, phase, stride) {
        Some(window) => Ok(Region { window, ..*region }),
        None => {
            argument(format!("a window of {:?} has no rows by the stride", region.window.dims()))
        }
    };
    let regions = ConvRegions {
        input: regions.input,
        residual: regions.residual.as_ref().map(part).transpose()?,
        output: part(&regions.output)?,
    };
    let mut job = pointwise(arena, conv, &regions)?;
    let taps = [0, 1].map(|axis| taps_of(conv, axis, phase[axis]));
    for (axis, (taps, first)) in taps.iter().enumerate() {
        job.kernel[axis] = taps.len().max(1) as u32;
        // Without taps every product is one of the zeros beside the input.
        job.pad[axis] = if taps.is_empty() { 1 << 24 } else { -first };
        let step = taps.windows(2).next().map_or(1, |pair| pair[0] - pair[1]);
        job.dilation[axis] = (step * conv.geometry.dilation[axis] / stride[axis]).max(1) as u32;
    }
    let outputs = job.outputs;
    let weight = |group: u32, column: u32, [ky, kx]: [u32; 2], input: u32| match (
        taps[0].0.get(ky as usize),
        taps[1].0.get(kx as usize),
    ) {
        (Some(&ky), Some(&kx)) => {
            conv.weight((group * outputs + column) as usize, input as usize, [ky, kx])
        }
        _ => 0.0,
    };
    let bias = |group: u32, column: u32| conv.bias[(group * outputs + column) as usize];
    Launch::new(arena, job, &Source { weight: &weight, bias: &bias }, None)
}
