//! From joined points to the outputs of the network on a GPU: one graph writes the points of
//! voxels, which are copied to the host, where the network runs on as many voxels as there are.

use super::{bind_inputs, check_num_voxels, voxel_point_facts};
use crate::config::LidarConfig;
use crate::detectors::frame_stream::FrameInProgress;
use crate::detectors::lidar::{self, DeviceMapEncoder, LidarHead, voxelize_params};
use det_post_infer::Engine;
use det_post_infer::device::DeviceEngine;
use det_post_ops::cloud::DevicePoints;
use det_post_ops::cloud::voxel_points::cuda::{DeviceVoxelPoints, Workspace as WritePoints};
use det_post_ops::cloud::voxelize::VoxelizeParams;
use det_post_ops::cloud::voxelize::cuda::{DeviceVoxels, Workspace as Voxelize};
use det_post_ops::device::cuda::{DeviceBuffer, Graph, PinnedBuffer, Stream};
use det_post_ops::shared::DeviceCounters;
use det_post_types::{FrameReport, Result, Stage, TensorValues, TensorView};

/// Detects objects in point clouds on a GPU.
pub type CudaDetector = lidar::CudaDetector<DeviceVoxelPointInput>;

impl CudaDetector {
    /// A detector with a loaded network, which runs on the CPU, and a stream for its frames.
    ///
    /// # Errors
    /// As [`super::open`]; `Inference` when the first run of the network fails.
    pub fn new(config: &LidarConfig, stream: &Stream, engine: Box<dyn Engine>) -> Result<Self> {
        let head = LidarHead::of_outputs(config, engine.outputs())?;
        let mut host = HostVoxels::new(config, stream, bind_inputs(config, engine.inputs())?)?;
        let min_voxels = voxel_point_facts(config)?.min_voxels;
        let mut engine = DeviceEngine::of_host_inputs(engine, stream, &host.views(min_voxels)?)?;
        head.stage(&mut engine)?;
        Self::with_head(config, stream, head, engine, |points, _, counters| {
            DeviceVoxelPointInput::new(config, host, points, counters)
        })
    }
}

/// The tensors of the network in page-locked memory.
struct HostVoxels {
    num: PinnedBuffer<u32>,
    values: PinnedBuffer<f32>,
    numbers: PinnedBuffer<i32>,
    coordinates: PinnedBuffer<i32>,
    /// Points of a voxel, channels, and columns of coordinates.
    sizes: [usize; 3],
    /// Shapes of the views, whose first lengths are the number of voxels.
    shapes: ([usize; 3], [usize; 1], [usize; 2]),
    /// Of points, numbers and coordinates among the network's inputs.
    positions: [usize; 3],
}

impl HostVoxels {
    fn new(config: &LidarConfig, stream: &Stream, positions: [usize; 3]) -> Result<Self> {
        let VoxelizeParams { voxel_capacity, max_points_per_voxel, .. } = voxelize_params(config);
        let num_channels = config.facts.num_point_channels();
        let num_columns = voxel_point_facts(config)?.coordinates.num_columns();
        let num_values =
            voxel_capacity.saturating_mul(max_points_per_voxel).saturating_mul(num_channels);
        let num_coordinates = voxel_capacity.saturating_mul(num_columns);
        Ok(Self {
            num: PinnedBuffer::zeros(stream, 1)?,
            values: PinnedBuffer::zeros(stream, num_values)?,
            numbers: PinnedBuffer::zeros(stream, voxel_capacity)?,
            coordinates: PinnedBuffer::zeros(stream, num_coordinates)?,
            sizes: [max_points_per_voxel, num_channels, num_columns],
            shapes: ([0; 3], [0], [0; 2]),
            positions,
        })
    }

    /// The inputs of the network for `num` voxels, after the copies that are queued.
    fn views(&mut self, num: usize) -> Result<[TensorView<'_>; 3]> {
        let [slots, channels, columns] = self.sizes;
        self.shapes = ([num, slots, channels], [num], [num, columns]);
        let (of_points, of_numbers, of_coordinates) = &self.shapes;
        let tensors = [
            TensorView::new(
                of_points,
                TensorValues::F32(self.values.values(num * slots * channels)?),
            )?,
            TensorView::new(of_numbers, TensorValues::I32(self.numbers.values(num)?))?,
            TensorView::new(
                of_coordinates,
                TensorValues::I32(self.coordinates.values(num * columns)?),
            )?,
        ];
        let mut views = [TensorView::default(); 3];
        for (view, position) in tensors.into_iter().zip(self.positions) {
            views[position] = view;
        }
        Ok(views)
    }

    /// Queues the copy of the rows of `num` voxels.
    fn enqueue_download(&mut self, from: &DeviceVoxelPoints, num: usize) -> Result<()> {
        let [slots, channels, columns] = self.sizes;
        self.values.enqueue_download_first(&from.values, num * slots * channels)?;
        self.numbers.enqueue_download_first(&from.numbers, num)?;
        self.coordinates.enqueue_download_first(&from.coordinates, num * columns)
    }
}

/// The points of voxels, and their copies on the host.
pub struct DeviceVoxelPointInput {
    voxels: DeviceVoxels,
    tensors: DeviceVoxelPoints,
    host: HostVoxels,
    min_voxels: usize,
    graph: Graph,
}

impl DeviceVoxelPointInput {
    fn new(
        config: &LidarConfig,
        host: HostVoxels,
        points: &DevicePoints,
        counters: &mut DeviceCounters,
    ) -> Result<Self> {
        let (facts, params) = (voxel_point_facts(config)?, voxelize_params(config));
        let stream = points.stream();
        let mut voxels = DeviceVoxels::new(stream, &params, points.capacity())?;
        let mut voxelize = Voxelize::new(stream, &params, points.capacity())?;
        let mut write = WritePoints::new(stream)?;
        let mut tensors =
            DeviceVoxelPoints::new(stream, &params, points.num_channels(), facts.coordinates)?;
        let graph = Graph::capture(stream, || {
            voxelize.enqueue(points, &mut voxels, counters)?;
            write.enqueue(points, &voxels, &mut tensors)
        })?;
        Ok(Self { voxels, tensors, host, min_voxels: facts.min_voxels, graph })
    }
}

impl DeviceMapEncoder for DeviceVoxelPointInput {
    const STAGES: &'static [Stage] = &[Stage::Voxelize];
    // The host waits for the voxels of a frame, and the network runs there.
    const CAN_PIPELINE: bool = false;

    fn enqueue(&mut self, running: &mut FrameInProgress<'_, '_>) -> Result<()> {
        self.graph.enqueue()?;
        running.end_of(Stage::Voxelize)
    }

    fn enqueue_network(&mut self, engine: &mut DeviceEngine, _: &DevicePoints) -> Result<()> {
        let Self { voxels, tensors, host, min_voxels, .. } = self;
        let num = host.num.download(&voxels.num)?.first().map_or(0, |&num| num as usize);
        let num = num.min(voxels.params().voxel_capacity);
        check_num_voxels(num, *min_voxels)?;
        host.enqueue_download(tensors, num)?;
        engine.run_on(&host.views(num)?)
    }

    fn num_voxels(&self) -> &DeviceBuffer<u32> {
        &self.voxels.num
    }

    fn add_to_report(&mut self, _report: &mut FrameReport) {}
}
