//! Lidar channels.

use std::path::PathBuf;

use super::engine::engine_options;
use super::problems::Problems;
use super::reader::Values;
use crate::types::{
    CircleThreshold, ClassMode, EngineOptions, Nms3d, NmsBev, NmsCircle, NmsIou3d, ScoreThresholds,
};

pub use super::head::lidar::{AnchorFacts, CenterFacts, LidarFacts, LidarOutputs};

/// How a lidar channel is deployed.
#[derive(Clone, Debug, PartialEq)]
pub struct LidarConfig {
    /// Name or path of the head, as given.
    pub head: String,
    /// The pillar encoder, relative to the current directory.
    pub encoder_path: PathBuf,
    /// The network, relative to the current directory.
    pub model_path: PathBuf,
    /// What runs both.
    pub engine: EngineOptions,
    /// Least scores, for every class of the head.
    pub score_thresholds: ScoreThresholds,
    /// Per class, the least norm of (sine, cosine); empty for no check.
    pub yaw_norm_thresholds: Vec<f32>,
    /// Suppression.
    pub nms: Nms3d,
    /// The most points held, all sweeps together.
    pub point_capacity: usize,
    /// The most decoded boxes held.
    pub candidate_capacity: usize,
    /// The most candidates that enter suppression.
    pub pre_nms_top_k: usize,
    /// The most detections a frame.
    pub max_detections: usize,
    /// How past sweeps join the current one.
    pub densification: DensificationConfig,
    /// What the networks mean.
    pub facts: LidarFacts,
}

/// How past sweeps join the current one.
#[derive(Clone, Debug, PartialEq)]
pub struct DensificationConfig {
    /// Past sweeps merged into the current one.
    pub num_past_sweeps: usize,
    /// Fixed frame through which past sweeps are moved.
    pub world_frame: String,
    /// Older sweeps are not merged.
    pub max_sweep_age_s: f32,
}

impl LidarConfig {
    pub(super) fn new(
        prefix: &str,
        values: &Values,
        facts: LidarFacts,
        problems: &mut Problems,
    ) -> Self {
        let yaw_norm_thresholds =
            per_class(&values.numbers("yaw_norm_thresholds"), facts.class_names.len());
        let checks_yaw = yaw_norm_thresholds.iter().any(|&threshold| threshold > 0.0);
        Self {
            head: values.text("head").to_owned(),
            encoder_path: values.text("encoder_path").into(),
            model_path: values.text("model_path").into(),
            engine: engine_options(values),
            score_thresholds: score_thresholds(prefix, values, &facts.class_names, problems),
            yaw_norm_thresholds: if checks_yaw { yaw_norm_thresholds } else { Vec::new() },
            nms: nms(prefix, values, &facts, problems),
            point_capacity: values.count("point_capacity"),
            candidate_capacity: values.count("candidate_capacity"),
            pre_nms_top_k: values.count("pre_nms_top_k"),
            max_detections: values.count("max_detections"),
            densification: DensificationConfig {
                num_past_sweeps: values.count("densification.num_past_sweeps"),
                world_frame: values.text("densification.world_frame").to_owned(),
                max_sweep_age_s: values.number("densification.max_sweep_age_s"),
            },
            facts,
        }
    }
}

/// One value for all classes, or one per class, as one per class.
fn per_class(values: &[f32], num_classes: usize) -> Vec<f32> {
    match values {
        [one] => vec![*one; num_classes],
        all => all.to_vec(),
    }
}

