//! The reference on the CPU: the sums of [`conv`](crate::dense::conv) over other taps.

use super::ConvTranspose;
use crate::dense::HostArena;
use crate::dense::conv::ConvRegions;
use crate::dense::conv::cpu::{Shape, Sums, Taps, panels};
use det_post_types::Result;

/// Arguments that fit together; `size` is that of the output.
pub(super) fn conv_transpose(
    arena: &mut HostArena,
    conv: &ConvTranspose,
    regions: &ConvRegions,
    size: [usize; 4],
) -> Result<()> {
    let geometry = &conv.geometry;
    let dims = regions.input.window.dims();
    let input_size = [dims[2], dims[3]];
    let shape = Shape {
        kernel: geometry.kernel,
        groups: geometry.groups,
        num_inputs: conv.num_inputs,
        num_outputs: conv.num_outputs,
    };
    // The input row or column of a tap.
    let inside = |axis: usize, at: usize, tap: usize| {
        let from = (at + geometry.pads[axis]).checked_sub(tap * geometry.dilation[axis])?;
        let input = from / geometry.stride[axis];
        (from.is_multiple_of(geometry.stride[axis]) && input < input_size[axis]).then_some(input)
    };
    let taps = |[item, y, x]: [usize; 3], taps: &mut Taps| {
        for ky in (0..geometry.kernel[0]).rev() {
            let Some(y) = inside(0, y, ky) else { continue };
            for kx in (0..geometry.kernel[1]).rev() {
                let Some(x) = inside(1, x, kx) else { continue };
                let pixel = (item * input_size[0] + y) * input_size[1] + x;
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
