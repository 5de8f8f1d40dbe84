//! Camera channels: images to boxes in the image.

use std::mem::size_of;
use std::path::PathBuf;

use super::capacities::{candidate_capacity, max_detections, pre_nms_top_k};
use super::classes::class_filter;
use super::declaration::Change::Live;
use super::engine::{engine, model_path};
use super::head::YoloFacts;
use super::memory::{Buffers, bytes};
use super::nms::nms_2d;
use super::reader::Reader;
use super::value::number;
use crate::types::{Box2d, Candidate, EngineOptions, Nms2d};

/// How a camera channel is deployed.
#[derive(Clone, Debug, PartialEq)]
pub struct CameraConfig {
    /// Name or path of the head, as given.
    pub head: String,
    /// The network, relative to the current directory.
    pub model_path: PathBuf,
    /// Its engine.
    pub engine: EngineOptions,
    /// Boxes with a score of at least this are kept.
    pub score_threshold: f32,
    /// The maximum number of decoded boxes of a frame.
    pub candidate_capacity: usize,
    /// The maximum number of candidates for suppression.
    pub pre_nms_top_k: usize,
    /// Suppression. `max_num` and `score_threshold` of [`crate::types::NmsIou`]
    /// set no limit: the channel's own limits come before and after it.
    pub nms: Nms2d,
    /// The maximum number of detections of a frame.
    pub max_detections: usize,
    /// The wanted classes, ascending; empty for all.
    pub class_filter: Vec<u32>,
    /// Inputs and outputs of the network.
    pub facts: YoloFacts,
}

impl CameraConfig {
    pub(super) fn read(p: &mut Reader<'_>, head: String, facts: YoloFacts) -> Self {
        Self {
            head,
            model_path: model_path(p),
            engine: engine(p),
            score_threshold: p.value(
                "score_threshold",
                Live,
                number(0.0..=1.0),
                0.3,
                "Boxes with a score of at least this are kept.",
            ),
            class_filter: class_filter(p, &facts.class_names),
            candidate_capacity: candidate_capacity(p),
            pre_nms_top_k: pre_nms_top_k(p),
            nms: nms_2d(p, &facts.layout),
            max_detections: max_detections(p, 300),
            facts,
        }
    }

    /// The largest buffers on the CPU; those on a GPU are as large.
    pub(super) fn buffers(&self) -> Vec<Buffers> {
        let n = self.candidate_capacity;
        let bytes = bytes(&[n, size_of::<Candidate<Box2d>>()]);
        vec![("candidate_capacity", n.to_string(), bytes)]
    }
}
