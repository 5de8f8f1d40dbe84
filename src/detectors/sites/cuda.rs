//! From joined points to the outputs on sites on a GPU: one graph.

use super::head;
use crate::config::LidarConfig;
use crate::detectors::frame_stream::FrameInProgress;
use crate::detectors::lidar::{self, DeviceMapEncoder};
use crate::detectors::voxels::DeviceVoxelLayers;
use det_post_infer::device::DeviceEngine;
use det_post_infer::sparse::{CudaEncoder, Plan};
use det_post_ops::cloud::DevicePoints;
use det_post_ops::device::cuda::{DeviceBuffer, Stream};
use det_post_types::{FrameReport, Result, Stage};

/// Detects objects in point clouds on a GPU.
pub type CudaDetector = lidar::CudaDetector<DeviceVoxelSites>;

impl CudaDetector {
    /// A detector with a network that was laid out, whose frames run on `stream`.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &LidarConfig, plan: Plan, stream: &Stream) -> Result<Self> {
        let head = head(config, &plan)?;
        let engine = DeviceEngine::none(stream)?;
        Self::with_head(config, stream, head, engine, |points, _, counters| {
            let ends = (points, counters);
            let layers =
                DeviceVoxelLayers::new(config, plan, ends, |encoder, cells, num, means| {
                    encoder.enqueue_on_sites(cells, num, means)
                })?;
            Ok(DeviceVoxelSites { layers })
        })
    }
}

/// Voxels, their means, and the layers.
pub struct DeviceVoxelSites {
    layers: DeviceVoxelLayers,
}

impl DeviceMapEncoder for DeviceVoxelSites {
    const STAGES: &'static [Stage] = &[Stage::Encode];
    // The graph writes outputs and counts to one place.
    const CAN_PIPELINE: bool = false;

    fn enqueue(&mut self, running: &mut FrameInProgress<'_, '_>) -> Result<()> {
        self.layers.enqueue(running)
    }

    /// There is none.
    fn enqueue_network(&mut self, _: &mut DeviceEngine, _: &DevicePoints) -> Result<()> {
        Ok(())
    }

    fn on_sites(&self) -> Option<&CudaEncoder> {
        Some(self.layers.encoder())
    }

    fn num_voxels(&self) -> &DeviceBuffer<u32> {
        self.layers.num_voxels()
    }

    fn add_to_report(&mut self, report: &mut FrameReport) {
        self.layers.add_to_report(report);
    }
}
