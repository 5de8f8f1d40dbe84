//! From pillars to the map on the CPU.

use super::{PillarEncoder, map_dims, pillar_facts};
use crate::config::LidarConfig;
use crate::detectors::lidar::{self, MapEncoder, MapInput};
use det_post_infer::{Engine, ExpectedDim};
use det_post_ops::cloud::pillar_features::pillar_features;
use det_post_ops::cloud::scatter::scatter;
use det_post_ops::cloud::voxelize::Voxels;
use det_post_types::{FrameReport, Grid, MapLayout, Points, Result, Stage, Tensor};

/// Detects objects in point clouds on the CPU.
pub type CpuDetector = lidar::CpuDetector<MapInput<PillarMap>>;

impl CpuDetector {
    /// A detector with loaded networks.
    ///
    /// # Errors
    /// `Model` when a network does not fit the head.
    pub fn new(
        config: &LidarConfig,
        encoder: Box<dyn Engine>,
        engine: Box<dyn Engine>,
    ) -> Result<Self> {
        Self::with_encoder(config, PillarMap::new(config, encoder)?, engine)
    }
}

/// Pillar features, the encoder, and the scattering of its output.
pub struct PillarMap {
    engine: Box<dyn Engine>,
    encoder: PillarEncoder,
    grid: Grid,
    center_offset_z: bool,
    map_dims: [ExpectedDim; 4],
    features: Tensor,
}

impl PillarMap {
    fn new(config: &LidarConfig, engine: Box<dyn Engine>) -> Result<Self> {
        let encoder = PillarEncoder::new(config, engine.inputs(), engine.outputs())?;
        Ok(Self {
            features: encoder.input()?,
            engine,
            encoder,
            grid: config.facts.grid,
            center_offset_z: pillar_facts(config)?.center_offset_z,
            map_dims: map_dims(config),
        })
    }
}

impl MapEncoder for PillarMap {
    const STAGES: &'static [Stage] = &[Stage::PillarFeatures, Stage::Encode, Stage::Scatter];

    fn map_dims(&self) -> [ExpectedDim; 4] {
        self.map_dims
    }

    fn encode(
        &mut self,
        points: &Points,
        voxels: &Voxels,
        map: &mut Tensor,
        report: &mut FrameReport,
    ) -> Result<()> {
        let Self { engine, encoder, grid, center_offset_z, features, .. } = self;
        if voxels.is_empty() {
            return Ok(());
        }
        report.time(Stage::PillarFeatures, || {
            pillar_features(points, voxels, grid, *center_offset_z, features)
        })?;
        report.time(Stage::Encode, || encoder.run(engine.as_mut(), features, voxels.len()))?;
        report.time(Stage::Scatter, || {
            scatter(&encoder.output(engine.as_ref())?, voxels, grid, MapLayout::Planar, map)
        })
    }
}
