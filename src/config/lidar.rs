//! LiDAR channels: point clouds to boxes in space.

use std::mem::size_of;
use std::path::{Path, PathBuf};

use super::capacities::{candidate_capacity, max_detections, pre_nms_top_k, score_kept_when};
use super::classes::{class_filter, per_class};
use super::clouds::{CloudsConfig, GivenAs};
use super::declaration::Change::{Fixed, Live};
use super::densification::DensificationConfig;
use super::engine::{engine, model_path};
use super::fused_cameras::FusedCamerasConfig;
use super::head::{EncoderFacts, LidarFacts, LidarOutputs};
use super::memory::{Buffers, bytes, check_left};
use super::nms::nms_3d;
use super::paths::PathUse;
use super::reader::Reader;
use super::value::Length::{OneOrMore, OneOrPerClass};
use super::value::{above, integer, list, number, one_of, path};
use super::zero_copy::zero_copy;
use det_post_types::{
    Candidate, EncoderPrecision, EngineOptions, Nms3d, Object3d, Result, ScoreThresholds, Usage,
};

/// How a LiDAR channel is deployed.
#[derive(Clone, Debug, PartialEq)]
pub struct LidarConfig {
    /// Name or path of the head, as given.
    pub head: String,
    /// The encoder; empty for a head without one.
    pub encoder_path: PathBuf,
    /// The options of a sparse encoder; without effect on a pillar encoder.
    pub sparse_encoder: SparseEncoderConfig,
    /// The network.
    pub model_path: PathBuf,
    /// The cameras of a network that takes their images, too.
    pub cameras: Option<FusedCamerasConfig>,
    /// The engine of the networks.
    pub engine: EngineOptions,
    /// Whether kernels read payloads in host memory, in place of an upload; `Auto`: on a GPU that
    /// shares its memory with the CPU.
    pub zero_copy: Usage,
    /// Minimum scores for every class of the head; infinite for the classes that
    /// `class_filter` leaves out.
    pub score_thresholds: ScoreThresholds,
    /// Per class, the minimum norm of (sine, cosine); empty for no check.
    pub yaw_norm_thresholds: Vec<f32>,
    /// Suppressions in a row, each of the survivors of the one before.
    pub nms: Vec<Nms3d>,
    /// The maximum number of points of a frame, all sweeps together.
    pub point_capacity: usize,
    /// The maximum number of voxels of a frame.
    pub voxel_capacity: usize,
    /// The maximum number of decoded boxes of a frame.
    pub candidate_capacity: usize,
    /// The maximum number of candidates for suppression.
    pub pre_nms_top_k: usize,
    /// The maximum number of detections of a frame.
    pub max_detections: usize,
    /// The merging of past sweeps with the current one.
    pub densification: DensificationConfig,
    /// Where clouds come from, and where their points go.
    pub clouds: CloudsConfig,
    /// Inputs and outputs of the networks.
    pub facts: LidarFacts,
}

/// The options of a sparse encoder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SparseEncoderConfig {
    /// The arithmetic of its convolutions.
    pub precision: EncoderPrecision,
    /// The maximum number of sites of each level after the voxels; `None` for shares of
    /// `voxel_capacity`.
    pub level_capacities: Option<Vec<usize>>,
}

impl LidarConfig {
    pub(super) fn read(
        p: &mut Reader<'_>,
        head: String,
        facts: LidarFacts,
        (num_inputs, is_list): (usize, bool),
    ) -> Self {
        Self {
            head,
            clouds: {
                let has_cameras = facts.encoder.cameras().is_some();
                let num_clouds = if has_cameras { 1 } else { num_inputs };
                CloudsConfig::read(p, num_clouds, GivenAs { is_list, has_cameras })
            },
            encoder_path: match facts.encoder.has_file() {
                true => encoder_path(p),
                false => PathBuf::new(),
            },
            sparse_encoder: match facts.encoder.is_sparse() {
                true => SparseEncoderConfig::read(p),
                false => SparseEncoderConfig::default(),
            },
            model_path: model_path(p),
            cameras: FusedCamerasConfig::read(p, &facts.encoder),
            engine: engine(p),
            zero_copy: zero_copy(p),
            score_thresholds: score_thresholds(p, &facts.class_names),
            yaw_norm_thresholds: {
                let thresholds = yaw_norm_thresholds(p, facts.class_names.len());
                let above_zero = thresholds.iter().find(|&&threshold| threshold > 0.0);
                if let (LidarOutputs::Anchor(_), Some(found)) = (&facts.outputs, above_zero) {
                    let allowed = "0 for an anchor head, whose boxes have no (sine, cosine)";
                    p.refuse("yaw_norm_thresholds", found, allowed);
                }
                thresholds
            },
            nms: nms_3d(p, &facts.class_names, || facts.task_of_class()),
            point_capacity: p.value(
                "point_capacity",
                Fixed,
                integer(1..=1 << 24),
                2_000_000,
                "Most points of a frame, all sweeps together.",
            ),
            voxel_capacity: voxel_capacity(p, &facts),
            candidate_capacity: candidate_capacity(p),
            pre_nms_top_k: pre_nms_top_k(p),
            max_detections: max_detections(p, 500),
            densification: DensificationConfig::read(p),
            facts,
        }
    }

