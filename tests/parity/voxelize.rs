//! Grouping into voxels, and what follows from it: the same voxels in the same
//! order with the same points, the same rows, the same map.

use det_post::device::cuda::{CudaDevice, DeviceCounters, DevicePoints, DeviceTensor, Graph};
use det_post::ops::pillar_features::cuda as features_cuda;
use det_post::ops::pillar_features::{num_features, pillar_features};
use det_post::ops::voxelize::cuda::{DeviceVoxels, Workspace};
use det_post::ops::voxelize::{self, VoxelizeCounts, VoxelizeParams, Voxels, voxelize};
use det_post::types::{Count, ElementType, FrameReport, Points, Tensor};

use super::clouds::{grid, scan, shared_scans, uniform};
use super::random::Random;
use super::tensors::{bits, tensor};

/// Several frames through one workspace: each must find it empty.
pub struct Problem {
    pub frames: Vec<Points>,
    pub params: VoxelizeParams,
    pub center_offset_z: bool,
    pub element: ElementType,
}

impl Problem {
    fn new(frames: Vec<Points>, params: VoxelizeParams) -> Self {
        Self { frames, params, center_offset_z: false, element: ElementType::F32 }
    }

    pub fn reference(&self, points: &Points) -> (Voxels, VoxelizeCounts) {
        let mut workspace = voxelize::Workspace::new(&self.params.grid, points.len());
        let mut voxels = Voxels::new(&self.params);
        let counts = voxelize(points, &self.params, &mut workspace, &mut voxels).unwrap();
        (voxels, counts)
    }

    fn features(&self, points: &Points, voxels: &Voxels) -> Tensor {
        let mut out = Tensor::zeros(self.element, &self.shape()).unwrap();
        pillar_features(points, voxels, &self.params.grid, self.center_offset_z, &mut out).unwrap();
        out
    }

    fn shape(&self) -> [usize; 3] {
        let num_features = num_features(self.frames[0].num_channels(), self.center_offset_z);
        // One row more than voxels: rows beyond them are written, too.
        [self.params.voxel_capacity + 1, self.params.max_points_per_voxel, num_features]
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
        let mut voxels = DeviceVoxels::new(&stream, &self.params).unwrap();
        let mut rows = DeviceTensor::zeros(&stream, self.element, &self.shape()).unwrap();
        // Whatever it held before.
        let num_values = self.shape().iter().product();
        rows.write(&tensor(self.element, &self.shape(), &vec![7.0; num_values]).view()).unwrap();
        let mut features = features_cuda::Workspace::new(&stream, &rows).unwrap();
        let graph = Graph::record(&stream, || {
            workspace.enqueue(&points, &mut voxels, &mut counters)?;
            features.enqueue((&points, &voxels), self.center_offset_z, &mut rows)
        })
        .unwrap();
        for run in 0..2 {
            for frame in &self.frames {
                points.write(frame).unwrap();
                graph.enqueue().unwrap();
                let context = format!("run {run}: {}", self.describe(frame));
                let (expected, counts) = self.reference(frame);
                assert_eq!(counters.take().unwrap(), dropped(&counts), "{context}");
                check_voxels(&voxels, &expected, &context);
                let (found, expected) =
                    (bits(&rows.read().unwrap()), bits(&self.features(frame, &expected)));
                let first = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert!(
                    found == expected,
                    "{context}: features {:?} differ, first at {first:?}: {:x?} {:x?}",
                    self.shape(),
                    first.map(|i| found[i]),
                    first.map(|i| expected[i])
                );
            }
        }
    }
}

