//! From the points of voxels to the outputs of the network on the CPU.

use super::{bind_inputs, check_num_voxels, voxel_point_facts};
use crate::config::LidarConfig;
use crate::detectors::lidar::{self, LidarHead, NetworkInput, voxelize_params};
use det_post_infer::Engine;
use det_post_ops::cloud::voxel_points::{VoxelPoints, voxel_points};
use det_post_ops::cloud::voxelize::Voxels;
use det_post_types::{FrameReport, Points, Result, Stage, TensorView};

/// Detects objects in point clouds on the CPU.
pub type CpuDetector = lidar::CpuDetector<VoxelPointInput>;

impl CpuDetector {
    /// A detector with a loaded network.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn new(config: &LidarConfig, engine: Box<dyn Engine>) -> Result<Self> {
        let input = VoxelPointInput::new(config, engine.as_ref())?;
        let head = LidarHead::of_outputs(config, engine.outputs())?;
        Self::with_input(config, input, head, engine)
    }
}

/// The points of voxels, for a network that encodes them itself.
pub struct VoxelPointInput {
    tensors: VoxelPoints,
    /// Of points, numbers and coordinates among the network's inputs.
    positions: [usize; 3],
    min_voxels: usize,
}

impl VoxelPointInput {
    fn new(config: &LidarConfig, engine: &dyn Engine) -> Result<Self> {
        let facts = voxel_point_facts(config)?;
        let num_channels = config.facts.num_point_channels();
        let params = voxelize_params(config);
        Ok(Self {
            tensors: VoxelPoints::new(&params, num_channels, facts.coordinates)?,
            positions: bind_inputs(config, engine.inputs())?,
            min_voxels: facts.min_voxels,
        })
    }
}

impl NetworkInput for VoxelPointInput {
    const STAGES: &'static [Stage] = &[];

    fn write(&mut self, points: &Points, voxels: &Voxels, report: &mut FrameReport) -> Result<()> {
        check_num_voxels(voxels.len(), self.min_voxels)?;
        report.time(Stage::Voxelize, || voxel_points(points, voxels, &mut self.tensors))
    }

    fn run(&self, engine: &mut dyn Engine) -> Result<()> {
        let mut inputs = [TensorView::default(); 3];
        for (view, position) in self.tensors.views()?.into_iter().zip(self.positions) {
            inputs[position] = view;
        }
        engine.run(&inputs)
    }
}
