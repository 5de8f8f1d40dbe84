//! Surround channels: images of several cameras to boxes in space.

use std::mem::size_of;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::camera_inputs::{transforms_path, undistort};
use super::capacities::{candidate_capacity, max_detections, pre_nms_top_k};
use super::declaration::Change::{Fixed, Live};
use super::engine::{engine, model_path};
use super::head::{SurroundFacts, SurroundKind, ViewFacts};
use super::jpeg::jpeg;
use super::lidar::{score_thresholds, yaw_norm_thresholds};
use super::memory::{Buffers, bytes};
use super::nms::nms_3d;
use super::paths::PathUse;
use super::reader::Reader;
use super::value::Length::OneOrMore;
use super::value::{above, flag, list, one_of, path, seconds, text};
use det_post_types::{
    Candidate, EngineOptions, JpegOptions, Nms3d, Object3d, QueryDecode, ScoreThresholds,
    StreamPetrDecode, Undistort, ViewPrecision,
};

/// How a surround channel is deployed.
#[derive(Clone, Debug, PartialEq)]
pub struct SurroundConfig {
    /// Name or path of the head, as given.
    pub head: String,
    /// The network from images to feature maps.
    pub model_path: PathBuf,
    /// The networks from feature maps to boxes.
    pub decoder: SurroundDecoder,
    /// The engine of the networks.
    pub engine: EngineOptions,
    /// How JPEG images are decoded.
    pub jpeg: JpegOptions,
    /// Coordinate frame of the boxes, fixed to the vehicle.
    pub target_frame: String,
    /// Fixed frame for the motion of the vehicle.
    pub world_frame: String,
    /// Static transforms in addition to the graph's or the recording's.
    pub transforms_path: Option<PathBuf>,
    /// Whether images are undistorted.
    pub undistort: Undistort,
    /// Whether matrices contain the motion between the stamp of an image and that of its
    /// frame.
    pub compensate_skew: bool,
    /// After a larger gap between two frames the memory is cleared.
    pub max_gap: Duration,
    /// Minimum scores for every class of the head; infinite for the classes that
    /// `class_filter` leaves out.
    pub score_thresholds: ScoreThresholds,
    /// Per class, the minimum norm of (sine, cosine); empty for no check.
    pub yaw_norm_thresholds: Vec<f32>,
    /// Suppressions in a row, each of the survivors of the one before.
    pub nms: Vec<Nms3d>,
    /// The maximum number of decoded boxes of a frame.
    pub candidate_capacity: usize,
    /// The maximum number of candidates for suppression.
    pub pre_nms_top_k: usize,
    /// The maximum number of detections of a frame.
    pub max_detections: usize,
    /// Inputs and outputs of the networks.
    pub facts: SurroundFacts,
}

/// The networks from feature maps to boxes.
#[derive(Clone, Debug, PartialEq)]
pub enum SurroundDecoder {
    /// StreamPETR.
    StreamPetr {
        /// The network from matrices to position embeddings.
        position_embedding_path: PathBuf,
        /// The network from features, embeddings and memory to boxes.
        head_path: PathBuf,
    },
    /// DETR3D or Sparse4D.
    Views {
        /// The weights of the decoder.
        weights_path: PathBuf,
        /// The arithmetic of the decoder.
        precision: ViewPrecision,
        /// Values of 1 of int8 feature maps, one per level; `None` for maps of floats.
        map_scales: Option<Vec<f32>>,
    },
}

const PRECISIONS: &[(&str, ViewPrecision)] =
    &[("auto", ViewPrecision::Auto), ("f32", ViewPrecision::F32), ("f16", ViewPrecision::F16)];

impl SurroundConfig {
    pub(super) fn read(p: &mut Reader<'_>, head: String, facts: SurroundFacts) -> Self {
        let is_streampetr = facts.kind == SurroundKind::StreamPetr;
        Self {
            head,
            model_path: model_path(p),
            decoder: decoder(p, &facts.kind),
            engine: engine(p),
            jpeg: jpeg(p),
            target_frame: p.value(
                "target_frame",
                Fixed,
                text(),
                "base_link",
                "Coordinate frame of the boxes, fixed to the vehicle.",
            ),
            world_frame: p.value(
                "world_frame",
                Fixed,
                text(),
                "map",
                "Fixed frame of the vehicle's motion; `odom` is enough.",
            ),
            transforms_path: transforms_path(p),
            undistort: undistort(p),
            compensate_skew: p.derived(
                "compensate_skew",
                Fixed,
                flag(),
                ("`false` for `streampetr`", !is_streampetr),
                "Whether the camera matrices contain the motion between the stamps of an image \
                 and of its frame.",
            ),
            max_gap: seconds(p.value(
                "memory.max_gap_s",
                Live,
                above(0.0, 3600.0).in_unit("s"),
                0.5,
                "After a larger gap between stamps the memory of past frames is cleared.",
            )),
            score_thresholds: bounded_score_thresholds(p, &facts.class_names, is_streampetr),
            yaw_norm_thresholds: yaw_norm_thresholds(p, facts.class_names.len()),
            // The head is one task.
            nms: nms_3d(p, &facts.class_names, || vec![0; facts.class_names.len()]),
            candidate_capacity: candidate_capacity(p),
            pre_nms_top_k: bounded_pre_nms_top_k(p, &facts.kind),
            max_detections: max_detections(p, 500),
            facts,
        }
    }

