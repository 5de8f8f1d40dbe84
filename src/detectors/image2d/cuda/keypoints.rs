//! Keypoints of the detections of a frame, on a GPU.

use crate::config::CameraConfig;
use crate::detectors::image2d::keypoints::mapping;
use det_post_ops::decode::gather::cuda::GatheredRows;
use det_post_ops::decode::keypoints::cuda::Workspace;
use det_post_ops::device::cuda::{DeviceTensor, Stream};
use det_post_types::{
    Box2d, Count, FrameReport, Keypoint, KeypointRows, Keypoints, Letterbox, Result, Stage,
    Transfer,
};

/// Kernels and memory of the keypoints of a frame.
pub(super) struct DeviceKeypoints {
    workspace: Workspace,
}

impl DeviceKeypoints {
    /// Loads the kernels and allocates the memory that the configuration bounds.
    pub(super) fn new(config: &CameraConfig, stream: &Stream, rows: &KeypointRows) -> Result<Self> {
        Ok(Self { workspace: Workspace::new(stream, rows, config.max_detections)? })
    }

    /// Queues the keypoints of the detections that were gathered.
    pub(super) fn enqueue(
        &mut self,
        predictions: &DeviceTensor,
        rows: &GatheredRows<Box2d>,
    ) -> Result<()> {
        self.workspace.enqueue(predictions, rows.sources())
    }

    /// Writes the transform to source pixels to the device and waits.
    pub(super) fn set(&mut self, placed: &Letterbox) -> Result<()> {
        self.workspace.set(&mapping(placed))
    }

    /// Reads the keypoints of a frame of `num_detections` for which the caller has waited.
    pub(super) fn read(
        &self,
        num_detections: usize,
        found: &mut ReadKeypoints,
        report: &mut FrameReport,
    ) {
        let num_invalid = self.workspace.read_complete(num_detections, &mut found.all);
        report.add_count(Count::KeypointsInvalid, num_invalid);
        let num_read = size_of_val(found.all.as_slice());
        report.add_bytes(Stage::Postprocess, Transfer::Download, num_read);
    }
}

/// The keypoints of a frame that were read.
pub(super) struct ReadKeypoints {
    num_per_detection: usize,
    all: Vec<Keypoint>,
}

impl ReadKeypoints {
    /// Allocates the memory that the configuration bounds; `None` for a head without keypoints.
    pub(super) fn new(config: &CameraConfig) -> Option<Self> {
        let CameraConfig { facts, max_detections, .. } = config;
        let num_per_detection = facts.layout.keypoints(facts.class_names.len())?.num_keypoints;
        let num = max_detections.saturating_mul(num_per_detection);
        Some(Self { num_per_detection, all: Vec::with_capacity(num) })
    }

    /// By detection.
    pub(super) fn keypoints(&self) -> Keypoints<'_> {
        Keypoints { num_per_detection: self.num_per_detection, all: &self.all }
    }
}
