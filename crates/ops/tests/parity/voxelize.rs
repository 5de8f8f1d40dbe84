//! Grouping into voxels: the same voxels in the same order with the same points,
//! and the same counts.

use det_post_ops::cloud::DevicePoints;
use det_post_ops::cloud::voxelize::cuda::{DeviceVoxels, Workspace};
use det_post_ops::cloud::voxelize::{self, VoxelizeCounts, VoxelizeParams, Voxels, voxelize};
use det_post_ops::device::cuda::{CudaDevice, Graph};
use det_post_ops::shared::DeviceCounters;
use det_post_types::{Count, FrameReport, Points};

use det_post_testing::clouds::{grid, scan, shared_scans, uniform};
use det_post_testing::random::Random;

/// Several frames through one workspace: each must find it empty.
struct Problem {
    frames: Vec<Points>,
    params: VoxelizeParams,
}

impl Problem {
    fn new(frames: Vec<Points>, params: VoxelizeParams) -> Self {
        Self { frames, params }
    }

    fn reference(&self, points: &Points) -> (Voxels, VoxelizeCounts) {
        let mut workspace = voxelize::Workspace::new(&self.params.grid, points.len());
        let mut voxels = Voxels::new(&self.params);
        let counts = voxelize(points, &self.params, &mut workspace, &mut voxels).unwrap();
        (voxels, counts)
    }

    fn describe(&self, points: &Points) -> String {
        let VoxelizeParams { grid, max_points_per_voxel, voxel_capacity } = self.params;
        format!(
            "{} points of {} channels, grid {:?}, {voxel_capacity} voxels of {max_points_per_voxel}",
            points.len(),
            points.num_channels(),
            grid.grid_size()
        )
    }

    fn check(&self, device: &CudaDevice) {
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let capacity = self.frames.iter().map(Points::len).max().unwrap() + 3;
        let num_channels = self.frames[0].num_channels();
        let mut points = DevicePoints::with_capacity(&stream, num_channels, capacity).unwrap();
        let mut workspace = Workspace::new(&stream, &self.params, capacity).unwrap();
        let mut voxels = DeviceVoxels::new(&stream, &self.params, capacity).unwrap();
        let graph =
            Graph::capture(&stream, || workspace.enqueue(&points, &mut voxels, &mut counters))
                .unwrap();
        for run in 0..2 {
            for frame in &self.frames {
                points.write(frame).unwrap();
                graph.enqueue().unwrap();
                let context = format!("run {run}: {}", self.describe(frame));
                let (expected, counts) = self.reference(frame);
                assert_eq!(counters.take().unwrap(), dropped(&counts), "{context}");
                check_voxels(&voxels, &expected, &context);
            }
        }
    }
}

/// What a frame's counters hold after the grouping.
fn dropped(counts: &VoxelizeCounts) -> FrameReport {
    det_post_testing::counted([
        (Count::PointsOutOfRange, counts.num_out_of_range),
        (Count::PointsOverVoxel, counts.num_points_over_voxel),
        (Count::PointsOverVoxelCapacity, counts.num_points_over_voxel_capacity),
        (Count::VoxelsOverCapacity, counts.num_voxels_over_capacity),
    ])
}

fn check_voxels(found: &DeviceVoxels, expected: &Voxels, context: &str) {
    let num = found.num.read().unwrap()[0] as usize;
    assert_eq!(num, expected.len(), "{context}: voxels");
    let grid = found.params().grid;
    let cells: Vec<u32> =
        expected.coordinates().iter().map(|&cell| grid.index_of(cell) as u32).collect();
    assert!(found.cells.read().unwrap()[..num] == cells, "{context}: cells");
    let num_points = found.num_points_per_voxel.read().unwrap();
    assert_eq!(&num_points[..num], expected.num_points_per_voxel(), "{context}: points a voxel");
    let indices = found.point_indices.read().unwrap();
    let limit = found.params().max_points_per_voxel;
    let mut first = 0;
    for voxel in 0..num {
        let expected = expected.points_of(voxel);
        let places = &indices[first..][..expected.len()];
        assert!(places == expected, "{context}: points of voxel {voxel}");
        first += if limit == VoxelizeParams::ALL_POINTS { expected.len() } else { limit };
    }
}

fn pillars(max_points_per_voxel: usize, voxel_capacity: usize) -> VoxelizeParams {
    let grid = grid(51.2, 5.0, [0.32, 0.32, 10.0]);
    VoxelizeParams { grid, max_points_per_voxel, voxel_capacity }
}

#[test]
fn sizes_and_channels_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(110);
    for num in [0, 1, 2, 31, 33, 255, 256, 257, 512, 513, 4000] {
        for num_channels in [3, 4, 5, 11] {
            let frames = vec![
                scan(&mut random, num, num_channels),
                uniform(&mut random, num, num_channels, 53.0),
            ];
            Problem::new(frames, pillars(20, 3000)).check(&device);
        }
    }
}

#[test]
fn both_limits_and_everything_in_one_voxel_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(111);
    let one_voxel = |random: &mut Random, num| uniform(random, num, 4, 0.05);
    for max_points in [1, 2, 20, 31, 32, 33, 64, 100, 256] {
        for num in [1, 32, 33, 100, 511, 512, 513, 3000] {
            let mut params = pillars(max_points, 500);
            params.grid = grid(1.0, 1.0, [0.5, 0.5, 2.0]);
            let frames = vec![one_voxel(&mut random, num), uniform(&mut random, num, 4, 1.1)];
            Problem::new(frames, params).check(&device);
        }
    }
    let frame = uniform(&mut random, 3000, 4, 53.0);
    let num_voxels = Problem::new(vec![frame.clone()], pillars(4, 5000)).reference(&frame).0.len();
    for voxel_capacity in [1, 2, 100, num_voxels - 1, num_voxels, num_voxels + 1] {
        Problem::new(vec![frame.clone()], pillars(4, voxel_capacity)).check(&device);
    }
}

