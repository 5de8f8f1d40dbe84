//! The reference on the CPU: a pixel and [`NUM_LANES`] output channels at a time.

use multiversion::multiversion;

use super::{Conv, ConvRegions, Products};
use crate::dense::{Epilogue, HostArena, Region};
use det_post_types::Result;

/// Output channels that are summed together.
const NUM_LANES: usize = 16;

/// Weights of a tap and an input channel.
type Panel = [f32; NUM_LANES];

/// Taps of an output pixel: the number of each, and the first value of its input pixel.
pub(crate) type Taps = Vec<(usize, usize)>;

/// Channels and kernel of a convolution.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) kernel: [usize; 2],
    pub(crate) groups: usize,
    pub(crate) num_inputs: usize,
    pub(crate) num_outputs: usize,
}

/// The sums of a convolution, and what follows them.
pub(crate) struct Sums<'a> {
    pub(crate) shape: Shape,
    pub(crate) products: Products,
    pub(crate) epilogue: &'a Epilogue,
    pub(crate) bias: &'a [f32],
    pub(crate) panels: &'a [Panel],
    /// Appends the taps of an output pixel of an item that are within the input, in the order of
    /// the sum.
    pub(crate) taps: &'a (dyn Fn([usize; 3], &mut Taps) + Sync),
}

/// Arguments that fit together; `size` is that of the output.
pub(super) fn conv(
    arena: &mut HostArena,
    conv: &Conv,
    regions: &ConvRegions,
    size: [usize; 4],
) -> Result<()> {
    let geometry = &conv.geometry;
    let dims = regions.input.window.dims();
    let [h, w] = [dims[2], dims[3]];
    let shape = Shape {
        kernel: geometry.kernel,
        groups: geometry.groups,
        num_inputs: conv.num_inputs,
        num_outputs: conv.num_outputs,
    };
    // The input row or column of a tap.
    let inside = |axis: usize, at: usize, tap: usize| {
        let at = at * geometry.stride[axis] + tap * geometry.dilation[axis];
        let at = at.checked_sub(geometry.pads[axis])? / geometry.upsample;
        (at < [h, w][axis]).then_some(at)
    };
    let taps = |[item, y, x]: [usize; 3], taps: &mut Taps| {
        for ky in 0..geometry.kernel[0] {
            let Some(y) = inside(0, y, ky) else { continue };
            for kx in 0..geometry.kernel[1] {
                let Some(x) = inside(1, x, kx) else { continue };
                let pixel = (item * h + y) * w + x;
                taps.push((ky * geometry.kernel[1] + kx, pixel * conv.num_inputs));
            }
        }
    };
    let sums = Sums {
        shape,
        products: conv.products,
        epilogue: &conv.epilogue,
        bias: &conv.bias,
        panels: &panels(&shape, |output, input, tap| conv.weight(output, input, tap)),
        taps: &taps,
    };
    sums.write(arena, regions, size)
}

/// Weights by group, panel of its output channels, tap and input channel; 0 in the lanes past
/// the last channel. `weight` has an output channel, an input channel of its group and a tap.
pub(crate) fn panels(
    shape: &Shape,
    weight: impl Fn(usize, usize, [usize; 2]) -> f32,
) -> Vec<Panel> {
    let groups = shape.groups;
    let (inputs, outputs) = (shape.num_inputs / groups, shape.num_outputs / groups);
    let [kernel_y, kernel_x] = shape.kernel;
    let mut panels = Vec::new();
    for group in 0..groups {
        for first in (0..outputs).step_by(NUM_LANES) {
            for tap in 0..kernel_y * kernel_x {
                let tap = [tap / kernel_x, tap % kernel_x];
                panels.extend((0..inputs).map(|input| {
                    std::array::from_fn(|lane| {
                        let output = first + lane;
                        let at = group * outputs + output;
                        if output < outputs { weight(at, input, tap) } else { 0.0 }
                    })
                }));
            }
        }
    }
    panels
}

