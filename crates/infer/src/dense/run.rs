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

#[cfg(test)]
mod tests {
    use det_post_testing::precision_networks::{overflowing, pyramid, transformer};
    use det_post_testing::random::Random;
    use det_post_types::{Dim, TensorSpec};

    use super::*;
    use crate::dense::{Network, Precision};

    /// The values of all outputs after steps in an order.
    fn outputs(plan: &Plan, order: &[usize]) -> Vec<Vec<u32>> {
        let mut arena = arena(plan).unwrap();
        let mut random = Random::new(11);
        let ends = |is_wanted: fn(&Role) -> bool| {
            let buffers = plan.buffers().iter().enumerate();
            buffers.filter(move |(_, buffer)| is_wanted(&buffer.role))
        };
        for (number, buffer) in ends(|role| matches!(role, Role::Input(_))) {
            let values: Vec<f32> = (0..buffer.len).map(|_| random.range(0.0, 1.0)).collect();
            arena.write(&whole(number, buffer), &values).unwrap();
        }
        for &at in order {
            step(&mut arena, &plan.steps()[at]).unwrap();
        }
        let read = |(number, buffer)| arena.read(&whole(number, buffer)).unwrap();
        let values = ends(|role| matches!(role, Role::Output(_))).map(read);
        values.map(|values| values.into_iter().map(f32::to_bits).collect()).collect()
    }

    /// An order that steps may have, by chance, and the most of them that could run at a time.
    fn chance(plan: &Plan, random: &mut Random) -> (Vec<usize>, usize) {
        let (mut order, mut widest) = (Vec::new(), 0);
        while order.len() < plan.steps().len() {
            let is_ready = |at: &usize| {
                !order.contains(at) && plan.follows()[*at].iter().all(|at| order.contains(at))
            };
            let ready: Vec<usize> = (0..plan.steps().len()).filter(is_ready).collect();
            widest = widest.max(ready.len());
            order.push(ready[random.below(ready.len())]);
        }
        (order, widest)
    }

    #[test]
    fn every_order_that_the_plan_allows_gives_the_same_bytes() {
        let shape_of = |spec: &TensorSpec| {
            let dims = spec.shape.as_deref().unwrap_or_default().iter();
            Ok(dims.map(|dim| if let Dim::Fixed(length) = dim { *length } else { 1 }).collect())
        };
        let mut random = Random::new(3);
        for (graph, num_beside) in [(pyramid(), 4), (overflowing(), 2), (transformer(), 1)] {
            for precision in [Precision::F16, Precision::F32] {
                let plan = Network::new(&graph.to_bytes(), precision, &shape_of).unwrap().plan;
                let in_turn: Vec<usize> = (0..plan.steps().len()).collect();
                let expected = outputs(&plan, &in_turn);
                assert!(expected.iter().flatten().any(|&bits| bits != 0));
                let mut most = 0;
                for _ in 0..30 {
                    let (order, widest) = chance(&plan, &mut random);
                    most = most.max(widest);
                    assert!(outputs(&plan, &order) == expected, "{order:?}");
                }
                assert!(most >= num_beside, "{most} steps beside each other");
            }
        }
    }
}
