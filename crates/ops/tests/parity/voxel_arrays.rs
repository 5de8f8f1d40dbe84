//! Voxels as arrays, and the features of their points: the same values, of points in any memory.

use det_post_ops::arrays::voxels::cuda::{PointGrouping, PointIndices, VoxelColumns};
use det_post_ops::arrays::voxels::voxel_arrays;
use det_post_ops::cloud::pillar_features::cuda::Kernels;
use det_post_ops::cloud::pillar_features::{num_features, pillar_features};
use det_post_ops::cloud::voxelize::{VoxelizeCounts, VoxelizeParams, Voxels, Workspace, voxelize};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, DeviceTensor, Out};
use det_post_types::{ElementType, Points, Tensor};

use det_post_testing::clouds::{grid, scan, uniform};
use det_post_testing::random::Random;
use det_post_testing::tensors::{bits, tensor};

fn reference(points: &Points, params: &VoxelizeParams) -> (Voxels, VoxelizeCounts) {
    let mut workspace = Workspace::new(&params.grid, points.len());
    let mut voxels = Voxels::new(params);
    let counts = voxelize(points, params, &mut workspace, &mut voxels).unwrap();
    (voxels, counts)
}

/// Several clouds through one memory.
fn check(device: &CudaDevice, clouds: &[Points], params: &VoxelizeParams) {
    let stream = device.stream().unwrap();
    let capacity = clouds.iter().map(Points::len).max().unwrap() + 3;
    let mut grouping = PointGrouping::new(&stream, params, capacity).unwrap();
    let kernels = Kernels::load(device).unwrap();
    for points in clouds.iter().chain(clouds) {
        let context =
            format!("{} points of {} channels, {params:?}", points.len(), points.num_channels());
        // Not aligned to vectors.
        let mut values = DeviceBuffer::zeros(&stream, points.values().len() + 1).unwrap();
        values.write(&[&[0.0], points.values()].concat()).unwrap();
        let values = values.input(&stream).unwrap().from(1);
        let (expected, expected_counts) = reference(points, params);
        let (counts, [num_voxels, num_indices]) =
            grouping.group(values, points.num_channels()).unwrap();
        assert_eq!(counts, expected_counts, "{context}");
        assert_eq!(num_voxels, expected.len(), "{context}");
        let u32s = |len| DeviceBuffer::<u32>::zeros(&stream, len).unwrap();
        let [mut cells, mut num_points] = [u32s(3 * num_voxels), u32s(num_voxels)];
        let mut short = u32s(num_indices);
        let mut long = DeviceBuffer::<u64>::zeros(&stream, num_indices).unwrap();
        for round in 0..3 {
            let columns = VoxelColumns {
                cells: cells.output(&stream).unwrap(),
                num_points: num_points.output(&stream).unwrap(),
                point_indices: match round {
                    0 => PointIndices::U32(short.output(&stream).unwrap()),
                    1 => PointIndices::I64(long.output(&stream).unwrap()),
                    _ => PointIndices::U32(Out::empty()),
                },
            };
            grouping.enqueue(columns).unwrap();
            assert!(
                grouping.enqueue(VoxelColumns { cells: Out::empty(), ..columns }).is_err()
                    == (num_voxels > 0)
            );
        }
        let mut indices: Vec<u32> = Vec::new();
        voxel_arrays(&expected, &mut indices);
        assert!(short.read().unwrap() == indices, "{context}: indices");
        let indices: Vec<u64> = indices.iter().map(|&index| index.into()).collect();
        assert!(long.read().unwrap() == indices, "{context}: indices of 64 bits");
        let expected_cells = expected.coordinates().as_flattened();
        assert!(cells.read().unwrap() == expected_cells, "{context}: cells");
        assert!(num_points.read().unwrap() == expected.num_points_per_voxel(), "{context}");
        if params.max_points_per_voxel > 100 {
            continue;
        }
        for (offset_z, element) in [(false, ElementType::F32), (true, ElementType::F16)] {
            let num_features = num_features(points.num_channels(), offset_z);
            let shape = [num_voxels, params.max_points_per_voxel, num_features];
            let mut expected_rows = Tensor::zeros(element, &shape).unwrap();
            pillar_features(points, &expected, &params.grid, offset_z, &mut expected_rows).unwrap();
            let mut rows = DeviceTensor::zeros(&stream, element, &shape).unwrap();
            let before = vec![7.0; shape.iter().product()];
            rows.write(&tensor(element, &shape, &before).view()).unwrap();
            let points = (values, points.num_channels());
            grouping.enqueue_features(&kernels, points, offset_z, &mut rows).unwrap();
            assert!(bits(&rows.read().unwrap()) == bits(&expected_rows), "{context}: features");
        }
    }
}

#[test]
fn arrays_and_features_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(140);
    let pillars = grid(51.2, 5.0, [0.32, 0.32, 10.0]);
    let coarse = grid(1.0, 1.0, [0.5, 0.5, 0.5]);
    let all = VoxelizeParams::ALL_POINTS;
    for num in [0, 1, 255, 257, 5000, 40000] {
        for (grid, max_points_per_voxel, voxel_capacity) in [
            (pillars, 20, 3000),
            (pillars, all, 40001),
            (coarse, 32, 50),
            (coarse, all, 7),
            (coarse, 1, 64),
        ] {
            let params = VoxelizeParams { grid, max_points_per_voxel, voxel_capacity };
            let clouds = [
                scan(&mut random, num, 4),
                uniform(&mut random, num / 2, 4, 1.1),
                uniform(&mut random, num, 4, 53.0),
            ];
            check(&device, &clouds, &params);
        }
    }
}

#[test]
fn more_points_than_there_is_memory_for_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let grid = grid(1.0, 1.0, [0.5, 0.5, 0.5]);
    let params = VoxelizeParams { grid, max_points_per_voxel: 4, voxel_capacity: 8 };
    let mut grouping = PointGrouping::new(&stream, &params, 10).unwrap();
    let values = DeviceBuffer::zeros(&stream, 33).unwrap();
    let values = values.input(&stream).unwrap();
    assert!(grouping.group(values, 3).is_err(), "11 points");
    assert!(grouping.group(values, 2).is_err(), "points in the plane");
    assert_eq!(grouping.group(values, 4).unwrap().1, [1, 4], "8 points in one voxel");
}
