//! Plans of sparse networks: fused steps in shared buffers compute what the
//! list of operations says.

use std::sync::Arc;

use det_post_infer::sparse::{
    GridAxes, NetworkBuilder, Operator, Plan, SparseNetwork, StepKind, Weights,
};
use det_post_ops::sparse::rulebook::{Geometry, Mode};
use proptest::prelude::*;

/// A value that stands for a tensor: equal values were computed alike.
type Value = u64;

fn mix(parts: &[u64]) -> Value {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |hash, part| {
        (hash ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29)
    })
}

/// A convolution or pooling: `operation` has the parameters.
fn layer(operation: usize, input: Value) -> Value {
    mix(&[1, operation as u64, input])
}

fn sum(a: Value, b: Value) -> Value {
    mix(&[2, a.min(b), a.max(b)])
}

fn relu(input: Value) -> Value {
    mix(&[3, input])
}

/// The map's input, by the list.
fn by_list(network: &SparseNetwork) -> Value {
    let mut values = vec![7];
    for (at, operation) in network.operations.iter().enumerate() {
        values.push(match &operation.operator {
            Operator::Convolution(conv) => layer(at, values[conv.input]),
            Operator::MaxPool { input, .. } => layer(at, values[*input]),
            Operator::Add { inputs: [a, b] } => sum(values[*a], values[*b]),
            Operator::Relu { input } => relu(values[*input]),
            Operator::Merge { .. } => panic!("no level is merged"),
        });
    }
    values[network.map.input]
}

/// The map's input, by the plan: every step reads and writes buffers.
fn by_plan(plan: &Plan) -> Value {
    let place = |tensor: usize| plan.buffer_of(tensor).expect("the tensor is in a buffer");
    let mut buffers = vec![0; plan.num_buffers()];
    buffers[place(0)] = 7;
    for step in plan.steps() {
        let read = |tensor: usize| buffers[place(tensor)];
        for tensor in step.kind.inputs() {
            assert_ne!(place(tensor), place(step.output), "a step writes what it reads");
        }
        let value = match step.kind {
            StepKind::Convolution { input, residual, .. } => {
                let value = layer(step.operation, read(input));
                residual.map_or(value, |residual| sum(value, read(residual)))
            }
            StepKind::MaxPool { input, .. } => layer(step.operation, read(input)),
            StepKind::Add { inputs: [a, b] } => sum(read(a), read(b)),
            StepKind::Relu { input } => read(input),
            StepKind::Merge { .. } => panic!("no level is merged"),
        };
        // A step that is nothing but a ReLU says so by its kind.
        let has_relu = step.relu || matches!(step.kind, StepKind::Relu { .. });
        buffers[place(step.output)] = if has_relu { relu(value) } else { value };
    }
    buffers[place(plan.network().map.input)]
}

fn weights(num_outputs: usize, num_inputs: usize, taps: usize) -> Weights {
    let weight: Arc<[f32]> = vec![0.5; num_outputs * num_inputs * taps].into();
    Weights { num_outputs, weight, bias: None }
}

const DOWN: Geometry =
    Geometry { kernel: [3; 3], stride: [2; 3], padding: [1; 3], dilation: [1; 3] };

/// A network of random operations, all of which lead to the map.
fn random_network(choices: &[(u8, usize, usize)]) -> SparseNetwork {
    let mut builder = NetworkBuilder::new([16, 12, 20], 2).unwrap();
    let (mut tensors, mut read) = (vec![0], vec![]);
    for (at, &(kind, a, b)) in choices.iter().enumerate() {
        let name = format!("node{at}");
        let (a, b) = (tensors[a % tensors.len()], tensors[b % tensors.len()]);
        let written = match kind {
            0..3 => builder.submanifold(&name, a, [3; 3], [1; 3], weights(2, 2, 27)),
            3 => builder.strided(&name, a, DOWN, weights(2, 2, 27)),
            4 => builder.inverse(&name, a, weights(2, 2, 27)),
            5 => builder.max_pool(&name, a, DOWN),
            6 | 7 => builder.add(&name, [a, b]),
            _ => builder.relu(&name, a),
        };
        // Sums of different levels, inverse ones at level 0, grids that vanish.
        if let Ok(written) = written {
            tensors.push(written);
            read.push(a);
            if matches!(kind, 6 | 7) {
                read.push(b);
            }
        }
    }
    // What nothing reads goes back to level 0 and into one sum.
    let mut total = None;
    for tensor in tensors.into_iter().filter(|tensor| !read.contains(tensor)) {
        let mut tensor = tensor;
        while builder.level_index_of(tensor) != 0 {
            tensor = builder.inverse("back", tensor, weights(2, 2, 27)).unwrap();
        }
        total = Some(match total {
            None => tensor,
            Some(total) => builder.add("total", [total, tensor]).unwrap(),
        });
    }
    builder.finish(total.unwrap(), GridAxes::Zyx, [0, 1, 2]).unwrap()
}

