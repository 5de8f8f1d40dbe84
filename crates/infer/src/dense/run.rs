//! A plan on the CPU, by the references of the operations.

use det_post_ops::dense::host::HostBuffer;
use det_post_ops::dense::layer_norm::{LayerNorm, layer_norm};
use det_post_ops::dense::{HostArena, Region, Window};
use det_post_ops::dense::{
    arg_max, conv, conv_transpose, gather, grid_sample, linear_max, matmul, pointwise, pool,
    reduce, resize, softmax, top_k,
};

use super::plan::{Buffer, Kind, Plan, Role, Step};
use det_post_types::Result;

/// Buffers of a plan in host memory, with its constants.
pub(super) fn arena(plan: &Plan) -> Result<HostArena> {
    let mut arena = HostArena::new();
    for buffer in plan.buffers() {
        let number = arena.push(HostBuffer::zeros(buffer.element, buffer.len)?);
        match &buffer.role {
            Role::Floats(values) => arena.write(&whole(number, buffer), values)?,
            Role::Integers(values) => arena.write_indices(&whole(number, buffer), values)?,
            Role::Input(_) | Role::Output(_) | Role::Work => {}
        }
    }
    Ok(arena)
}

/// All of a buffer.
pub(super) fn whole(number: usize, buffer: &Buffer) -> Region {
    let window = Window::contiguous(&[buffer.len]);
    Region { buffer: number, window: window.unwrap_or_else(empty) }
}

fn empty() -> Window {
    // A window of no elements is always one.
    Window::contiguous(&[0]).unwrap_or_else(|| unreachable!("an empty window"))
}

/// Runs one step.
pub(super) fn step(arena: &mut HostArena, step: &Step) -> Result<()> {
    match &step.kind {
        Kind::Conv { conv: of, regions } => conv::conv(arena, of, regions),
        Kind::Transposed { conv: of, regions, .. } => {
            conv_transpose::conv_transpose(arena, of, regions)
        }
        Kind::MatMul { product, regions, .. } => matmul::matmul(arena, product, regions),
        Kind::LinearMax { layer, input, output, .. } => {
            linear_max::linear_max(arena, layer, input, output)
        }
        Kind::Pool { pool: of, input, output } => pool::pool(arena, of, input, output),
        Kind::Resize { resize: of, input, output } => resize::resize(arena, of, input, output),
        Kind::Pointwise(jobs) => jobs.iter().try_for_each(|job| {
            pointwise::pointwise(arena, &job.program, &job.sources, &job.targets)
        }),
        Kind::Reduce { reduction, axes, input, output } => {
            reduce::reduce(arena, *reduction, axes, input, output)
        }
        Kind::Softmax { softmax: of, input, output } => softmax::softmax(arena, of, input, output),
        Kind::LayerNorm { axes, epsilon, scales, shifts, input, output } => {
            let (epsilon, scales, shifts) = (*epsilon, *scales, Some(*shifts));
            layer_norm(arena, &LayerNorm { axes, epsilon, scales, shifts }, input, output)
        }
        Kind::Gather { gather: of, input, indices, output } => {
            gather::gather(arena, of, input, indices, output)
        }
        Kind::TopK { top_k: of, input, chosen } => top_k::top_k(arena, of, input, chosen),
        Kind::GridSample { sample, input, grid, output } => {
            grid_sample::grid_sample(arena, sample, input, grid, output)
        }
        Kind::ArgMax { search, input, output } => arg_max::arg_max(arena, search, input, output),
    }
}