/// The window with its channels last.
fn channels_last(region: &Region) -> Region {
    let window = region.window.permute(&[0, 2, 3, 1]).unwrap_or(region.window);
    Region { window, ..*region }
}

/// Values of input and residual, channels last.
struct Values {
    input: Vec<f32>,
    residual: Vec<f32>,
    output_size: [usize; 2],
}

impl Sums<'_> {
    /// Writes the output, of a size.
    pub(crate) fn write(
        &self,
        arena: &mut HostArena,
        regions: &ConvRegions,
        [n, _, oh, ow]: [usize; 4],
    ) -> Result<()> {
        let input = arena.read(&channels_last(&regions.input))?;
        let input = input.into_iter().map(|value| self.products.round(value)).collect();
        let residual = match &regions.residual {
            Some(region) => arena.read(&channels_last(region))?,
            None => Vec::new(),
        };
        let values = Values { input, residual, output_size: [oh, ow] };
        let row_len = ow * self.shape.num_outputs;
        let mut out = vec![0.0; n * oh * row_len];
        if row_len > 0 {
            let num_threads = std::thread::available_parallelism().map_or(1, usize::from);
            let per_thread = (n * oh).div_ceil(num_threads).max(1);
            std::thread::scope(|scope| {
                for (part, rows) in out.chunks_mut(per_thread * row_len).enumerate() {
                    let values = &values;
                    scope.spawn(move || {
                        for (row, out) in rows.chunks_mut(row_len).enumerate() {
                            self.row(values, part * per_thread + row, out);
                        }
                    });
                }
            });
        }
        arena.write(&channels_last(&regions.output), &out)
    }

    /// A row of the output, counted over all items.
    fn row(&self, values: &Values, row: usize, out: &mut [f32]) {
        let [oh, ow] = values.output_size;
        let num_outputs = self.shape.num_outputs;
        let mut taps = Taps::new();
        for (x, out) in out.chunks_mut(num_outputs).enumerate() {
            taps.clear();
            (self.taps)([row / oh, row % oh, x], &mut taps);
            self.pixel(&values.input, &taps, out);
            let first = (row * ow + x) * num_outputs;
            for (at, value) in out.iter_mut().enumerate() {
                let residual = values.residual.get(first + at).copied().unwrap_or_default();
                *value = self.epilogue.apply(*value + self.bias[at], residual);
            }
        }
    }

    /// The sums of all output channels of a pixel.
    fn pixel(&self, input: &[f32], taps: &Taps, out: &mut [f32]) {
        let inputs = self.shape.num_inputs / self.shape.groups;
        let outputs = self.shape.num_outputs / self.shape.groups;
        let panel_len = self.shape.kernel[0] * self.shape.kernel[1] * inputs;
        let mut panels = self.panels.chunks_exact(panel_len);
        for (group, out) in out.chunks_mut(outputs).enumerate() {
            for out in out.chunks_mut(NUM_LANES) {
                let Some(panel) = panels.next() else { return };
                let mut sums = [0.0; NUM_LANES];
                add_products(input, [group * inputs, inputs], taps, panel, &mut sums);
                out.copy_from_slice(&sums[..out.len()]);
            }
        }
    }
}

/// Adds the products of some taps to the sums; `panel` has all taps of a kernel.
#[multiversion(targets("x86_64+avx2+fma"))]
fn add_products(
    input: &[f32],
    [first, num_inputs]: [usize; 2],
    taps: &[(usize, usize)],
    panel: &[Panel],
    sums: &mut Panel,
) {
    let mut totals = *sums;
    for &(tap, pixel) in taps {
        let values = &input[pixel + first..][..num_inputs];
        let weights = &panel[tap * num_inputs..][..num_inputs];
        for (&value, weights) in values.iter().zip(weights) {
            for (total, &weight) in totals.iter_mut().zip(weights) {
                *total = value.mul_add(weight, *total);
            }
        }
    }
    *sums = totals;
}
