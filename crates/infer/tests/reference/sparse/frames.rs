//! Properties of whole encoders, on a scene of random voxels.

use det_post_infer::sparse::{CpuEncoder, GridAxes, NetworkBuilder, Plan, SparseNetwork, Weights};
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::rulebook::Geometry;
use det_post_types::{ElementType, Tensor};
use proptest::prelude::*;

use det_post_testing::encoders::parameters;

const SHAPE: [u32; 3] = [9, 32, 40];
const NUM_CHANNELS: usize = 3;
const DOWN: Geometry =
    Geometry { kernel: [3; 3], stride: [2; 3], padding: [1; 3], dilation: [1; 3] };
const OUT: Geometry =
    Geometry { kernel: [3, 1, 1], stride: [2, 1, 1], padding: [0; 3], dilation: [1; 3] };

/// Every operation once: two strided levels, a way back, a pooling, a sum that
/// no convolution takes in.
fn every_operation() -> SparseNetwork {
    let weights = |name: &str, num_inputs: usize, num_taps: usize, num_outputs: usize| Weights {
        num_outputs,
        weight: parameters(1, name, num_outputs * num_taps * num_inputs, -0.3, 0.3).into(),
        bias: Some(parameters(2, name, num_outputs, -0.1, 0.1).into()),
    };
    let mut builder = NetworkBuilder::new(SHAPE, NUM_CHANNELS).unwrap();
    let b = &mut builder;
    let stem = b.submanifold("stem", 0, [3; 3], [1; 3], weights("stem", 3, 27, 8)).unwrap();
    let stem = b.relu("stem relu", stem).unwrap();
    let down = b.strided("down", stem, DOWN, weights("down", 8, 27, 20)).unwrap();
    let pooled = b.max_pool("pool", stem, DOWN).unwrap();
    let wide = b.submanifold("wide", pooled, [1; 3], [1; 3], weights("wide", 8, 1, 20)).unwrap();
    let sum = b.add("sum", [down, wide]).unwrap();
    let sum = b.add("twice", [sum, sum]).unwrap();
    let back = b.inverse("back", sum, weights("back", 20, 27, 8)).unwrap();
    let both = b.add("both", [back, stem]).unwrap();
    let both = b.relu("both relu", both).unwrap();
    let again = b.strided("again", both, DOWN, weights("again", 8, 27, 16)).unwrap();
    let small = b.strided("small", again, DOWN, weights("small", 16, 27, 16)).unwrap();
    let large = b
        .transposed(
            "large",
            small,
            Geometry { kernel: [1, 2, 2], stride: [1, 2, 2], padding: [0; 3], dilation: [1; 3] },
            [0; 3],
            weights("large", 16, 4, 12),
        )
        .unwrap();
    let out = b.strided("out", large, OUT, weights("out", 12, 3, 6)).unwrap();
    builder.finish(out, GridAxes::Zyx, [0, 1, 2]).unwrap()
}

fn encoder(capacities: Option<&[usize]>, precision: Precision, num_threads: usize) -> CpuEncoder {
    let network = every_operation();
    let all = network.default_capacities(usize::MAX);
    let plan = Plan::new(network, capacities.unwrap_or(&all)).unwrap();
    CpuEncoder::new(plan, precision, num_threads).unwrap()
}

type Voxel = ([i32; 4], [f32; NUM_CHANNELS]);

