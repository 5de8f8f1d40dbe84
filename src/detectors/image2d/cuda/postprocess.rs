//! From a network's outputs to detections, as one recorded graph.

use std::mem::{Discriminant, discriminant};

use super::keypoints::DeviceKeypoints;
use super::masks::DeviceMasks;
use crate::config::CameraConfig;
use crate::detectors::frame_stream::RecordedOn;
use crate::detectors::image2d::boxes::ImageBoxes;
use crate::detectors::image2d::head::YoloHead;
use det_post_infer::device::DeviceEngine;
use det_post_ops::decode::gather::cuda::{Gather, GatheredRows, Workspace as Gatherer};
use det_post_ops::decode::yolo::cuda::{Decoded, Selection, Workspace as Decoder};
use det_post_ops::device::cuda::Graph;
use det_post_ops::nms::cuda::{Capacity, Suppressible, Suppression};
use det_post_ops::shared::DeviceCandidates;
use det_post_types::{Box2d, Letterbox, Nms2d, Result, RotatedBox2d};

/// Boxes in an image, from the network's outputs to detections, on a GPU.
pub trait DeviceBoxes: ImageBoxes + Decoded + Suppressible<Nms = Nms2d> + Gather {
    /// Detections with axis-aligned boxes: those that may have masks or keypoints.
    fn aligned_rows(rows: &GatheredRows<Self>) -> Option<&GatheredRows<Box2d>>;
}

impl DeviceBoxes for Box2d {
    fn aligned_rows(rows: &GatheredRows<Self>) -> Option<&GatheredRows<Box2d>> {
        Some(rows)
    }
}

impl DeviceBoxes for RotatedBox2d {
    fn aligned_rows(_: &GatheredRows<Self>) -> Option<&GatheredRows<Box2d>> {
        None
    }
}

/// The operations from the network's outputs to detections, recorded once.
pub(super) struct Postprocess<B: DeviceBoxes> {
    decoder: Decoder<B>,
    suppression: Suppression<B>,
    pub(super) gather: Gatherer<B>,
    pub(super) masks: Option<DeviceMasks>,
    pub(super) keypoints: Option<DeviceKeypoints>,
    pub(super) graph: Graph,
    limits: Limits,
}

/// The values that kernels and memory are chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    num_candidates: usize,
    max_detections: usize,
    nms: Discriminant<Nms2d>,
}

impl Limits {
    fn of(config: &CameraConfig) -> Self {
        Self {
            num_candidates: config.pre_nms_top_k.min(config.candidate_capacity).max(1),
            max_detections: config.max_detections,
            nms: discriminant(&config.nms),
        }
    }
}

impl<B: DeviceBoxes> Postprocess<B> {
    pub(super) fn new(
        config: &CameraConfig,
        head: &YoloHead,
        engine: &DeviceEngine,
        RecordedOn { stream, counters }: RecordedOn<'_>,
    ) -> Result<Self> {
        let limits = Limits::of(config);
        // Freed when other limits replace it.
        let stream = &stream.with_own_memory();
        let mut candidates = DeviceCandidates::<B>::with_capacity(stream, limits.num_candidates)?;
        let mut decoder = head.decoder(stream, engine)?;
        let classes = config.facts.class_names.len();
        let capacity = Capacity { candidates: limits.num_candidates, classes };
        let mut suppression = Suppression::new(stream, &config.nms, capacity)?;
        let mut gather = Gatherer::new(stream, limits.max_detections)?;
        let mask_tensors = head.masks(engine)?;
        let mut masks = None;
        if let Some(tensors) = &mask_tensors {
            gather = gather.with_rows()?;
            masks = Some(DeviceMasks::new(config, stream, tensors)?);
        }
        let predictions = head.keypoints(engine)?;
        let mut keypoints = None;
        if let Some((_, rows)) = &predictions {
            gather = gather.with_rows()?;
            keypoints = Some(DeviceKeypoints::new(config, stream, rows)?);
        }
        let graph = Graph::capture(stream, || {
            head.enqueue_decode(engine, &mut decoder, &mut candidates, counters)?;
            suppression.enqueue(&candidates)?;
            gather.enqueue(&candidates, suppression.kept(), counters)?;
            let Some(rows) = gather.rows().and_then(B::aligned_rows) else { return Ok(()) };
            if let (Some(masks), Some(tensors)) = (&mut masks, &mask_tensors) {
                masks.enqueue(tensors, rows)?;
            }
            match (&mut keypoints, &predictions) {
                (Some(keypoints), Some((output, _))) => keypoints.enqueue(output, rows),
                _ => Ok(()),
            }
        })?;
        let mut recorded = Self { decoder, suppression, gather, masks, keypoints, graph, limits };
        recorded.set(config)?;
        Ok(recorded)
    }

    /// Whether a configuration changes only values in device memory.
    pub(super) fn fits(&self, config: &CameraConfig) -> bool {
        self.limits == Limits::of(config)
    }

    /// Writes thresholds and wanted classes to the device and waits.
    pub(super) fn set(&mut self, config: &CameraConfig) -> Result<()> {
        self.suppression.set(&config.nms)?;
        self.decoder.set(&Selection {
            score_threshold: config.score_threshold,
            class_filter: &config.class_filter,
            candidate_capacity: config.candidate_capacity,
            pre_nms_top_k: config.pre_nms_top_k,
        })
    }

    /// Writes the transform to source pixels to the device and waits.
    pub(super) fn set_placement(&mut self, placed: &Letterbox) -> Result<()> {
        if let Some(masks) = &mut self.masks {
            masks.set(placed)?;
        }
        if let Some(keypoints) = &mut self.keypoints {
            keypoints.set(placed)?;
        }
        self.gather.set_placement(&placed.source_from_network(), placed.source)
    }
}