/// What a frame's counters hold after the grouping.
fn dropped(counts: &VoxelizeCounts) -> FrameReport {
    super::counted([
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
    for (voxel, places) in
        indices.chunks_exact(found.params().max_points_per_voxel).take(num).enumerate()
    {
        let expected = expected.points_of(voxel);
        assert_eq!(&places[..expected.len()], expected, "{context}: points of voxel {voxel}");
    }
}

fn pillars(max_points_per_voxel: usize, voxel_capacity: usize) -> VoxelizeParams {
    let grid = grid(51.2, 5.0, [0.32, 0.32, 10.0]);
    VoxelizeParams { grid, max_points_per_voxel, voxel_capacity }
}

#[test]
fn sizes_elements_and_channels_agree() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(110);
    for num in [0, 1, 2, 31, 33, 255, 256, 257, 512, 513, 4000] {
        for num_channels in [3, 4, 5, 11] {
            let frames = vec![
                scan(&mut random, num, num_channels),
                uniform(&mut random, num, num_channels, 53.0),
            ];
            for center_offset_z in [false, true] {
                for element in [ElementType::F32, ElementType::F16] {
                    let frames = frames.clone();
                    let problem = Problem::new(frames, pillars(20, 3000));
                    Problem { center_offset_z, element, ..problem }.check(&device);
                }
            }
        }
    }
}

#[test]
fn both_limits_and_everything_in_one_voxel_agree() {
    let Some(device) = super::gpu() else { return };
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

/// What a frame leaves of another's rows must be written over: fuller and emptier
/// frames in turn, none at all, one full voxel, more voxels than there is room for.
#[test]
fn rows_hold_nothing_of_the_frames_before() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(115);
    for num_channels in [3, 4, 5] {
        let mut frame = |num, half_side| uniform(&mut random, num, num_channels, half_side);
        let frames = vec![
            frame(5000, 53.0),
            frame(200, 53.0),
            frame(3000, 0.6),
            frame(0, 1.0),
            frame(700, 0.05),
            frame(4999, 2.0),
            frame(1, 20.0),
            frame(5000, 53.0),
        ];
        for (max_points, voxel_capacity) in [(20, 6000), (20, 300), (33, 1000), (256, 40)] {
            for element in [ElementType::F32, ElementType::F16] {
                let problem = Problem::new(frames.clone(), pillars(max_points, voxel_capacity));
                Problem { element, ..problem }.check(&device);
            }
        }
    }
}

#[test]
fn large_grids_are_hashed_and_agree() {
    let Some(device) = super::gpu() else { return };
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
    let Some(device) = super::gpu() else { return };
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
    let Some(device) = super::gpu() else { return };
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
    let Some(device) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    assert!(DeviceVoxels::new(&stream, &pillars(0, 10)).is_err());
    assert!(DeviceVoxels::new(&stream, &pillars(257, 10)).is_err());
    assert!(DeviceVoxels::new(&stream, &pillars(1, 0)).is_err());
    let mut workspace = Workspace::new(&stream, &pillars(20, 10), 100).unwrap();
    let mut voxels = DeviceVoxels::new(&stream, &pillars(20, 10)).unwrap();
    let mut other = DeviceVoxels::new(&stream, &pillars(21, 10)).unwrap();
    let points = DevicePoints::with_capacity(&stream, 4, 100).unwrap();
    let many = DevicePoints::with_capacity(&stream, 4, 101).unwrap();
    assert!(workspace.enqueue(&points, &mut voxels, &mut counters).is_ok());
    assert!(workspace.enqueue(&points, &mut other, &mut counters).is_err());
    assert!(workspace.enqueue(&many, &mut voxels, &mut counters).is_err());
    for shape in [[9, 20, 9], [10, 19, 9], [10, 20, 10]] {
        let mut out = DeviceTensor::zeros(&stream, ElementType::F32, &shape).unwrap();
        let mut features = features_cuda::Workspace::new(&stream, &out).unwrap();
        assert!(features.enqueue((&points, &voxels), false, &mut out).is_err(), "{shape:?}");
    }
    let [out, mut other] = [[10, 20, 9]; 2]
        .map(|shape| DeviceTensor::zeros(&stream, ElementType::F32, &shape).unwrap());
    let mut features = features_cuda::Workspace::new(&stream, &out).unwrap();
    assert!(features.enqueue((&points, &voxels), false, &mut other).is_err(), "another tensor");
}