fn run(encoder: &mut CpuEncoder, voxels: &[Voxel]) -> Vec<f32> {
    let (coordinates, features): (Vec<[i32; 4]>, Vec<[f32; NUM_CHANNELS]>) =
        voxels.iter().copied().unzip();
    let shape = encoder.plan().network().map_shape();
    let num_values = shape.iter().product();
    // Filled with what must not stay.
    let mut map = Tensor::F32 { shape: shape.to_vec(), values: vec![f32::NAN; num_values] };
    encoder.run(&coordinates, features.as_flattened(), &mut map).unwrap();
    assert_eq!(map.element(), ElementType::F32);
    let Tensor::F32 { values, .. } = map else { panic!("{map:?}") };
    values
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Distinct voxels, in any order.
fn voxels(max: usize) -> impl Strategy<Value = Vec<Voxel>> {
    let axis = |axis: usize| 0..SHAPE[axis] as i32;
    let cells = prop::collection::hash_set((axis(0), axis(1), axis(2)), 0..=max);
    let features = prop::array::uniform3(-2.0_f32..2.0);
    (cells, prop::collection::vec(features, max)).prop_map(|(cells, features)| {
        cells.into_iter().map(|(z, y, x)| [0, z, y, x]).zip(features).collect()
    })
}

#[test]
fn no_voxel_gives_a_map_of_zeros() {
    let mut encoder = encoder(None, Precision::F32, 2);
    assert!(run(&mut encoder, &[]).iter().all(|&value| value == 0.0));
    let outside = [([0, 9, 0, 0], [1.0; 3]), ([1, 0, 0, 0], [1.0; 3]), ([0, 0, -1, 0], [1.0; 3])];
    assert!(run(&mut encoder, &outside).iter().all(|&value| value == 0.0));
    assert_eq!(encoder.counts().entrance.num_outside, 3);
}

#[test]
fn a_full_grid_fills_every_level_and_its_map() {
    let [s0, s1, s2] = SHAPE.map(|size| size as i32);
    let cells = (0..s0).flat_map(|z| (0..s1).flat_map(move |y| (0..s2).map(move |x| [0, z, y, x])));
    let all: Vec<Voxel> = cells.map(|cell| (cell, [0.5, -0.25, 1.0])).collect();
    let mut encoder = encoder(None, Precision::F32, 2);
    let map = run(&mut encoder, &all);
    for sites in encoder.levels() {
        assert_eq!(sites.len(), sites.grid().num_cells());
    }
    assert!(map.iter().all(|value| value.is_finite()));
    assert!(map.iter().filter(|&&value| value != 0.0).count() > map.len() / 2);
}

#[test]
fn every_level_over_its_capacity_is_counted_and_the_lowest_sites_stay() {
    let voxels: Vec<Voxel> = (0..60)
        .map(|i| ([0, i % 9, i * 7 % 32, i * 13 % 40], [i as f32 / 30.0 - 1.0, 0.5, -0.5]))
        .collect();
    let mut roomy = encoder(None, Precision::F32, 1);
    run(&mut roomy, &voxels);
    let full: Vec<usize> = roomy.levels().iter().map(|sites| sites.len()).collect();
    let expected = run(&mut encoder(Some(&full), Precision::F32, 1), &voxels);
    assert_eq!(bits(&expected), bits(&run(&mut roomy, &voxels)), "count = capacity");
    for level in 0..full.len() {
        let mut capacities = full.clone();
        capacities[level] -= 1;
        let mut tight = encoder(Some(&capacities), Precision::F32, 1);
        let map = run(&mut tight, &voxels);
        assert!(map.iter().all(|value| value.is_finite()));
        let num_kept = full[level] - 1;
        let all = roomy.levels()[level].indices();
        assert_eq!(tight.levels()[level].indices(), &all[..num_kept], "level {level}");
        let lost = match level {
            0 => tight.counts().entrance.num_over_capacity,
            level => tight.counts().levels[level - 1].num_over_capacity,
        };
        assert_eq!(lost, 1, "level {level}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut encoder = encoder(None, Precision::F32, 1);
    let shape = encoder.plan().network().map_shape();
    let mut map = Tensor::zeros(ElementType::F32, &shape).unwrap();
    let error = encoder.run(&[[0; 4]], &[1.0; 4], &mut map).unwrap_err();
    assert!(error.message().contains("4 features do not match 1 voxels of 3"), "{error}");
    let mut small = Tensor::zeros(ElementType::F32, &shape[1..]).unwrap();
    let error = encoder.run(&[[0; 4]], &[1.0; 3], &mut small).unwrap_err();
    assert!(error.message().contains("is required"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn frames_do_not_depend_on_order_threads_or_the_frames_before(
        frames in prop::collection::vec(voxels(150), 1..4), precision in 0..4_usize,
    ) {
        let precisions = [Precision::F32, Precision::Tf32, Precision::F16, Precision::Bf16];
        let mut used = encoder(None, precisions[precision], 3);
        for voxels in &frames {
            let found = run(&mut used, voxels);
            let mut sorted = voxels.clone();
            sorted.sort_by_key(|(cell, _)| *cell);
            let fresh = run(&mut encoder(None, precisions[precision], 1), &sorted);
            prop_assert_eq!(bits(&found), bits(&fresh));
        }
    }

    #[test]
    fn a_scene_moved_by_whole_cells_of_the_map_moves_the_map(voxels in voxels(400)) {
        // Cells of the coarsest level are 4 voxels wide, those of the map 2. What
        // a voxel reaches stays inside the grid.
        let near = |cell: &[i32; 4]| (8..16).contains(&cell[2]) && (12..20).contains(&cell[3]);
        let scene: Vec<Voxel> = voxels.into_iter().filter(|(cell, _)| near(cell)).collect();
        let moved: Vec<Voxel> =
            scene.iter().map(|&([b, z, y, x], features)| ([b, z, y + 8, x + 8], features)).collect();
        let mut encoder = encoder(None, Precision::F32, 1);
        let [a, b] = [&scene, &moved].map(|voxels| run(&mut encoder, voxels));
        let [_, num_planes, num_rows, num_columns] = encoder.plan().network().map_shape();
        let (dy, dx) = (4, 4);
        for plane in 0..num_planes {
            for y in 0..num_rows - dy {
                for x in 0..num_columns - dx {
                    let at = |y: usize, x: usize| (plane * num_rows + y) * num_columns + x;
                    let pair = [a[at(y, x)], b[at(y + dy, x + dx)]];
                    prop_assert_eq!(pair[0].to_bits(), pair[1].to_bits(), "{} {} {}", plane, y, x);
                }
            }
        }
    }
}
