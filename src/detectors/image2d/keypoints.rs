//! Keypoints of the detections of a frame, on the CPU.

use crate::config::CameraConfig;
use det_post_infer::Outputs;
use det_post_ops::decode::keypoints::{KeypointMapping, keypoints};
use det_post_types::{Count, FrameReport, Keypoint, KeypointRows, Keypoints, Letterbox, Result};

use super::head::YoloHead;

/// Where a head has keypoints, and memory for the keypoints of a frame.
pub(super) struct ImageKeypoints {
    rows: KeypointRows,
    /// By detection, its row of the predictions.
    pub(super) sources: Vec<u32>,
    found: Vec<Keypoint>,
}

impl ImageKeypoints {
    /// Allocates the memory that the configuration bounds; `None` for a head without keypoints.
    pub(super) fn new(config: &CameraConfig) -> Option<Self> {
        let CameraConfig { facts, max_detections, .. } = config;
        let rows = facts.layout.keypoints(facts.class_names.len())?;
        let num = max_detections.saturating_mul(rows.num_keypoints);
        Some(Self {
            rows,
            sources: Vec::with_capacity(*max_detections),
            found: Vec::with_capacity(num),
        })
    }

    /// Computes the keypoints of the detections whose rows are in `sources`.
    ///
    /// # Errors
    /// `Inference` or `Argument` when the output has another shape than declared.
    pub(super) fn run(
        &mut self,
        outputs: &Outputs<'_>,
        head: &YoloHead,
        placed: &Letterbox,
        report: &mut FrameReport,
    ) -> Result<()> {
        let Self { rows, sources, found } = self;
        let output = outputs(head.keypoint_output()?)?;
        let num_invalid = keypoints(&output, rows, sources, &mapping(placed), found)?;
        report.add_count(Count::KeypointsInvalid, num_invalid);
        Ok(())
    }

    /// The keypoints that were computed last.
    pub(super) fn keypoints(&self) -> Keypoints<'_> {
        Keypoints { num_per_detection: self.rows.num_keypoints, all: &self.found }
    }
}

/// From the network's input to the source image.
pub(super) fn mapping(placed: &Letterbox) -> KeypointMapping {
    KeypointMapping { source_from_network: placed.source_from_network(), source: placed.source }
}
