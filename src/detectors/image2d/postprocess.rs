//! From a network's outputs to detections, on the CPU.

use super::boxes::ImageBoxes;
use super::head::YoloHead;
use crate::config::CameraConfig;
use det_post_infer::Outputs;
use det_post_ops::decode::select::select;
use det_post_ops::nms;
use det_post_types::{
    Affine2, Candidates, Count, Detection2d, Detections, FrameReport, Kept, Nms2d, Result, Size,
    Stage,
};

/// The timed stages, in order.
pub(super) const STAGES: [Stage; 4] =
    [Stage::Decode, Stage::Select, Stage::Suppress, Stage::Gather];

/// Decodes, selects, suppresses and gathers boxes `B`.
pub(super) struct Postprocess<B> {
    score_threshold: f32,
    /// The wanted classes, ascending; empty for all.
    class_filter: Vec<u32>,
    pre_nms_top_k: usize,
    nms: Nms2d,
    max_detections: usize,
    candidates: Candidates<B>,
    suppression: nms::Workspace,
    keep: Vec<Kept>,
    detections: Vec<Detection2d<B>>,
}

impl<B: ImageBoxes> Postprocess<B> {
    /// Allocates the memory that the configuration bounds.
    pub(super) fn new(config: &CameraConfig) -> Self {
        Self {
            score_threshold: config.score_threshold,
            class_filter: config.class_filter.clone(),
            pre_nms_top_k: config.pre_nms_top_k,
            nms: config.nms.clone(),
            max_detections: config.max_detections,
            candidates: Candidates::with_capacity(config.candidate_capacity),
            suppression: nms::Workspace::with_capacity(config.pre_nms_top_k),
            keep: Vec::with_capacity(config.pre_nms_top_k),
            detections: Vec::with_capacity(config.max_detections),
        }
    }

    /// Finds the detections of a frame, in pixels of an image of the size `source`.
    ///
    /// # Errors
    /// `Inference` or `Argument` when an output has another shape than declared.
    pub(super) fn run(
        &mut self,
        outputs: &Outputs<'_>,
        head: &YoloHead,
        source_from_network: &Affine2,
        source: Size,
        report: &mut FrameReport,
    ) -> Result<()> {
        report.time(Stage::Decode, || {
            head.decode(outputs, self.score_threshold, &mut self.candidates)
        })?;
        if !self.class_filter.is_empty() {
            self.candidates.retain(|c| self.class_filter.binary_search(&c.class).is_ok());
        }
        let cut = report.time(Stage::Select, || select(&mut self.candidates, self.pre_nms_top_k));
        report.time(Stage::Suppress, || {
            let candidates = self.candidates.as_slice();
            B::SUPPRESS(candidates, &self.nms, &mut self.suppression, &mut self.keep)
        })?;
        let num_over_limit = report.time(Stage::Gather, || {
            B::GATHER(
                self.candidates.as_slice(),
                &self.keep,
                source_from_network,
                source,
                self.max_detections,
                &mut self.detections,
            )
        });
        cut.add_to(report);
        report.add_count(Count::DetectionsOverLimit, num_over_limit);
        Ok(())
    }

    /// The detections of the last frame.
    pub(super) fn detections(&self) -> Detections<'_> {
        B::detections(&self.detections)
    }

    /// Applies the parameters that may change between frames.
    pub(super) fn reconfigure(&mut self, config: &CameraConfig) {
        if config.pre_nms_top_k > self.pre_nms_top_k {
            self.suppression = nms::Workspace::with_capacity(config.pre_nms_top_k);
            self.keep = Vec::with_capacity(config.pre_nms_top_k);
        }
        self.score_threshold = config.score_threshold;
        self.class_filter.clone_from(&config.class_filter);
        self.pre_nms_top_k = config.pre_nms_top_k;
        self.nms.clone_from(&config.nms);
        self.max_detections = config.max_detections;
        self.detections.clear();
        self.detections.reserve(config.max_detections);
    }
}