    /// The file of a sparse encoder, which of a head without one is the network's.
    pub fn encoder_file(&self) -> &Path {
        if self.facts.encoder.has_file() { &self.encoder_path } else { &self.model_path }
    }

    /// The files of the networks with their names in diagnostics: the encoder, if any, then the
    /// network and, if there are cameras, the networks of their images and maps.
    pub fn model_paths(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let encoder = self.facts.encoder.has_file().then_some(("encoder", &*self.encoder_path));
        let cameras = self.cameras.as_ref();
        let backbone = cameras.map(|cameras| ("image_backbone", &*cameras.image_backbone_path));
        let fuser = cameras.and_then(|cameras| cameras.fuser.as_ref()).into_iter();
        let fuser = fuser.flat_map(|paths| {
            let (transform, fuser) = (&*paths.camera_transform_path, &*paths.fuser_path);
            [("camera_transform", transform), ("fuser", fuser)]
        });
        encoder.into_iter().chain([("model", &*self.model_path)]).chain(backbone).chain(fuser)
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
        let LidarConfig { point_capacity, voxel_capacity, candidate_capacity, facts, .. } = self;
        let (point, float) = (facts.num_point_channels(), size_of::<f32>());
        // The features of a voxel: of its points in a pillar, of their mean otherwise.
        let (rows, voxels) = match facts.encoder.has_point_rows() {
            true => {
                let points = facts.max_points_per_voxel;
                (points, format!("{voxel_capacity} with max_points_per_voxel {points}"))
            }
            false => (1, voxel_capacity.to_string()),
        };
        let num_past_sweeps = self.densification.num_past_sweeps;
        let sweeps = match num_past_sweeps {
            0 => point_capacity.to_string(),
            num => format!("{point_capacity} with densification.num_past_sweeps {num}"),
        };
        let candidate = size_of::<Candidate<Object3d>>();
        vec![
            // The voxels, and the encoder's input.
            (
                "voxel_capacity",
                voxels,
                bytes(&[*voxel_capacity, rows, point + facts.num_features(), float]),
            ),
            // The cloud, the past sweeps, and all of them joined.
            (
                "point_capacity",
                sweeps,
                bytes(&[2 + num_past_sweeps, *point_capacity, point, float]),
            ),
            (
                "candidate_capacity",
                candidate_capacity.to_string(),
                bytes(&[*candidate_capacity, candidate]),
            ),
        ]
    }
}

fn voxel_capacity(p: &mut Reader<'_>, facts: &LidarFacts) -> usize {
    const KEY: &str = "voxel_capacity";
    let capacity = p
        .optional(
            KEY,
            Fixed,
            integer(1..=1 << 20),
            "the head's `voxel_capacity`",
            "Most voxels (or pillars) of a frame, in the order of their first points.",
        )
        .unwrap_or(facts.voxel_capacity);
    if let EncoderFacts::None(points) = &facts.encoder
        && capacity < points.min_voxels
    {
        let allowed = format!("{} and more, the head's `min_voxels`", points.min_voxels);
        p.refuse(KEY, capacity, &allowed);
    }
    capacity
}

fn encoder_path(p: &mut Reader<'_>) -> PathBuf {
    p.required(
        "encoder_path",
        path(PathUse::Read),
        "The encoder, an ONNX file; for voxels NVIDIA's scn or Autoware's.",
    )
    .into()
}

const PRECISIONS: &[(&str, EncoderPrecision)] = &[
    ("auto", EncoderPrecision::Auto),
    ("f32", EncoderPrecision::F32),
    ("tf32", EncoderPrecision::Tf32),
    ("f16", EncoderPrecision::F16),
    ("bf16", EncoderPrecision::Bf16),
];

impl SparseEncoderConfig {
    fn read(p: &mut Reader<'_>) -> Self {
        Self {
            precision: p.value(
                "encoder.precision",
                Fixed,
                one_of(PRECISIONS),
                "auto",
                "Arithmetic of the sparse encoder. `auto`: `f16` on a GPU, `f32` on the CPU.",
            ),
            level_capacities: p.optional(
                "encoder.level_capacities",
                Fixed,
                list(integer(1..=1 << 24), OneOrMore),
                "1.75, 1.25, 0.7, then 0.6 of `voxel_capacity`",
                "Most sites of each level after the voxels, finest first.",
            ),
        }
    }
}