    /// The files of its networks, each with a word for it.
    pub fn model_paths(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let of_decoder = match &self.decoder {
            SurroundDecoder::StreamPetr { position_embedding_path, head_path } => {
                [Some(("position_embedding", position_embedding_path)), Some(("head", head_path))]
            }
            SurroundDecoder::Views { weights_path, .. } => [Some(("weights", weights_path)), None],
        };
        let paths = [Some(("model", &self.model_path))].into_iter().chain(of_decoder).flatten();
        paths.map(|(key, path)| (key, path.as_path()))
    }

    /// The largest buffers on the CPU; those on a GPU are as large.
    pub(super) fn buffers(&self) -> Vec<Buffers> {
        let n = self.candidate_capacity;
        let bytes = bytes(&[n, size_of::<Candidate<Object3d>>()]);
        vec![("candidate_capacity", n.to_string(), bytes)]
    }

    /// The settings of `ops::decode_streampetr` for outputs of a layout.
    pub fn streampetr_decode(&self, channels_last: bool) -> StreamPetrDecode {
        let mut query = self.query_decode();
        // Autoware keeps scores above the threshold, `decode_streampetr` those at least as
        // large.
        for threshold in query.score_thresholds.per_class.iter_mut().flatten() {
            *threshold = threshold.next_up();
        }
        StreamPetrDecode { channels_last, query }
    }

    /// The settings of `ops::decode_query`.
    pub fn query_decode(&self) -> QueryDecode {
        let SurroundFacts { size_order, yaw, center_range, .. } = self.facts;
        QueryDecode {
            size_order,
            yaw,
            score_thresholds: self.score_thresholds.clone(),
            yaw_norm_thresholds: self.yaw_norm_thresholds.clone(),
            center_range,
        }
    }
}

/// Score thresholds, in as many bins as a GPU takes where pairs of a query and a class are decoded.
fn bounded_score_thresholds(
    p: &mut Reader<'_>,
    class_names: &[String],
    is_streampetr: bool,
) -> ScoreThresholds {
    const MAX_BINS: usize = QueryDecode::MAX_DISTANCE_BINS;
    let thresholds = score_thresholds(p, class_names);
    let num_bins = thresholds.distance_upper_limits_m.len();
    if !is_streampetr && num_bins > MAX_BINS {
        let allowed = format!("at most {MAX_BINS} limits");
        p.refuse("distance_upper_limits_m", format!("{num_bins} limits"), &allowed);
    }
    thresholds
}

/// The maximum number of candidates, as many as a GPU takes where pairs of a query and a class are
/// decoded.
fn bounded_pre_nms_top_k(p: &mut Reader<'_>, kind: &SurroundKind) -> usize {
    const MAX_PAIRS: usize = QueryDecode::MAX_PAIRS;
    let top_k = pre_nms_top_k(p);
    if let SurroundKind::Views(ViewFacts { decoder, .. }) = kind {
        let num_pairs = decoder.num_pairs();
        if top_k.min(num_pairs) > MAX_PAIRS {
            let allowed =
                format!("at most {MAX_PAIRS} of {num_pairs} pairs of a query and a class");
            p.refuse("pre_nms_top_k", top_k.to_string(), &allowed);
        }
    }
    top_k
}

fn decoder(p: &mut Reader<'_>, kind: &SurroundKind) -> SurroundDecoder {
    match kind {
        SurroundKind::StreamPetr => SurroundDecoder::StreamPetr {
            position_embedding_path: p
                .required(
                    "position_embedding_path",
                    path(PathUse::Read),
                    "Network of position embeddings.",
                )
                .into(),
            head_path: p
                .required(
                    "head_path",
                    path(PathUse::Read),
                    "Network from features and memory to boxes.",
                )
                .into(),
        },
        SurroundKind::Views(facts) => {
            let weights_path = p.required(
                "weights_path",
                path(PathUse::Read),
                "The decoder's weights: safetensors, or an ONNX file with a node \
                 `SvTransformerDecoder`.",
            );
            let precision = p.value(
                "decoder.precision",
                Fixed,
                one_of(PRECISIONS),
                "auto",
                "Arithmetic of the decoder. `auto`: `f16` on a GPU, `f32` on the CPU, which has no other.",
            );
            let map_scales = p.optional(
                "decoder.map_scales",
                Fixed,
                list(above(0.0, 1e6), OneOrMore),
                "feature maps of floats",
                "Values of 1 of int8 feature maps, by level, finest first (`det_post calibrate`): floats become int8, and int8 maps without a scale in the file are read by them. On a \
                 GPU only with `f16`.",
            );
            let num_levels = facts.level_strides.len() + usize::from(facts.extra_level);
            if let Some(scales) = map_scales.as_ref().filter(|scales| scales.len() != num_levels) {
                let allowed = format!("{num_levels} scales, one per level");
                p.refuse("decoder.map_scales", format!("{scales:?}"), &allowed);
            }
            SurroundDecoder::Views { weights_path: weights_path.into(), precision, map_scales }
        }
    }
}
