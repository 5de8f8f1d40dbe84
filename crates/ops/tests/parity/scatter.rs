//! Laying pillars out on the map: the same map.

use det_post_ops::cloud::DevicePoints;
use det_post_ops::cloud::scatter::{cuda, scatter};
use det_post_ops::cloud::voxelize::cuda::{DeviceVoxels, Workspace};
use det_post_ops::cloud::voxelize::{self, VoxelizeParams, Voxels, voxelize};
use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, Graph};
use det_post_ops::shared::DeviceCounters;
use det_post_types::{ElementType, MapLayout, Points, Tensor};

use det_post_testing::clouds::{grid, uniform};
use det_post_testing::random::Random;
use det_post_testing::tensors::{bits, tensor, upload};

struct Problem {
    frames: Vec<Points>,
    params: VoxelizeParams,
    features: Tensor,
    to: ElementType,
    layout: MapLayout,
}

impl Problem {
    fn reference(&self, points: &Points) -> Tensor {
        let mut workspace = voxelize::Workspace::new(&self.params.grid, points.len());
        let mut voxels = Voxels::new(&self.params);
        voxelize(points, &self.params, &mut workspace, &mut voxels).unwrap();
        let mut map = Tensor::zeros(self.to, &self.shape()).unwrap();
        let grid = &self.params.grid;
        scatter(&self.features.view(), &voxels, grid, self.layout, &mut map).unwrap();
        map
    }

    fn shape(&self) -> [usize; 4] {
        let [nx, ny, _] = self.params.grid.grid_size().map(|n| n as usize);
        let num_channels = self.features.shape().iter().skip(1).product();
        match self.layout {
            MapLayout::ChannelsLast => [1, ny, nx, num_channels],
            _ => [1, num_channels, ny, nx],
        }
    }

    fn check(&self, device: &CudaDevice) {
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let capacity = self.frames.iter().map(Points::len).max().unwrap().max(1);
        let mut points = DevicePoints::with_capacity(&stream, 3, capacity).unwrap();
        let mut group = Workspace::new(&stream, &self.params, capacity).unwrap();
        let mut voxels = DeviceVoxels::new(&stream, &self.params, capacity).unwrap();
        let mut workspace = cuda::Workspace::new(&stream, &self.params.grid, self.layout).unwrap();
        let features = upload(&stream, &self.features);
        let mut map = DeviceTensor::zeros(&stream, self.to, &self.shape()).unwrap();
        let graph = Graph::capture(&stream, || {
            group.enqueue(&points, &mut voxels, &mut counters)?;
            workspace.enqueue(&features, &voxels, &mut map)
        })
        .unwrap();
        for _ in 0..2 {
            for frame in &self.frames {
                points.write(frame).unwrap();
                graph.enqueue().unwrap();
                let (found, expected) = (bits(&map.read().unwrap()), bits(&self.reference(frame)));
                let first = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert!(
                    found == expected,
                    "{} points, {} {:?} to {} {:?}: first difference {first:?}: {:x?} {:x?}",
                    frame.len(),
                    self.features.element(),
                    self.features.shape(),
                    self.to,
                    self.shape(),
                    first.map(|i| found[i]),
                    first.map(|i| expected[i])
                );
            }
        }
    }
}

#[test]
fn shapes_and_elements_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(120);
    for (voxel_size, num_channels) in
        [(0.5, 1), (0.5, 4), (0.5, 7), (0.5, 8), (0.4, 24), (0.31, 32), (0.05, 64)]
    {
        let params = VoxelizeParams {
            grid: grid(5.0, 1.0, [voxel_size, 1.3 * voxel_size, 2.0]),
            max_points_per_voxel: 2,
            voxel_capacity: 900,
        };
        let frames: Vec<Points> =
            [0, 1, 40, 2000].map(|num| uniform(&mut random, num, 3, 5.2)).to_vec();
        for (from, to) in [
            (ElementType::F32, ElementType::F32),
            (ElementType::F16, ElementType::F16),
            (ElementType::F32, ElementType::F16),
            (ElementType::F16, ElementType::F32),
        ] {
            for shape in
                [vec![900, num_channels], vec![950, 1, num_channels], vec![900, num_channels, 1]]
            {
                let num = shape.iter().product();
                let values: Vec<f32> = (0..num).map(|_| random.range(-7e4, 7e4)).collect();
                let features = tensor(from, &shape, &values);
                for layout in [MapLayout::Planar, MapLayout::ChannelsLast] {
                    if layout == MapLayout::Planar || num_channels % 8 == 0 {
                        let (frames, features) = (frames.clone(), features.clone());
                        Problem { frames, params, features, to, layout }.check(&device);
                    }
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let high = grid(5.0, 1.0, [0.5, 0.5, 1.0]);
    let planar = MapLayout::Planar;
    assert!(cuda::Workspace::new(&stream, &high, planar).is_err());
    let flat = grid(5.0, 1.0, [0.5, 0.5, 2.0]);
    let params = VoxelizeParams { grid: flat, max_points_per_voxel: 2, voxel_capacity: 100 };
    let voxels = DeviceVoxels::new(&stream, &params, 100).unwrap();
    assert!(cuda::Workspace::new(&stream, &flat, MapLayout::Blocks32).is_err());
    let mut workspace = cuda::Workspace::new(&stream, &flat, planar).unwrap();
    let zeros = |shape: &[usize]| DeviceTensor::zeros(&stream, ElementType::F32, shape).unwrap();
    let mut map = zeros(&[1, 8, 20, 20]);
    for shape in [&[99, 8][..], &[100, 9], &[100, 2, 4], &[100, 8, 1, 1], &[100, 0]] {
        assert!(workspace.enqueue(&zeros(shape), &voxels, &mut map).is_err(), "{shape:?}");
    }
    assert!(workspace.enqueue(&zeros(&[100, 8]), &voxels, &mut zeros(&[1, 8, 20, 21])).is_err());
    assert!(workspace.enqueue(&zeros(&[100, 8]), &voxels, &mut map).is_ok());
    let mut workspace = cuda::Workspace::new(&stream, &flat, MapLayout::ChannelsLast).unwrap();
    assert!(workspace.enqueue(&zeros(&[100, 8]), &voxels, &mut map).is_err());
    assert!(
        workspace.enqueue(&zeros(&[100, 12]), &voxels, &mut zeros(&[1, 20, 20, 12])).is_err(),
        "12 is no multiple of 8"
    );
    assert!(workspace.enqueue(&zeros(&[100, 8]), &voxels, &mut zeros(&[1, 20, 20, 8])).is_ok());
}
