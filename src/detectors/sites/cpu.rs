//! From voxels to the outputs on sites on the CPU.

use super::head;
use crate::config::LidarConfig;
use crate::detectors::lidar::{self, LidarHead, NetworkInput};
use crate::detectors::voxels::VoxelLayers;
use det_post_infer::sparse::Plan;
use det_post_infer::{Engine, NoNetwork};
use det_post_ops::cloud::voxelize::Voxels;
use det_post_types::{Candidates, FrameReport, Object3d, Points, Result, Stage};

/// Detects objects in point clouds on the CPU.
pub type CpuDetector = lidar::CpuDetector<VoxelSites>;

impl CpuDetector {
    /// A detector with a network that was laid out.
    ///
    /// # Errors
    /// `Model` when the network does not fit the head; `Argument` when a level's grid is too
    /// large.
    pub fn new(config: &LidarConfig, plan: Plan) -> Result<Self> {
        let head = head(config, &plan)?;
        let layers = VoxelLayers::new(config, plan)?;
        Self::with_input(config, VoxelSites { layers }, head, Box::new(NoNetwork))
    }
}

/// The means of voxels, and the layers.
pub struct VoxelSites {
    layers: VoxelLayers,
}

impl NetworkInput for VoxelSites {
    const STAGES: &'static [Stage] = &[Stage::VoxelMean, Stage::Encode];

    fn write(&mut self, points: &Points, voxels: &Voxels, report: &mut FrameReport) -> Result<()> {
        self.layers.run(points, voxels, report, |encoder, coordinates, features| {
            encoder.run_on_sites(coordinates, features)
        })
    }

    fn run(&self, engine: &mut dyn Engine) -> Result<()> {
        engine.run(&[])
    }

    fn decode(
        &self,
        _engine: &dyn Engine,
        head: &LidarHead,
        candidates: &mut Candidates<Object3d>,
    ) -> Result<()> {
        head.decode_sites(self.layers.encoder(), candidates)
    }
}
