//! Means of the points of voxels: the same bits.

use det_post::device::cuda::{DeviceBuffer, DeviceCounters, DevicePoints, Graph};
use det_post::ops::voxel_mean::{cuda, voxel_mean};
use det_post::ops::voxelize::cuda::{DeviceVoxels, Workspace as DeviceVoxelize};
use det_post::ops::voxelize::{self, VoxelizeParams, Voxels, voxelize};
use det_post::types::{ChannelTransform, ElementType, Points, Tensor};

use super::clouds::{grid, uniform};
use super::random::Random;
use super::tensors::bits;

#[test]
fn voxel_means_agree() {
    let Some(device) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut random = Random::new(414);
    let params = VoxelizeParams {
        grid: grid(5.0, 1.0, [0.5, 0.6, 0.5]),
        max_points_per_voxel: 4,
        voxel_capacity: 700,
    };
    let transforms =
        [ChannelTransform::Identity, ChannelTransform::Identity, ChannelTransform::Tanh];
    let frames: Vec<Points> =
        [0, 1, 40, 3000].map(|num| uniform(&mut random, num, 5, 5.2)).to_vec();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    let mut points = DevicePoints::with_capacity(&stream, 5, 3000).unwrap();
    let mut group = DeviceVoxelize::new(&stream, &params, 3000).unwrap();
    let mut voxels = DeviceVoxels::new(&stream, &params).unwrap();
    let mut features = DeviceBuffer::zeros(&stream, 700 * 5).unwrap();
    let workspace = cuda::Workspace::new(&stream, &transforms).unwrap();
    let graph = Graph::record(&stream, || {
        group.enqueue(&points, &mut voxels, &mut counters)?;
        workspace.enqueue(&points, &voxels, &mut features)
    })
    .unwrap();
    for frame in &frames {
        points.write(frame).unwrap();
        graph.enqueue().unwrap();
        let mut grouped = Voxels::new(&params);
        let mut on_cpu = voxelize::Workspace::new(&params.grid, frame.len());
        voxelize(frame, &params, &mut on_cpu, &mut grouped).unwrap();
        let mut expected = Tensor::zeros(ElementType::F32, &[grouped.len(), 5]).unwrap();
        voxel_mean(frame, &grouped, &transforms, &mut expected).unwrap();
        let found = features.read().unwrap();
        let found: Vec<u32> = found[..grouped.len() * 5].iter().map(|v| v.to_bits()).collect();
        assert!(found == bits(&expected), "{} points", frame.len());
    }
}
