//! From joined points to the map on a GPU: one graph.

use super::{add_levels, map_dims, precision, transforms};
use crate::config::LidarConfig;
use crate::detectors::frame_stream::FrameInProgress;
use crate::detectors::lidar::{
    self, DeviceMapEncoder, EncoderIo, LidarHead, load_network, voxelize_params,
};
use det_post_infer::device::DeviceEngine;
use det_post_infer::sparse::{CudaEncoder, Plan};
use det_post_ops::cloud::DevicePoints;
use det_post_ops::cloud::voxelize::cuda::{DeviceVoxels, Workspace as Voxelize};
use det_post_ops::device::cuda::{DeviceBuffer, Graph, Stream};
use det_post_ops::shared::DeviceCounters;
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::rulebook::cuda::Cells;
use det_post_ops::sparse::voxel_mean::cuda::Workspace as VoxelMean;
use det_post_types::{FrameReport, Result, Stage, Transfer};

/// Detects objects in point clouds on a GPU.
pub type CudaDetector = lidar::CudaDetector<DeviceVoxelMap>;

impl CudaDetector {
    /// Loads the network for `stream`, on which the frames run.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &LidarConfig, plan: Plan, stream: &Stream) -> Result<Self> {
        let mut engine =
            load_network(&config.model_path, &config.engine, stream, &map_dims(&plan))?;
        LidarHead::of_outputs(config, engine.outputs())?.stage(&mut engine)?;
        Self::new(config, plan, stream, engine)
    }

    /// A detector with an encoder and a loaded network, whose stream is `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn new(
        config: &LidarConfig,
        plan: Plan,
        stream: &Stream,
        engine: DeviceEngine,
    ) -> Result<Self> {
        Self::with_encoder(config, stream, &map_dims(&plan), engine, |ends| {
            DeviceVoxelMap::new(config, plan, ends)
        })
    }
}

/// The encoder of the map.
pub struct DeviceVoxelMap {
    layers: DeviceVoxelLayers,
}

impl DeviceVoxelMap {
    pub(in crate::detectors) fn new(
        config: &LidarConfig,
        plan: Plan,
        ends: EncoderIo<'_>,
    ) -> Result<Self> {
        let EncoderIo { points, map, counters, .. } = ends;
        let ends = (points, counters);
        let layers = DeviceVoxelLayers::new(config, plan, ends, |encoder, cells, num, means| {
            encoder.enqueue(cells, num, means, map)
        })?;
        Ok(Self { layers })
    }
}

impl DeviceMapEncoder for DeviceVoxelMap {
    const STAGES: &'static [Stage] = &[Stage::Encode];
    // The graph writes the counts of its levels to one place on the host.
    const CAN_PIPELINE: bool = false;

    fn enqueue(&mut self, running: &mut FrameInProgress<'_, '_>) -> Result<()> {
        self.layers.enqueue(running)
    }

    fn num_voxels(&self) -> &DeviceBuffer<u32> {
        self.layers.num_voxels()
    }

    fn add_to_report(&mut self, report: &mut FrameReport) {
        self.layers.add_to_report(report);
    }
}

/// Voxels, their means, and the layers that take them, recorded.
pub(in crate::detectors) struct DeviceVoxelLayers {
    voxels: DeviceVoxels,
    encoder: CudaEncoder,
    graph: Graph,
}

impl DeviceVoxelLayers {
    /// Records the layers, which `enqueue` queues from cells of voxels, their number and their
    /// means.
    ///
    /// # Errors
    /// As of `enqueue`; `Device` when there is not enough memory.
    pub(in crate::detectors) fn new(
        config: &LidarConfig,
        plan: Plan,
        (points, counters): (&DevicePoints, &mut DeviceCounters),
        enqueue: impl FnOnce(
            &mut CudaEncoder,
            Cells<'_>,
            &DeviceBuffer<u32>,
            &DeviceBuffer<f32>,
        ) -> Result<()>,
    ) -> Result<Self> {
        let params = voxelize_params(config);
        let stream = points.stream();
        let mut voxels = DeviceVoxels::new(stream, &params, points.capacity())?;
        let mut voxelize = Voxelize::new(stream, &params, points.capacity())?;
        let voxel_mean = VoxelMean::new(stream, &transforms(config)?)?;
        let num_values = params.voxel_capacity.saturating_mul(points.num_channels());
        let mut means = DeviceBuffer::zeros(stream, num_values)?;
        let mut encoder = CudaEncoder::new(stream, plan, precision(config, Precision::F16))?;
        let graph = Graph::capture(stream, || {
            voxelize.enqueue(points, &mut voxels, counters)?;
            voxel_mean.enqueue(points, &voxels, &mut means)?;
            // A cell has the same index on the encoder's grid, whose further cells along z,
            // if it has any, come last.
            enqueue(&mut encoder, Cells::Indices(&voxels.cells), &voxels.num, &means)?;
            encoder.enqueue_counts()
        })?;
        Ok(Self { voxels, encoder, graph })
    }

    /// The layers.
    pub(in crate::detectors) fn encoder(&self) -> &CudaEncoder {
        &self.encoder
    }

    /// Queues the layers of a frame, and marks the end of the stage.
    ///
    /// # Errors
    /// `Device` when the launch fails.
    pub(in crate::detectors) fn enqueue(
        &mut self,
        running: &mut FrameInProgress<'_, '_>,
    ) -> Result<()> {
        self.graph.enqueue()?;
        running.end_of(Stage::Encode)
    }

    /// The number of voxels, one value.
    pub(in crate::detectors) fn num_voxels(&self) -> &DeviceBuffer<u32> {
        &self.voxels.num
    }

    /// Adds the sites of all levels, after the wait for the frame.
    pub(in crate::detectors) fn add_to_report(&mut self, report: &mut FrameReport) {
        add_levels(self.encoder.published_counts(), report);
        let num_bytes = self.encoder.num_count_bytes();
        report.add_bytes(Stage::Encode, Transfer::Download, num_bytes);
    }
}
