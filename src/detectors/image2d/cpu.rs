//! 2D detection on the CPU.

use super::boxes::{self, ImageBoxes};
use super::{IMAGE, NEEDS, YoloHead, family, with_empty_frame};
use crate::config::{CameraConfig, ChannelConfig};
use crate::detectors::{Detector, DetectorInfo, FrameSet, InputNeeds};
use crate::device::Device;
use crate::error::Result;
use crate::infer::{self, Engine};
use crate::ops::decompress::{Picture, decompress};
use crate::ops::letterbox::{self, letterbox};
use crate::ops::nms;
use crate::ops::select::select;
use crate::types::{
    Box2d, Candidates, Count, Detection2d, Detections, FrameReport, ImagePayload, Kept, Nms2d,
    Stage, Tensor,
};

/// The timed stages, in order.
const STAGES: [Stage; 7] = [
    Stage::Decompress,
    Stage::Letterbox,
    Stage::Infer,
    Stage::Decode,
    Stage::Select,
    Stage::Suppress,
    Stage::Gather,
];

/// Finds boxes `B` in images on the CPU.
pub struct CpuDetector<B = Box2d> {
    info: DetectorInfo,
    engine: Box<dyn Engine>,
    head: YoloHead,
    score_threshold: f32,
    /// The wanted classes, ascending; empty for all.
    class_filter: Vec<u32>,
    pre_nms_top_k: usize,
    nms: Nms2d,
    max_detections: usize,
    picture: Picture,
    letterbox: letterbox::Workspace,
    input: Tensor,
    candidates: Candidates<B>,
    suppression: nms::Workspace,
    keep: Vec<Kept>,
    detections: Vec<Detection2d<B>>,
}

impl<B: ImageBoxes> CpuDetector<B> {
    /// Loads the network.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &CameraConfig) -> Result<Self> {
        Self::new(config, infer::load(&config.model_path, &config.engine)?)
    }

    /// Creates a detector with a loaded network.
    ///
    /// # Errors
    /// `Model` when the network does not fit the head, or the head has boxes of the
    /// other kind.
    pub fn new(config: &CameraConfig, engine: Box<dyn Engine>) -> Result<Self> {
        boxes::check::<B>(&config.facts.layout)?;
        let head = YoloHead::new(&config.facts, engine.inputs(), engine.outputs())?;
        let input = head.input()?;
        Ok(Self {
            info: DetectorInfo::new(&Device::Cpu, engine.name(), &STAGES),
            engine,
            head,
            score_threshold: config.score_threshold,
            class_filter: config.class_filter.clone(),
            pre_nms_top_k: config.pre_nms_top_k,
            nms: config.nms.clone(),
            max_detections: config.max_detections,
            picture: Picture::new(),
            letterbox: letterbox::Workspace::new(),
            input,
            candidates: Candidates::with_capacity(config.candidate_capacity),
            suppression: nms::Workspace::with_capacity(config.pre_nms_top_k),
            keep: Vec::with_capacity(config.pre_nms_top_k),
            detections: Vec::with_capacity(config.max_detections),
        })
    }
}

impl<B: ImageBoxes> Detector for CpuDetector<B> {
    fn inputs(&self) -> &[InputNeeds] {
        &NEEDS
    }

    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn detect<'a>(
        &'a mut self,
        frame: &FrameSet<'_>,
        report: &mut FrameReport,
    ) -> Result<Detections<'a>> {
        let Self { engine, head, picture, letterbox: workspace, input, detections, .. } = self;
        let image = match frame.image(IMAGE)? {
            ImagePayload::Raw(image) => image,
            ImagePayload::Compressed(file) => {
                report.time(Stage::Decompress, || decompress(&file, picture))?;
                picture.view()?
            }
        };
        let placed = report
            .time(Stage::Letterbox, || letterbox(&image, head.letterbox(), workspace, input))?;
        report.time(Stage::Infer, || engine.run(&[input.view()]))?;
        report.time(Stage::Decode, || {
            head.decode(engine.as_ref(), self.score_threshold, &mut self.candidates)
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
                &placed.source_from_network(),
                image.size(),
                self.max_detections,
                detections,
            )
        });
        cut.add_to(report);
        report.add_count(Count::DetectionsOverLimit, num_over_limit);
        Ok(B::detections(detections))
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = family(config)?;
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
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        with_empty_frame(|frame| self.detect(frame, &mut FrameReport::new()).map(drop))
    }
}
