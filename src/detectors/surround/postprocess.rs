//! From candidates to detections, on the host.

use crate::config::SurroundConfig;
use crate::error::Result;
use crate::ops::gather::gather_3d;
use crate::ops::nms::{self, suppress_stages_3d};
use crate::ops::select::select;
use crate::types::{Candidates, Count, Detection3d, FrameReport, Kept, Nms3d, Object3d, Stage};

/// Selection, suppression and gathering of the boxes of a frame.
pub(super) struct Postprocess {
    /// The candidates of the frame.
    pub(super) candidates: Candidates<Object3d>,
    pre_nms_top_k: usize,
    nms: Vec<Nms3d>,
    suppression: nms::Workspace,
    keep: Vec<Kept>,
    max_detections: usize,
    detections: Vec<Detection3d>,
}

impl Postprocess {
    pub(super) fn new(config: &SurroundConfig) -> Self {
        Self {
            candidates: Candidates::with_capacity(config.candidate_capacity),
            pre_nms_top_k: config.pre_nms_top_k,
            nms: config.nms.clone(),
            suppression: nms::Workspace::with_capacity(config.pre_nms_top_k),
            keep: Vec::with_capacity(config.pre_nms_top_k),
            max_detections: config.max_detections,
            detections: Vec::with_capacity(config.max_detections),
        }
    }

    /// Applies the limits and the suppression of a configuration.
    pub(super) fn reconfigure(&mut self, config: &SurroundConfig) {
        if config.pre_nms_top_k > self.pre_nms_top_k {
            self.suppression = nms::Workspace::with_capacity(config.pre_nms_top_k);
            self.keep = Vec::with_capacity(config.pre_nms_top_k);
        }
        self.pre_nms_top_k = config.pre_nms_top_k;
        self.nms.clone_from(&config.nms);
        self.max_detections = config.max_detections;
        self.detections.clear();
        self.detections.reserve(config.max_detections);
    }

    /// The detections of the frame, in the total order.
    pub(super) fn run(&mut self, report: &mut FrameReport) -> Result<&[Detection3d]> {
        let Self { candidates, nms, suppression, keep, detections, .. } = self;
        let cut = report.time(Stage::Select, || select(candidates, self.pre_nms_top_k));
        report.time(Stage::Suppress, || {
            suppress_stages_3d(candidates.as_slice(), nms, suppression, keep)
        })?;
        let num_over_limit = report.time(Stage::Gather, || {
            gather_3d(candidates.as_slice(), keep, self.max_detections, detections)
        });
        cut.add_to(report);
        report.add_count(Count::DetectionsOverLimit, num_over_limit);
        Ok(detections)
    }
}
