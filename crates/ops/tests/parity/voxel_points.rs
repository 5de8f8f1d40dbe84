//! The points of voxels as networks take them: the same values, and the rule of the range's ends.

use det_post_ops::cloud::DevicePoints;
use det_post_ops::cloud::voxel_points::{VoxelPoints, cuda, voxel_points};
use det_post_ops::cloud::voxelize::cuda::{DeviceVoxels, Workspace};
use det_post_ops::cloud::voxelize::{self, VoxelizeParams, Voxels, voxelize};
use det_post_ops::device::cuda::{CudaDevice, Graph};
use det_post_ops::shared::DeviceCounters;
use det_post_types::{
    Count, FrameReport, Grid, PointRange, Points, RangeEnds, TensorValues, VoxelCoordinates,
};

use det_post_testing::clouds::{scan, uniform};
use det_post_testing::random::Random;

/// Several frames through one workspace: what one leaves is no other's.
struct Problem {
    frames: Vec<Points>,
    params: VoxelizeParams,
    columns: VoxelCoordinates,
}

impl Problem {
    fn reference(&self, points: &Points) -> (VoxelPoints, FrameReport) {
        let mut workspace = voxelize::Workspace::new(&self.params.grid, points.len());
        let mut voxels = Voxels::new(&self.params);
        let counts = voxelize(points, &self.params, &mut workspace, &mut voxels).unwrap();
        let mut report = FrameReport::new();
        report.add_count(Count::PointsOutOfRange, counts.num_out_of_range);
        report.add_count(Count::PointsOverVoxel, counts.num_points_over_voxel);
        report.add_count(Count::PointsOverVoxelCapacity, counts.num_points_over_voxel_capacity);
        report.add_count(Count::VoxelsOverCapacity, counts.num_voxels_over_capacity);
        let num_channels = points.num_channels();
        let mut out = VoxelPoints::new(&self.params, num_channels, self.columns).unwrap();
        voxel_points(points, &voxels, &mut out).unwrap();
        (out, report)
    }

    fn check(&self, device: &CudaDevice) {
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let capacity = self.frames.iter().map(Points::len).max().unwrap() + 3;
        let num_channels = self.frames[0].num_channels();
        let mut points = DevicePoints::with_capacity(&stream, num_channels, capacity).unwrap();
        let mut group = Workspace::new(&stream, &self.params, capacity).unwrap();
        let mut voxels = DeviceVoxels::new(&stream, &self.params, capacity).unwrap();
        let mut workspace = cuda::Workspace::new(&stream).unwrap();
        let mut out =
            cuda::DeviceVoxelPoints::new(&stream, &self.params, num_channels, self.columns)
                .unwrap();
        let graph = Graph::capture(&stream, || {
            group.enqueue(&points, &mut voxels, &mut counters)?;
            workspace.enqueue(&points, &voxels, &mut out)
        })
        .unwrap();
        for _ in 0..2 {
            for frame in &self.frames {
                points.write(frame).unwrap();
                graph.enqueue().unwrap();
                let context = format!(
                    "{} points of {num_channels} channels, {:?}, {:?}",
                    frame.len(),
                    self.params,
                    self.columns
                );
                let (expected, report) = self.reference(frame);
                let [values, numbers, cells] = expected.views().unwrap();
                let num = values.shape()[0];
                assert_eq!(voxels.num.read().unwrap(), [num as u32], "{context}");
                let TensorValues::F32(values) = values.values() else { panic!() };
                let found = out.values.read().unwrap();
                let is_same = found.iter().zip(values).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(is_same, "{context}: points differ");
                for (found, expected) in [(&out.numbers, numbers), (&out.coordinates, cells)] {
                    let TensorValues::I32(expected) = expected.values() else { panic!() };
                    assert_eq!(found.read().unwrap()[..expected.len()], *expected, "{context}");
                }
                assert_eq!(counters.take().unwrap(), report, "{context}");
            }
        }
    }
}

fn params(ends: RangeEnds, voxel_size_m: [f32; 3]) -> VoxelizeParams {
    let range = PointRange { min: [-51.2, -51.2, -5.0], max: [51.2, 51.2, 3.0] };
    VoxelizeParams {
        grid: Grid::truncated(range, voxel_size_m, ends).unwrap(),
        max_points_per_voxel: 10,
        voxel_capacity: 3000,
    }
}

#[test]
fn sizes_limits_and_columns_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(171);
    for (ends, columns, voxel_size_m) in [
        (RangeEnds::BothOutside, VoxelCoordinates::BatchZyx, [0.3, 0.3, 8.0]),
        (RangeEnds::LowInside, VoxelCoordinates::Zyx, [0.17, 0.17, 0.2]),
    ] {
        for num in [0, 1, 31, 256, 257, 20_000] {
            for num_channels in [4, 5] {
                for (max_points_per_voxel, voxel_capacity) in [(20, 3000), (1, 40), (7, 1)] {
                    let frames = vec![
                        scan(&mut random, num, num_channels),
                        uniform(&mut random, num, num_channels, 53.0),
                        uniform(&mut random, num, num_channels, 0.05),
                    ];
                    let params = VoxelizeParams {
                        max_points_per_voxel,
                        voxel_capacity,
                        ..params(ends, voxel_size_m)
                    };
                    Problem { frames, params, columns }.check(&device);
                }
            }
        }
    }
}

/// Points on the ends of the range, one step inside and outside.
#[test]
fn ends_of_the_range_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    for ends in [RangeEnds::BothOutside, RangeEnds::LowInside] {
        let params = params(ends, [0.3, 0.7, 0.9]);
        let range = params.grid.range();
        let mut points = Points::with_capacity(4, 1000);
        let on_axis = |axis: usize| {
            let (min, max) = (range.min[axis], range.max[axis]);
            [min.next_down(), min, min.next_up(), 0.0, max.next_down(), max, max.next_up()]
        };
        for x in on_axis(0) {
            for y in on_axis(1) {
                for z in on_axis(2) {
                    points.push(&[x, y, z, 1.0]);
                }
            }
        }
        let frames = vec![points];
        Problem { frames, params, columns: VoxelCoordinates::Zyx }.check(&device);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let params = params(RangeEnds::LowInside, [1.0, 1.0, 1.0]);
    let points = DevicePoints::with_capacity(&stream, 4, 10).unwrap();
    let voxels = DeviceVoxels::new(&stream, &params, 10).unwrap();
    let mut workspace = cuda::Workspace::new(&stream).unwrap();
    let of = |params: &VoxelizeParams, channels| {
        cuda::DeviceVoxelPoints::new(&stream, params, channels, VoxelCoordinates::Zyx)
    };
    let fewer = VoxelizeParams { voxel_capacity: 2999, ..params };
    let all = VoxelizeParams { max_points_per_voxel: VoxelizeParams::ALL_POINTS, ..params };
    assert!(of(&all, 4).is_err());
    for mut out in [of(&fewer, 4).unwrap(), of(&params, 5).unwrap()] {
        assert!(workspace.enqueue(&points, &voxels, &mut out).is_err());
    }
    assert!(workspace.enqueue(&points, &voxels, &mut of(&params, 4).unwrap()).is_ok());
}
