//! From candidates to detections, on the host.

use det_post_ops::decode::gather::gather_3d;
use det_post_ops::decode::select::select;
use det_post_ops::nms::{self, suppress_stages_3d};
use det_post_types::{
    Candidates, Count, Detection3d, FrameReport, Kept, Nms3d, Object3d, Result, Stage,
};

/// Selection, suppression and gathering of the boxes of a frame.
pub(super) struct Postprocess3d {
    /// The candidates of the frame.
    pub(super) candidates: Candidates<Object3d>,
    pre_nms_top_k: usize,
    nms: Vec<Nms3d>,
    suppression: nms::Workspace,
    keep: Vec<Kept>,
    max_detections: usize,
    detections: Vec<Detection3d>,
}

impl Postprocess3d {
    /// Suppressions in a row, and the limits before and after them.
    pub(super) fn new(
        candidate_capacity: usize,
        pre_nms_top_k: usize,
        nms: &[Nms3d],
        max_detections: usize,
    ) -> Self {
        let mut postprocess = Self {
            candidates: Candidates::with_capacity(candidate_capacity),
            pre_nms_top_k: 0,
            nms: Vec::new(),
            suppression: nms::Workspace::with_capacity(0),
            keep: Vec::new(),
            max_detections: 0,
            detections: Vec::new(),
        };
        postprocess.set(pre_nms_top_k, nms, max_detections);
        postprocess
    }

    /// Sets the suppressions and the limits before and after them.
    pub(super) fn set(&mut self, pre_nms_top_k: usize, nms: &[Nms3d], max_detections: usize) {
        if pre_nms_top_k > self.pre_nms_top_k {
            self.suppression = nms::Workspace::with_capacity(pre_nms_top_k);
            self.keep = Vec::with_capacity(pre_nms_top_k);
        }
        self.pre_nms_top_k = pre_nms_top_k;
        nms.clone_into(&mut self.nms);
        self.max_detections = max_detections;
        self.detections.clear();
        self.detections.reserve(max_detections);
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