pub(super) fn score_thresholds(p: &mut Reader<'_>, class_names: &[String]) -> ScoreThresholds {
    const BY_DISTANCE: &str = "score_thresholds_by_distance";
    const LIMITS: &str = "distance_upper_limits_m";
    let constant = p.value(
        "score_thresholds",
        Live,
        list(number(0.0..=1.0), OneOrPerClass),
        0.35,
        "Boxes with a score of at least this (see `score_kept_when`) are kept.",
    );
    let limits = p.optional(
        LIMITS,
        Live,
        list(above(0.0, 1e6).in_unit("m"), OneOrMore),
        "one bin without a limit",
        "Upper limits of distance bins, rising. Boxes at or beyond the last are dropped.",
    );
    let by_distance = p.per_class(
        BY_DISTANCE,
        Live,
        || list(number(0.0..=1.0), OneOrMore),
        "the class's `score_thresholds` in every bin",
        "Score thresholds of a class, one per bin of `distance_upper_limits_m`.",
    );
    let filter = class_filter(p, class_names);
    let kept_when = score_kept_when(p);
    let limits = limits.unwrap_or_default();
    if !limits.is_sorted_by(|a, b| a < b) {
        p.refuse(LIMITS, format!("{limits:?}"), "rising limits");
    }
    let mut bins_of_class = Vec::new();
    let constant = per_class(&constant, class_names.len());
    for (class, (threshold, bins)) in constant.into_iter().zip(by_distance).enumerate() {
        if let Some(bins) = bins.as_ref().filter(|bins| bins.len() != limits.len()) {
            let allowed = match limits.len() {
                0 => format!("none without {LIMITS}"),
                n => format!("{n} thresholds, one per bin of {LIMITS}"),
            };
            let key = format!("{BY_DISTANCE}.{}", class_names[class]);
            p.conflict(&[&key, LIMITS], format!("{bins:?}"), &allowed);
        }
        let num_bins = limits.len().max(1);
        bins_of_class.push(match filter.is_empty() || filter.contains(&(class as u32)) {
            true => {
                let bins = bins.unwrap_or_else(|| vec![threshold; num_bins]);
                bins.into_iter().map(|threshold| kept_when.least_score(threshold)).collect()
            }
            false => vec![f32::INFINITY; num_bins],
        });
    }
    ScoreThresholds { distance_upper_limits_m: limits, per_class: bins_of_class }
}

/// One per class; empty when no class has one.
pub(super) fn yaw_norm_thresholds(p: &mut Reader<'_>, num_classes: usize) -> Vec<f32> {
    let thresholds = p.value(
        "yaw_norm_thresholds",
        Live,
        list(number(0.0..=1.0), OneOrPerClass),
        0.0,
        "Boxes are dropped when the norm of their (sine, cosine) is below this; heads of kind `anchor` take only 0.",
    );
    match thresholds.iter().any(|&threshold| threshold > 0.0) {
        true => per_class(&thresholds, num_classes),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{ChannelKind, Config};
    use det_post_ros::{Parameter, ParameterValue};

    #[test]
    fn boxes_of_anchors_have_no_norm_of_yaw() {
        let of_head = |head: &str| {
            let parameters = ["l.input:=/points", "l.encoder_path:=e", "l.model_path:=m", head];
            Config::load(&[], &parameters.map(str::to_owned)).unwrap()
        };
        let change = |config: &Config, threshold: f64| {
            let value = ParameterValue::Numbers(vec![threshold]);
            config.with_parameters(&[Parameter { name: "l.yaw_norm_thresholds".into(), value }])
        };
        let anchors = of_head("l.head:=pointpillars_kitti");
        let error = change(&anchors, 0.3).unwrap_err();
        let expected = "l.yaw_norm_thresholds: found 0.3; allowed: 0 for an anchor head";
        assert!(error.message().contains(expected), "{error}");
        change(&anchors, 0.0).unwrap();
        change(&of_head("l.head:=centerpoint_autoware"), 0.3).unwrap();
    }

    #[test]
    fn past_sweeps_take_memory() {
        let bytes = |num_past_sweeps: u64| {
            let sweeps = format!("l.densification.num_past_sweeps:={num_past_sweeps}");
            let parameters = [
                "l.head:=centerpoint_autoware",
                "l.input:=/points",
                "l.encoder_path:=e",
                "l.model_path:=m",
                "l.point_capacity:=1000",
                &sweeps,
            ];
            let config = Config::load(&[], &parameters.map(str::to_owned)).unwrap();
            let ChannelKind::Lidar(lidar) = &config.channels[0].kind else { panic!() };
            let points = lidar.buffers().into_iter().find(|of| of.0 == "point_capacity");
            points.map(|(_, found, bytes)| (found, bytes)).unwrap()
        };
        let (found, single) = bytes(0);
        assert_eq!(found, "1000");
        let (found, with_past) = bytes(64);
        assert_eq!(found, "1000 with densification.num_past_sweeps 64");
        assert_eq!(with_past, 33 * single);
    }
}
