//! From pillars to the map on a GPU: graphs before and after the encoder.

use super::{PillarEncoder, map_dims, pillar_facts};
use crate::config::LidarConfig;
use crate::detectors::frame_stream::{FrameInProgress, add_copies};
use crate::detectors::lidar::{self, DeviceMapEncoder, EncoderIo, load_network, voxelize_params};
use det_post_infer::dense::options_of_networks;
use det_post_infer::device::DeviceEngine;
use det_post_ops::cloud::pillar_features::cuda::Workspace as Features;
use det_post_ops::cloud::scatter::cuda::Workspace as Scatter;
use det_post_ops::cloud::voxelize::cuda::{DeviceVoxels, Workspace as Voxelize};
use det_post_ops::device::cuda::{DeviceBuffer, Graph, Stream};
use det_post_types::{FrameReport, Result, Stage};

/// Detects objects in point clouds on a GPU.
pub type CudaDetector = lidar::CudaDetector<DevicePillarMap>;

impl CudaDetector {
    /// Loads both networks for `stream`, on which the frames run.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &LidarConfig, stream: &Stream) -> Result<Self> {
        let paths = [&*config.encoder_path, &*config.model_path];
        let [of_encoder, mut of_engine] = options_of_networks(&config.engine, paths)?;
        of_engine.gpu.channels_last_inputs = true;
        let encoder = DeviceEngine::load(paths[0], &of_encoder, stream, |input| {
            PillarEncoder::input_shape(config, input).map(Vec::from)
        })?;
        let engine = load_network(paths[1], &of_engine, stream, &map_dims(config))?;
        Self::new(config, stream, encoder, engine)
    }

    /// A detector with loaded networks, whose stream is `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn new(
        config: &LidarConfig,
        stream: &Stream,
        encoder: DeviceEngine,
        engine: DeviceEngine,
    ) -> Result<Self> {
        Self::with_encoder(config, stream, &map_dims(config), engine, |ends| {
            DevicePillarMap::new(config, encoder, ends)
        })
    }
}

/// Pillars and their features, the encoder, and the scattering of its output.
pub struct DevicePillarMap {
    voxels: DeviceVoxels,
    group: Graph,
    features: Graph,
    encoder: DeviceEngine,
    scatter: Graph,
}

impl DevicePillarMap {
    fn new(config: &LidarConfig, mut encoder: DeviceEngine, ends: EncoderIo<'_>) -> Result<Self> {
        let EncoderIo { points, map, layout, counters } = ends;
        let output =
            PillarEncoder::new(config, encoder.inputs(), encoder.outputs())?.output_index();
        let params = voxelize_params(config);
        let stream = points.stream();
        let mut voxels = DeviceVoxels::new(stream, &params, points.capacity())?;
        let mut voxelize = Voxelize::new(stream, &params, points.capacity())?;
        let mut scatter = Scatter::new(stream, &params.grid, layout)?;
        let group = Graph::capture(stream, || voxelize.enqueue(points, &mut voxels, counters))?;
        let (rows, with_z) = (encoder.input(0)?, pillar_facts(config)?.center_offset_z);
        let mut features = Features::new(stream, rows)?;
        let features =
            Graph::capture(stream, || features.enqueue((points, &voxels), with_z, rows))?;
        let encoded = encoder.output(output)?;
        let scatter = Graph::capture(stream, || scatter.enqueue(encoded, &voxels, map))?;
        Ok(Self { voxels, group, features, encoder, scatter })
    }
}

impl DeviceMapEncoder for DevicePillarMap {
    const STAGES: &'static [Stage] =
        &[Stage::Voxelize, Stage::PillarFeatures, Stage::Encode, Stage::Scatter];
    const CAN_PIPELINE: bool = true;

    fn enqueue(&mut self, running: &mut FrameInProgress<'_, '_>) -> Result<()> {
        self.group.enqueue()?;
        running.end_of(Stage::Voxelize)?;
        self.features.enqueue()?;
        running.end_of(Stage::PillarFeatures)?;
        self.encoder.enqueue()?;
        running.end_of(Stage::Encode)?;
        self.scatter.enqueue()?;
        running.end_of(Stage::Scatter)
    }

    fn num_voxels(&self) -> &DeviceBuffer<u32> {
        &self.voxels.num
    }

    fn add_to_report(&mut self, report: &mut FrameReport) {
        add_copies(report, Stage::Encode, &self.encoder);
    }
}