#[test]
fn voxels_of_all_points_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(115);
    let all = VoxelizeParams::ALL_POINTS;
    // A voxel of 64 points is ordered by a thread per point, one of 65 by a block.
    for num in [1, 63, 64, 65, 256, 3000] {
        let mut params = pillars(all, 500);
        params.grid = grid(1.0, 1.0, [2.0, 2.0, 2.0]);
        let frames = vec![uniform(&mut random, num, 4, 0.9), uniform(&mut random, num, 4, 1.1)];
        Problem::new(frames, params).check(&device);
        params.grid = grid(1.0, 1.0, [0.25, 0.25, 2.0]);
        let frames = vec![uniform(&mut random, num, 4, 1.1), uniform(&mut random, 0, 4, 1.1)];
        Problem::new(frames, params).check(&device);
    }
    // Voxels beyond the capacity, and a hashed grid.
    let frame = uniform(&mut random, 9000, 4, 53.0);
    for voxel_capacity in [1, 100, 9000] {
        Problem::new(vec![frame.clone()], pillars(all, voxel_capacity)).check(&device);
    }
    let fine = VoxelizeParams {
        grid: grid(5.0, 2.5, [0.01, 0.01, 0.01]),
        max_points_per_voxel: all,
        voxel_capacity: 4000,
    };
    Problem::new(vec![uniform(&mut random, 6000, 5, 0.05)], fine).check(&device);
}

#[test]
fn a_voxel_of_100000_points_keeps_them_in_order() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(116);
    // Every third point is elsewhere, so that the indices of the others span two windows of
    // the bitmap in which a block orders them.
    let mut frame = uniform(&mut random, 150_000, 4, 50.0);
    for (at, values) in frame.values_mut().chunks_exact_mut(4).enumerate() {
        if at % 3 != 0 {
            values[..3].fill(0.1);
        }
    }
    let (voxels, _) =
        Problem::new(vec![frame.clone()], pillars(VoxelizeParams::ALL_POINTS, 30_000))
            .reference(&frame);
    assert!(voxels.num_points_per_voxel().iter().any(|&num| num >= 100_000));
    Problem::new(vec![frame], pillars(VoxelizeParams::ALL_POINTS, 30_000)).check(&device);
}

#[test]
fn large_grids_are_hashed_and_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(112);
    for (voxel_size_m, num) in [([0.075, 0.075, 0.2], 6000), ([0.01, 0.01, 0.01], 2000)] {
        let params = VoxelizeParams {
            grid: grid(5.0, 2.5, voxel_size_m),
            max_points_per_voxel: 10,
            voxel_capacity: 4000,
        };
        let frames = vec![
            uniform(&mut random, num, 5, 5.1),
            uniform(&mut random, num, 5, 0.4),
            uniform(&mut random, 1, 5, 0.4),
        ];
        Problem::new(frames, params).check(&device);
    }
}

#[test]
fn points_outside_at_borders_and_far_away_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(113);
    let mut frame = uniform(&mut random, 5000, 4, 60.0);
    let values = [51.2, -51.2, 51.199_997, 0.0, -0.0, 0.32, 3e38, -3e38, 1e-40];
    for value in frame.values_mut() {
        if random.below(6) == 0 {
            *value = values[random.below(values.len())];
        }
    }
    let outside = uniform(&mut random, 300, 4, 1.0);
    let mut outside = outside;
    outside.values_mut().iter_mut().for_each(|value| *value += 1000.0);
    Problem::new(vec![frame, outside], pillars(20, 6000)).check(&device);
}

#[test]
fn many_points_and_shared_scans_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(114);
    let frames = vec![scan(&mut random, 200_000, 4), uniform(&mut random, 120_000, 4, 60.0)];
    Problem::new(frames, pillars(32, 40_000)).check(&device);
    let dense = vec![uniform(&mut random, 100_000, 4, 0.15)];
    Problem::new(dense, pillars(32, 10)).check(&device);
    for (name, values, num_channels) in shared_scans() {
        let mut points = Points::with_capacity(num_channels, values.len() / num_channels);
        for point in values.chunks_exact(num_channels) {
            points.push(point);
        }
        println!("{name}: {} points", points.len());
        Problem::new(vec![points.clone()], pillars(20, 12_000)).check(&device);
        let voxels = VoxelizeParams {
            grid: grid(54.0, 4.0, [0.075, 0.075, 0.2]),
            max_points_per_voxel: 10,
            voxel_capacity: 60_000,
        };
        Problem::new(vec![points], voxels).check(&device);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    assert!(DeviceVoxels::new(&stream, &pillars(0, 10), 100).is_err());
    assert!(DeviceVoxels::new(&stream, &pillars(257, 10), 100).is_err());
    assert!(DeviceVoxels::new(&stream, &pillars(1, 0), 100).is_err());
    let mut workspace = Workspace::new(&stream, &pillars(20, 10), 100).unwrap();
    let mut voxels = DeviceVoxels::new(&stream, &pillars(20, 10), 100).unwrap();
    let mut other = DeviceVoxels::new(&stream, &pillars(21, 10), 100).unwrap();
    let points = DevicePoints::with_capacity(&stream, 4, 100).unwrap();
    let many = DevicePoints::with_capacity(&stream, 4, 101).unwrap();
    assert!(workspace.enqueue(&points, &mut voxels, &mut counters).is_ok());
    assert!(workspace.enqueue(&points, &mut other, &mut counters).is_err());
    assert!(workspace.enqueue(&many, &mut voxels, &mut counters).is_err());
}
