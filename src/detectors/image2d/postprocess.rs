//! From a network's outputs to detections, on the CPU.

use std::time::Instant;

use super::boxes::{ImageBoxes, Parts};
use super::head::YoloHead;
use super::keypoints::ImageKeypoints;
use super::masks::ImageMasks;
use crate::config::CameraConfig;
use det_post_infer::Outputs;
use det_post_ops::decode::select::select;
use det_post_ops::nms;
use det_post_types::{
    Candidates, Detection2d, Detections, FrameReport, Kept, Letterbox, Nms2d, Result, Stage,
};

/// The timed stages, in order.
pub(super) const STAGES: [Stage; 4] =
    [Stage::Decode, Stage::Select, Stage::Suppress, Stage::Gather];

/// Decodes, selects, suppresses and gathers boxes `B`, their masks and keypoints.
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
    masks: Option<ImageMasks>,
    keypoints: Option<ImageKeypoints>,
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
            masks: ImageMasks::new(config),
            keypoints: ImageKeypoints::new(config),
        }
    }

    /// Finds the detections of a frame, in pixels of the image that was placed in the network's
    /// input.
    ///
    /// # Errors
    /// `Inference` or `Argument` when an output has another shape than declared.
    pub(super) fn run(
        &mut self,
        outputs: &Outputs<'_>,
        head: &YoloHead,
        placed: &Letterbox,
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
        let start = Instant::now();
        let Self { candidates, keep, max_detections: limit, detections, masks, keypoints, .. } =
            self;
        let (candidates, source) = (candidates.as_slice(), placed.source);
        let back = placed.source_from_network();
        let dropped = B::GATHER(candidates, keep, &back, source, *limit, detections);
        if let Some(masks) = masks {
            B::SOURCES(candidates, keep, &back, source, *limit, &mut masks.sources);
            masks.run(outputs, head, placed, B::aligned(detections), report)?;
        }
        if let Some(keypoints) = keypoints {
            B::SOURCES(candidates, keep, &back, source, *limit, &mut keypoints.sources);
            keypoints.run(outputs, head, placed, report)?;
        }
        report.add_duration(Stage::Gather, start.elapsed());
        cut.add_to(report);
        dropped.add_to(report);
        Ok(())
    }

    /// The detections of the last frame.
    pub(super) fn detections(&self) -> Detections<'_> {
        let parts = match (&self.masks, &self.keypoints) {
            (Some(masks), _) => Parts::Masks(masks.masks()),
            (None, Some(keypoints)) => Parts::Keypoints(keypoints.keypoints()),
            (None, None) => Parts::None,
        };
        B::detections(&self.detections, parts)
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
        self.masks = ImageMasks::new(config);
        self.keypoints = ImageKeypoints::new(config);
    }
}
