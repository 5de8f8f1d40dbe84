//! Networks that end in a suppression of TensorRT, which is cut off and done here.

use super::family;
use crate::config::{CameraConfig, ChannelConfig, ChannelKind};
use crate::detectors::{Detector, DetectorInfo, FrameSet};
use det_post_infer::efficient_nms::EfficientNms;
use det_post_ops::device::PayloadMemory;
use det_post_types::{
    ClassMode, Detections, DetrBoxes, DetrClasses, Error, ErrorKind, FrameReport, Nms2d, NmsIou,
    Result, YoloLayout,
};

/// A detector of a network without its suppression, whose settings hold in place of those
/// of the configuration.
pub(super) struct CutDetector {
    inner: Box<dyn Detector>,
    info: DetectorInfo,
    nms: EfficientNms,
}

impl CutDetector {
    pub(super) fn new(inner: Box<dyn Detector>, nms: EfficientNms) -> Self {
        let score_threshold = Some(nms.score_threshold);
        let info = DetectorInfo { score_threshold, ..inner.info().clone() };
        Self { inner, info, nms }
    }
}

/// The configuration with the layout, the thresholds and the suppression of the end of
/// the network.
///
/// # Errors
/// `Model` when the head has no class of the background's number, `Config` when no other class
/// is left.
pub(super) fn configured(config: &CameraConfig, nms: &EfficientNms) -> Result<CameraConfig> {
    let mut config = config.clone();
    config.facts.layout = YoloLayout::Detr {
        boxes: DetrBoxes::CornerPixels,
        logits: nms.has_logits,
        classes: DetrClasses::Best,
    };
    config.facts.output_names = vec![nms.boxes.clone(), nms.scores.clone()];
    config.score_threshold = nms.score_threshold;
    config.max_detections = config.max_detections.min(nms.max_output_boxes.max(1));
    config.nms = Nms2d::Iou(NmsIou {
        iou_threshold: nms.iou_threshold,
        offset: 0,
        class_mode: if nms.is_class_agnostic { ClassMode::Agnostic } else { ClassMode::Aware },
        score_threshold: None,
        max_num: usize::MAX,
    });
    if let Some(background) = nms.background_class {
        let num_classes = config.facts.class_names.len() as u32;
        if background >= num_classes {
            let message =
                format!("background_class {background} is not one of {num_classes} classes");
            return Err(Error::new(ErrorKind::Model, "head", message));
        }
        if config.class_filter.is_empty() {
            config.class_filter = (0..num_classes).collect();
        }
        config.class_filter.retain(|&class| class != background);
        if config.class_filter.is_empty() {
            // An empty filter keeps every class.
            let message = format!("class_filter keeps only background_class {background}");
            return Err(Error::new(ErrorKind::Config, "head", message));
        }
    }
    Ok(config)
}

/// A description of the cut, for the log and `det_post check`.
pub fn describe(nms: &EfficientNms) -> String {
    let EfficientNms { score_threshold, iou_threshold, max_output_boxes, .. } = nms;
    let classes = if nms.is_class_agnostic { "all classes" } else { "each class" };
    format!(
        "ends in EfficientNMS_TRT, which is cut off: its suppression is done here, with its score_threshold \
         {score_threshold} and iou_threshold {iou_threshold} over {classes}, up to {max_output_boxes} boxes, in place \
         of score_threshold and nms.*"
    )
}

impl Detector for CutDetector {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let mut changed = config.clone();
        changed.kind = ChannelKind::Camera(Box::new(configured(family(config)?, &self.nms)?));
        self.inner.reconfigure(&changed)
    }

    fn allow_in_flight(&mut self, num: usize) -> usize {
        self.inner.allow_in_flight(num)
    }

    fn num_in_flight(&self) -> usize {
        self.inner.num_in_flight()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.inner.submit(frame, report)
    }

    fn flush(&mut self, report: &mut FrameReport) {
        self.inner.flush(report);
    }

    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        self.inner.collect(report)
    }

    fn reset(&mut self) -> Result<()> {
        self.inner.reset()
    }

    fn warm_up(&mut self) -> Result<()> {
        self.inner.warm_up()
    }

    fn payload_memory(&self) -> PayloadMemory {
        self.inner.payload_memory()
    }
}