proptest! {
    #[test]
    fn a_plan_computes_what_the_list_says(
        choices in prop::collection::vec((0..11_u8, 0..64_usize, 0..64_usize), 0..40)
    ) {
        let network = random_network(&choices);
        let expected = by_list(&network);
        let capacities = network.default_capacities(100);
        let plan = Plan::new(network, &capacities).unwrap();
        prop_assert_eq!(by_plan(&plan), expected);
        let rulebooks = plan.rulebooks();
        for (at, rulebook) in rulebooks.iter().enumerate() {
            prop_assert!(!rulebooks[..at].contains(rulebook), "made twice");
        }
        for step in plan.steps() {
            let StepKind::Convolution { input, rulebook, .. } = step.kind else { continue };
            let tensors = &plan.network().tensors;
            prop_assert_eq!(rulebooks[rulebook].input_level, tensors[input].level);
            prop_assert_eq!(rulebooks[rulebook].output_level, tensors[step.output].level);
        }
    }
}

/// OpenPCDet's VoxelResBackBone8x on nuScenes' grid, with the smallest weights.
fn res8x() -> SparseNetwork {
    let mut builder = NetworkBuilder::new([41, 1440, 1440], 5).unwrap();
    let conv = |builder: &mut NetworkBuilder, input, [from, to]: [usize; 2]| {
        builder.submanifold("subm", input, [3; 3], [1; 3], weights(to, from, 27)).unwrap()
    };
    let mut x = conv(&mut builder, 0, [5, 16]);
    x = builder.relu("relu", x).unwrap();
    let mut channels = 16;
    for (stage, width) in [16, 32, 64, 128].into_iter().enumerate() {
        if stage > 0 {
            let padding = if stage == 3 { [0, 1, 1] } else { [1; 3] };
            let down = Geometry { padding, ..DOWN };
            x = builder.strided("down", x, down, weights(width, channels, 27)).unwrap();
            x = builder.relu("relu", x).unwrap();
            channels = width;
        }
        for _ in 0..2 {
            let mut y = conv(&mut builder, x, [width, width]);
            y = builder.relu("relu", y).unwrap();
            y = conv(&mut builder, y, [width, width]);
            y = builder.add("add", [y, x]).unwrap();
            x = builder.relu("relu", y).unwrap();
        }
    }
    let out = Geometry { kernel: [3, 1, 1], stride: [2, 1, 1], padding: [0; 3], dilation: [1; 3] };
    x = builder.strided("out", x, out, weights(128, 128, 3)).unwrap();
    x = builder.relu("relu", x).unwrap();
    builder.finish(x, GridAxes::Zyx, [0, 1, 2]).unwrap()
}

#[test]
fn a_residual_encoder_is_21_steps_8_rulebooks_and_3_buffers() {
    let network = res8x();
    let shapes: Vec<_> = network.levels.iter().map(|level| level.shape).collect();
    let expected = [[41, 1440, 1440], [21, 720, 720], [11, 360, 360], [5, 180, 180], [2, 180, 180]];
    assert_eq!(shapes, expected);
    assert_eq!(network.map_shape(), [1, 256, 180, 180]);
    let capacities = network.default_capacities(160_000);
    assert_eq!(capacities, [160_000, 280_000, 200_000, 112_000, 64_800]);
    let plan = Plan::new(network, &capacities).unwrap();
    assert_eq!((plan.steps().len(), plan.num_buffers()), (21, 3));
    let count = |mode| plan.rulebooks().iter().filter(|rulebook| rulebook.mode == mode).count();
    assert_eq!((count(Mode::Submanifold), count(Mode::Strided)), (4, 4));
    let is_residual =
        |kind: &StepKind| matches!(kind, StepKind::Convolution { residual: Some(_), .. });
    assert_eq!(plan.steps().iter().filter(|step| is_residual(&step.kind)).count(), 8);
    assert!(plan.steps().iter().all(|step| step.relu));
    let memory = plan.memory(2);
    assert_eq!(memory.features, 3 * 112_000 * 128 * 2);
    assert_eq!(memory.weights, 2 * plan.network().num_parameters());
    assert!(memory.total() < 220 << 20, "{memory:?}");
    println!("{memory:?}, {} bytes", memory.total());
}

#[test]
fn capacities_have_to_fit_the_levels() {
    let network = res8x();
    let refused =
        |capacities: &[usize]| Plan::new(network.clone(), capacities).unwrap_err().to_string();
    assert!(refused(&[10; 4]).contains("4 capacities for 5 levels"));
    assert!(refused(&[10, 10, 0, 10, 10]).contains("at level 2 must be 1 to"));
    assert!(refused(&[10, 10, 10, 1 << 30, 10]).contains("at level 3"));
    let plan = Plan::new(network.clone(), &[1 << 29; 5]).unwrap();
    assert_eq!(plan.capacities()[4], 2 * 180 * 180, "no more than cells");
}