fn score_thresholds(
    prefix: &str,
    values: &Values,
    class_names: &[String],
    problems: &mut Problems,
) -> ScoreThresholds {
    let limits = values.numbers("distance_upper_limits_m");
    if !limits.is_sorted_by(|a, b| a < b) {
        let key = format!("{prefix}distance_upper_limits_m");
        problems.refuse(&key, format!("{limits:?}"), "rising limits");
    }
    let num_bins = limits.len().max(1);
    let constant = per_class(&values.numbers("score_thresholds"), class_names.len());
    let mut bins_of_class = Vec::new();
    for (name, threshold) in class_names.iter().zip(constant) {
        let key = format!("score_thresholds_by_distance.{name}");
        let bins = values.numbers(&key);
        if !bins.is_empty() && bins.len() != limits.len() {
            let allowed = match limits.len() {
                0 => "none without distance_upper_limits_m".to_owned(),
                n => format!("{n} thresholds, one per bin of distance_upper_limits_m"),
            };
            problems.refuse(&format!("{prefix}{key}"), format!("{bins:?}"), &allowed);
        }
        bins_of_class.push(if bins.is_empty() { vec![threshold; num_bins] } else { bins });
    }
    ScoreThresholds { distance_upper_limits_m: limits, per_class: bins_of_class }
}

fn nms(prefix: &str, values: &Values, facts: &LidarFacts, problems: &mut Problems) -> Nms3d {
    let class_mode = match values.text("nms.class_mode") {
        "aware" => ClassMode::Aware,
        "task" => ClassMode::Groups(facts.task_of_class()),
        _ => ClassMode::Agnostic,
    };
    let iou_thresholds = values.numbers("nms.iou_thresholds");
    let forbidden_pairs = forbidden_pairs(prefix, values, &facts.class_names, problems);
    match values.text("nms.kind") {
        "circle" => Nms3d::Circle(NmsCircle {
            thresholds: values.numbers("nms.circle_radius_m"),
            reading: match values.text("nms.circle_reading") {
                "squared_distance" => CircleThreshold::SquaredDistance,
                _ => CircleThreshold::Radius,
            },
            class_mode,
        }),
        "bev" => Nms3d::Bev(NmsBev {
            iou_thresholds,
            search_distance_m: match values.has("nms.search_distance_m") {
                true => values.number("nms.search_distance_m"),
                false => f32::INFINITY,
            },
            forbidden_pairs,
            class_mode,
        }),
        "iou_3d" => Nms3d::Iou3d(NmsIou3d { iou_thresholds, class_mode }),
        _ => Nms3d::None,
    }
}

/// Pairs of class indices, rising, each once.
fn forbidden_pairs(
    prefix: &str,
    values: &Values,
    class_names: &[String],
    problems: &mut Problems,
) -> Vec<[u32; 2]> {
    let mut pairs = Vec::new();
    for text in values.texts("nms.forbidden_pairs") {
        let of_text = pairs_of(&text, class_names);
        if of_text.is_empty() {
            let allowed =
                format!("CLASS-CLASS or CLASS-*, classes being {}", class_names.join(", "));
            problems.refuse(&format!("{prefix}nms.forbidden_pairs"), text, &allowed);
        }
        pairs.extend(of_text);
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The pairs that `A-B` or `A-*` stands for. Names may hold dashes themselves:
/// the first dash with a class on both sides counts.
fn pairs_of(text: &str, class_names: &[String]) -> Vec<[u32; 2]> {
    let index_of = |name: &str| class_names.iter().position(|class| class == name);
    for (dash, _) in text.match_indices('-') {
        let (first, second) = (&text[..dash], &text[dash + 1..]);
        let others = match (index_of(second), second) {
            (Some(other), _) => other..other + 1,
            (None, "*") => 0..class_names.len(),
            (None, _) => continue,
        };
        if let Some(class) = index_of(first) {
            return others
                .filter(|&other| other != class)
                .map(|other| [class.min(other) as u32, class.max(other) as u32])
                .collect();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_around_dashes_in_names() {
        let names = ["CAR", "E-BIKE", "BUS"].map(str::to_owned);
        for (text, pairs) in [
            ("CAR-BUS", vec![[0, 2]]),
            ("BUS-CAR", vec![[0, 2]]),
            ("E-BIKE-BUS", vec![[1, 2]]),
            ("CAR-E-BIKE", vec![[0, 1]]),
            ("BUS-*", vec![[0, 2], [1, 2]]),
            ("CAR-CAR", vec![]),
            ("CAR-VAN", vec![]),
            ("CAR", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(pairs_of(text, &names), pairs, "{text}");
        }
    }
}
