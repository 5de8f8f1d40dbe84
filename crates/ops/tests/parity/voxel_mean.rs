//! Means of the points of voxels: the same bits.

use det_post_ops::cloud::DevicePoints;
use det_post_ops::cloud::voxelize::cuda::{DeviceVoxels, Workspace as DeviceVoxelize};
use det_post_ops::cloud::voxelize::{self, VoxelizeParams, Voxels, voxelize};
use det_post_ops::device::cuda::{DeviceBuffer, Graph};
use det_post_ops::shared::DeviceCounters;
use det_post_ops::sparse::voxel_mean::{cuda, voxel_mean};
use det_post_types::{ChannelTransform, ElementType, Points, Tensor};

use det_post_testing::clouds::{grid, uniform};
use det_post_testing::random::Random;

const TRANSFORMS: [ChannelTransform; 3] =
    [ChannelTransform::Identity, ChannelTransform::Identity, ChannelTransform::Tanh];

/// Frames of 5 channels one after another in one graph, each equal to the CPU.
fn check(frames: &[Points], params: &VoxelizeParams) {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let capacity = frames.iter().map(Points::len).max().unwrap();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    let mut points = DevicePoints::with_capacity(&stream, 5, capacity).unwrap();
    let mut group = DeviceVoxelize::new(&stream, params, capacity).unwrap();
    let mut voxels = DeviceVoxels::new(&stream, params, capacity).unwrap();
    let mut features = DeviceBuffer::zeros(&stream, params.voxel_capacity * 5).unwrap();
    let workspace = cuda::Workspace::new(&stream, &TRANSFORMS).unwrap();
    let graph = Graph::capture(&stream, || {
        group.enqueue(&points, &mut voxels, &mut counters)?;
        workspace.enqueue(&points, &voxels, &mut features)
    })
    .unwrap();
    let num_allocations = stream.num_allocations();
    for frame in frames {
        points.write(frame).unwrap();
        graph.enqueue().unwrap();
        let mut grouped = Voxels::new(params);
        let mut on_cpu = voxelize::Workspace::new(&params.grid, frame.len());
        voxelize(frame, params, &mut on_cpu, &mut grouped).unwrap();
        let mut expected = Tensor::zeros(ElementType::F32, &[grouped.len(), 5]).unwrap();
        voxel_mean(frame, &grouped, &TRANSFORMS, &mut expected).unwrap();
        let Tensor::F32 { values: expected, .. } = expected else { panic!("f32") };
        let found = features.read().unwrap();
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // Which NaN it is differs between devices.
            let is_equal =
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            let num = grouped.num_points_per_voxel()[at / 5];
            assert!(is_equal, "{found} for {expected}, channel {} of {num} points", at % 5);
        }
    }
    assert_eq!(stream.num_allocations(), num_allocations);
}

#[test]
fn voxel_means_agree() {
    let mut random = Random::new(414);
    let params = VoxelizeParams {
        grid: grid(5.0, 1.0, [0.5, 0.6, 0.5]),
        max_points_per_voxel: 4,
        voxel_capacity: 700,
    };
    let frames = [0, 1, 40, 3000].map(|num| uniform(&mut random, num, 5, 5.2));
    check(&frames, &params);
    let all = VoxelizeParams { max_points_per_voxel: VoxelizeParams::ALL_POINTS, ..params };
    check(&frames, &all);
}

#[test]
fn means_of_large_voxels_agree() {
    let mut random = Random::new(415);
    let params = VoxelizeParams {
        grid: grid(5.0, 1.0, [5.0, 5.0, 2.0]),
        max_points_per_voxel: VoxelizeParams::ALL_POINTS,
        voxel_capacity: 4,
    };
    // Four voxels of 0 to 65 points, of as many as a block holds at once and one more, and of
    // thousands.
    let frames =
        [7, 200, 256, 260, 3276, 3280, 20_000].map(|num| uniform(&mut random, num, 5, 4.9));
    check(&frames, &params);
}

#[test]
fn a_voxel_of_100000_points_with_nan_among_their_features_agrees() {
    let mut random = Random::new(416);
    let params = VoxelizeParams {
        grid: grid(50.0, 4.0, [0.5, 0.5, 8.0]),
        max_points_per_voxel: VoxelizeParams::ALL_POINTS,
        voxel_capacity: 40_000,
    };
    let mut frame = uniform(&mut random, 150_000, 5, 50.0);
    for (at, values) in frame.values_mut().chunks_exact_mut(5).enumerate() {
        if at % 3 != 0 {
            values[..3].fill(0.1);
        }
    }
    let mut with_nan = frame.clone();
    for (at, values) in with_nan.values_mut().chunks_exact_mut(5).enumerate() {
        if at % 5000 == 1 {
            values[4] = f32::NAN;
        }
        if at % 777 == 0 {
            values[3] = f32::INFINITY;
        }
    }
    check(&[frame, with_nan], &params);
}
