//! From voxels to the map on the CPU.

use std::num::NonZero;
use std::thread;

use super::{add_levels, map_dims, precision, transforms};
use crate::config::LidarConfig;
use crate::detectors::lidar::{self, MapEncoder, MapInput};
use det_post_infer::sparse::{CpuEncoder, Plan};
use det_post_infer::{Engine, ExpectedDim};
use det_post_ops::cloud::voxelize::Voxels;
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::voxel_mean::voxel_mean;
use det_post_types::{
    ChannelTransform, ElementType, Error, ErrorKind, FrameReport, Points, Result, Stage, Tensor,
};

/// Detects objects in point clouds on the CPU.
pub type CpuDetector = lidar::CpuDetector<MapInput<VoxelMap>>;

impl CpuDetector {
    /// A detector with an encoder and a loaded network.
    ///
    /// # Errors
    /// `Model` when the network does not fit the encoder or the head; `Argument` when a level's
    /// grid is too large.
    pub fn new(config: &LidarConfig, plan: Plan, engine: Box<dyn Engine>) -> Result<Self> {
        Self::with_encoder(config, VoxelMap::new(config, plan)?, engine)
    }
}

/// The encoder of the map.
pub struct VoxelMap {
    layers: VoxelLayers,
}

impl VoxelMap {
    pub(in crate::detectors) fn new(config: &LidarConfig, plan: Plan) -> Result<Self> {
        Ok(Self { layers: VoxelLayers::new(config, plan)? })
    }
}

impl MapEncoder for VoxelMap {
    const STAGES: &'static [Stage] = &[Stage::VoxelMean, Stage::Encode];

    fn map_dims(&self) -> [ExpectedDim; 4] {
        map_dims(self.layers.encoder().plan())
    }

    fn encode(
        &mut self,
        points: &Points,
        voxels: &Voxels,
        map: &mut Tensor,
        report: &mut FrameReport,
    ) -> Result<()> {
        self.layers.run(points, voxels, report, |encoder, coordinates, features| {
            encoder.run(coordinates, features, map)
        })
    }
}

/// The means of voxels, and the layers that take them.
pub(in crate::detectors) struct VoxelLayers {
    transforms: Vec<ChannelTransform>,
    means: Tensor,
    coordinates: Vec<[i32; 4]>,
    encoder: CpuEncoder,
}

impl VoxelLayers {
    /// # Errors
    /// `Argument` when a level's grid is too large.
    pub(in crate::detectors) fn new(config: &LidarConfig, plan: Plan) -> Result<Self> {
        let num_threads = config.engine.threads;
        let num_threads =
            num_threads.or_else(|| thread::available_parallelism().ok().map(NonZero::get));
        let shape = [config.voxel_capacity, plan.network().input_channels()];
        Ok(Self {
            transforms: transforms(config)?,
            means: Tensor::zeros(ElementType::F32, &shape)?,
            coordinates: Vec::with_capacity(config.voxel_capacity),
            encoder: CpuEncoder::new(
                plan,
                precision(config, Precision::F32),
                num_threads.unwrap_or(1),
            )?,
        })
    }

    /// The layers.
    pub(in crate::detectors) fn encoder(&self) -> &CpuEncoder {
        &self.encoder
    }

    /// Runs the layers by `run`, which takes the cells (0, z, y, x) of voxels and their means.
    /// Adds durations and the sites of all levels to `report`.
    ///
    /// # Errors
    /// As `run`.
    pub(in crate::detectors) fn run(
        &mut self,
        points: &Points,
        voxels: &Voxels,
        report: &mut FrameReport,
        run: impl FnOnce(&mut CpuEncoder, &[[i32; 4]], &[f32]) -> Result<()>,
    ) -> Result<()> {
        let Self { transforms, means, coordinates, encoder } = self;
        report.time(Stage::VoxelMean, || voxel_mean(points, voxels, transforms, means))?;
        report.time(Stage::Encode, || {
            let cells = voxels.coordinates().iter();
            let cells = cells.map(|&[x, y, z]| [0, z as i32, y as i32, x as i32]);
            coordinates.clear();
            coordinates.extend(cells);
            let num_values = voxels.len() * points.num_channels();
            let Tensor::F32 { values, .. } = means else {
                return Err(Error::new(ErrorKind::Inference, "encoder", "features are not f32"));
            };
            run(encoder, coordinates, &values[..num_values])
        })?;
        add_levels(encoder.counts(), report);
        Ok(())
    }
}
