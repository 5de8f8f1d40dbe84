//! The rows of the pillar encoder's input: the same values, bit for bit.

use det_post_ops::cloud::DevicePoints;
use det_post_ops::cloud::pillar_features::{cuda, num_features, pillar_features};
use det_post_ops::cloud::voxelize::cuda::{DeviceVoxels, Workspace};
use det_post_ops::cloud::voxelize::{self, VoxelizeParams, Voxels, voxelize};
use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, Graph};
use det_post_ops::shared::DeviceCounters;
use det_post_types::{ElementType, Points, Tensor};

use det_post_testing::clouds::{grid, scan, shared_scans, uniform};
use det_post_testing::random::Random;
use det_post_testing::tensors::{bits, tensor};

/// Several frames through one workspace: what one leaves is no other's.
struct Problem {
    frames: Vec<Points>,
    params: VoxelizeParams,
    center_offset_z: bool,
    element: ElementType,
}

impl Problem {
    fn new(frames: Vec<Points>, params: VoxelizeParams) -> Self {
        Self { frames, params, center_offset_z: false, element: ElementType::F32 }
    }

    fn reference(&self, points: &Points) -> Tensor {
        let mut workspace = voxelize::Workspace::new(&self.params.grid, points.len());
        let mut voxels = Voxels::new(&self.params);
        voxelize(points, &self.params, &mut workspace, &mut voxels).unwrap();
        let mut out = Tensor::zeros(self.element, &self.shape()).unwrap();
        let offset_z = self.center_offset_z;
        pillar_features(points, &voxels, &self.params.grid, offset_z, &mut out).unwrap();
        out
    }

    fn shape(&self) -> [usize; 3] {
        let num_features = num_features(self.frames[0].num_channels(), self.center_offset_z);
        // One row more than voxels: rows beyond them are written, too.
        [self.params.voxel_capacity + 1, self.params.max_points_per_voxel, num_features]
    }

    fn check(&self, device: &CudaDevice) {
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let capacity = self.frames.iter().map(Points::len).max().unwrap() + 3;
        let num_channels = self.frames[0].num_channels();
        let mut points = DevicePoints::with_capacity(&stream, num_channels, capacity).unwrap();
        let mut group = Workspace::new(&stream, &self.params, capacity).unwrap();
        let mut voxels = DeviceVoxels::new(&stream, &self.params, capacity).unwrap();
        let mut rows = DeviceTensor::zeros(&stream, self.element, &self.shape()).unwrap();
        // Whatever it held before.
        let num_values = self.shape().iter().product();
        rows.write(&tensor(self.element, &self.shape(), &vec![7.0; num_values]).view()).unwrap();
        let mut workspace = cuda::Workspace::new(&stream, &rows).unwrap();
        let graph = Graph::capture(&stream, || {
            group.enqueue(&points, &mut voxels, &mut counters)?;
            workspace.enqueue((&points, &voxels), self.center_offset_z, &mut rows)
        })
        .unwrap();
        for run in 0..2 {
            for frame in &self.frames {
                points.write(frame).unwrap();
                graph.enqueue().unwrap();
                let (found, expected) = (bits(&rows.read().unwrap()), bits(&self.reference(frame)));
                let first = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert!(
                    found == expected,
                    "run {run}, {} points of {num_channels} channels, {:?}: rows {:?} differ, first \
                     at {first:?}: {:x?} {:x?}",
                    frame.len(),
                    self.params,
                    self.shape(),
                    first.map(|i| found[i]),
                    first.map(|i| expected[i])
                );
            }
        }
    }
}

fn pillars(max_points_per_voxel: usize, voxel_capacity: usize) -> VoxelizeParams {
    let grid = grid(51.2, 5.0, [0.32, 0.32, 10.0]);
    VoxelizeParams { grid, max_points_per_voxel, voxel_capacity }
}

#[test]
fn sizes_elements_and_channels_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(110);
    for num in [0, 1, 2, 31, 33, 255, 256, 257, 512, 513, 4000] {
        for num_channels in [3, 4, 5, 11] {
            let frames = vec![
                scan(&mut random, num, num_channels),
                uniform(&mut random, num, num_channels, 53.0),
            ];
            for center_offset_z in [false, true] {
                for element in [ElementType::F32, ElementType::F16] {
                    let problem = Problem::new(frames.clone(), pillars(20, 3000));
                    Problem { center_offset_z, element, ..problem }.check(&device);
                }
            }
        }
    }
}

#[test]
fn rows_of_any_length_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(111);
    for max_points in [1, 2, 20, 31, 32, 33, 64, 100, 256] {
        for num in [1, 32, 33, 100, 511, 512, 513, 3000] {
            let mut params = pillars(max_points, 500);
            params.grid = grid(1.0, 1.0, [0.5, 0.5, 2.0]);
            let frames =
                vec![uniform(&mut random, num, 4, 0.05), uniform(&mut random, num, 4, 1.1)];
            Problem::new(frames, params).check(&device);
        }
    }
    let frame = uniform(&mut random, 3000, 4, 53.0);
    for voxel_capacity in [1, 2, 100, 5000] {
        Problem::new(vec![frame.clone()], pillars(4, voxel_capacity)).check(&device);
    }
}

/// What a frame leaves of another's rows must be written over: fuller and emptier
/// frames in turn, none at all, one full voxel, more voxels than there is room for.
#[test]
fn rows_hold_nothing_of_the_frames_before() {
    let Some(device) = det_post_testing::gpu() else { return };
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
fn many_points_and_shared_scans_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(114);
    let frames = vec![scan(&mut random, 200_000, 4), uniform(&mut random, 120_000, 4, 60.0)];
    Problem::new(frames, pillars(32, 40_000)).check(&device);
    for (name, values, num_channels) in shared_scans() {
        let mut points = Points::with_capacity(num_channels, values.len() / num_channels);
        for point in values.chunks_exact(num_channels) {
            points.push(point);
        }
        println!("{name}: {} points", points.len());
        Problem::new(vec![points], pillars(20, 12_000)).check(&device);
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let voxels = DeviceVoxels::new(&stream, &pillars(20, 10), 100).unwrap();
    let points = DevicePoints::with_capacity(&stream, 4, 100).unwrap();
    for shape in [[9, 20, 9], [10, 19, 9], [10, 20, 10]] {
        let mut out = DeviceTensor::zeros(&stream, ElementType::F32, &shape).unwrap();
        let mut workspace = cuda::Workspace::new(&stream, &out).unwrap();
        assert!(workspace.enqueue((&points, &voxels), false, &mut out).is_err(), "{shape:?}");
    }
    let [out, mut other] = [[10, 20, 9]; 2]
        .map(|shape| DeviceTensor::zeros(&stream, ElementType::F32, &shape).unwrap());
    let mut workspace = cuda::Workspace::new(&stream, &out).unwrap();
    assert!(workspace.enqueue((&points, &voxels), false, &mut other).is_err(), "another tensor");
}
