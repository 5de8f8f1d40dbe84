//! Camera channels: images to boxes in the image.

use std::mem::size_of;
use std::path::{Path, PathBuf};

use super::capacities::{candidate_capacity, max_detections, pre_nms_top_k, score_kept_when};
use super::classes::class_filter;
use super::declaration::Change::{Fixed, Live};
use super::engine::{engine_or_external, model_path_unless_external};
use super::head::YoloFacts;
use super::jpeg::jpeg;
use super::memory::{Buffers, bytes, check_left};
use super::nms::nms_2d;
use super::reader::Reader;
use super::value::Length::Exactly;
use super::value::{integer, list, number, whole};
use super::vocabulary::vocabulary;
use super::zero_copy::zero_copy;
use det_post_types::{
    Box2d, Candidate, EngineKind, EngineOptions, JpegOptions, Keypoint, Nms2d, Result, Size, Usage,
};

/// How a camera channel is deployed.
#[derive(Clone, Debug, PartialEq)]
pub struct CameraConfig {
    /// Name or path of the head, as given.
    pub head: String,
    /// The network; empty when it runs elsewhere (`EngineKind::External`).
    pub model_path: PathBuf,
    /// Size of the source image, where the network runs elsewhere and it is known.
    pub source_size: Option<Size>,
    /// Its engine.
    pub engine: EngineOptions,
    /// How JPEG images are decoded.
    pub jpeg: JpegOptions,
    /// Whether kernels read payloads in host memory, in place of an upload; `Auto`: on a GPU that
    /// shares its memory with the CPU.
    pub zero_copy: Usage,
    /// Boxes with a score of at least this are kept.
    pub score_threshold: f32,
    /// The maximum number of decoded boxes of a frame.
    pub candidate_capacity: usize,
    /// The maximum number of candidates for suppression.
    pub pre_nms_top_k: usize,
    /// Suppression. `max_num` and `score_threshold` of [`det_post_types::NmsIou`]
    /// set no limit: the channel's own limits come before and after it.
    pub nms: Nms2d,
    /// The maximum number of detections of a frame.
    pub max_detections: usize,
    /// Bytes of the masks of a frame, of heads with masks.
    pub mask_capacity_bytes: usize,
    /// The wanted classes, ascending; empty for all.
    pub class_filter: Vec<u32>,
    /// Vectors of classes by their names, for a network that finds classes by vectors: the names of
    /// `facts` are its classes, and the engine's options have their vectors.
    pub vocabulary_path: Option<PathBuf>,
    /// Name of a service that sets the classes, with a vocabulary.
    pub classes_service: Option<String>,
    /// Inputs and outputs of the network.
    pub facts: YoloFacts,
}

impl CameraConfig {
    /// Whether detections have keypoints.
    pub fn has_keypoints(&self) -> bool {
        self.facts.layout.keypoints(1).is_some()
    }

    pub(super) fn read(p: &mut Reader<'_>, head: String, mut facts: YoloFacts) -> Self {
        let mut engine = engine_or_external(p);
        let (mut vocabulary_path, mut classes_service) = (None, None);
        if let Some(vocabulary) = vocabulary(p) {
            facts.class_names = vocabulary.class_names;
            engine.class_vectors = Some(vocabulary.vectors);
            vocabulary_path = Some(vocabulary.path);
            classes_service = vocabulary.service;
            p.set_class_names(&facts.class_names);
        }
        let is_external = engine.kind == EngineKind::External;
        let source_size = source_size(p, is_external);
        if is_external {
            check_external(p, &facts, source_size.is_some());
        }
        Self {
            head,
            model_path: model_path_unless_external(p, engine.kind),
            source_size,
            engine,
            jpeg: jpeg(p),
            zero_copy: zero_copy(p),
            score_threshold: score_threshold(p),
            class_filter: class_filter(p, &facts.class_names),
            candidate_capacity: candidate_capacity(p),
            pre_nms_top_k: pre_nms_top_k(p),
            nms: nms_2d(p, &facts.layout),
            max_detections: max_detections(p, 300),
            mask_capacity_bytes: mask_capacity_bytes(p),
            vocabulary_path,
            classes_service,
            facts,
        }
    }

    /// Names and paths of the models that are loaded.
    pub fn model_paths(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let path = Some(self.model_path.as_path()).filter(|path| !path.as_os_str().is_empty());
        path.map(|path| ("model", path)).into_iter()
    }

    /// Checks that the capacities fit into what a limit of the address space leaves, once the
    /// networks are loaded.
    ///
    /// # Errors
    /// `Config` with the parameter of the largest buffer.
    pub fn check_memory(&self) -> Result<()> {
        check_left(&self.buffers())
    }

    /// The largest buffers on the CPU; those on a GPU are as large.
    pub(super) fn buffers(&self) -> Vec<Buffers> {
        let n = self.candidate_capacity;
        let bytes = bytes(&[n, size_of::<Candidate<Box2d>>()]);
        let mut buffers = vec![("candidate_capacity", n.to_string(), bytes)];
        if self.facts.layout.has_masks() {
            let n = self.mask_capacity_bytes;
            buffers.push(("mask_capacity_bytes", n.to_string(), n as u64));
        }
        if let Some(rows) = self.facts.layout.keypoints(1) {
            let n = self.max_detections;
            let bytes = super::memory::bytes(&[n, rows.num_keypoints, size_of::<Keypoint>()]);
            buffers.push(("max_detections", n.to_string(), bytes));
        }
        buffers
    }
}

fn mask_capacity_bytes(p: &mut Reader<'_>) -> usize {
    p.value(
        "mask_capacity_bytes",
        Fixed,
        integer(4..=256 << 20).in_unit("bytes"),
        4 << 20,
        "Most bytes of a frame's masks, a bit a pixel of the box. Masks from the first beyond it on are left out and counted, not their boxes.",
    )
}

fn score_threshold(p: &mut Reader<'_>) -> f32 {
    let threshold = p.value(
        "score_threshold",
        Live,
        number(0.0..=1.0),
        0.3,
        "Boxes with a score of at least this (see `score_kept_when`) are kept.",
    );
    score_kept_when(p).least_score(threshold)
}

fn source_size(p: &mut Reader<'_>, is_external: bool) -> Option<Size> {
    const KEY: &str = "source_size";
    let size = p.optional(
        KEY,
        Fixed,
        list(whole(1..=16384).in_unit("px"), Exactly(2)),
        "pixels of the network's input",
        "Width and height of the images before the head's `placement`, with `engine.kind: external`: boxes \
         are in their pixels.",
    );
    if size.is_some() && !is_external {
        let allowed = "none, unless engine.kind is external: images have their sizes";
        p.conflict(&[KEY, "engine.kind"], "a size", allowed);
    }
    size.map(|size| Size::new(size[0], size[1]))
}

/// Refuses heads whose tensors cannot be decoded without the network.
fn check_external(p: &mut Reader<'_>, facts: &YoloFacts, has_source_size: bool) {
    if facts.output_names.is_empty() {
        p.problem("engine.kind", "external needs a head with `output_names`");
    }
    if facts.input_size.is_none() && (facts.layout.needs_input_size() || has_source_size) {
        p.problem("engine.kind", "external needs a head with `input_size` here");
    }
}
