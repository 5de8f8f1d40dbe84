//! The reference on the CPU.

use super::ProposalOutputs;
use crate::decode::logit::exp;
use det_post_types::{
    Box3d, Candidate, Candidates, Object3d, ProposalDecode, ProposalLayout, TensorValues,
    TensorView, YawConvention,
};

/// Decodes outputs that fit the parameters.
pub(super) fn decode_proposals(
    outputs: &ProposalOutputs<TensorView<'_>>,
    params: &ProposalDecode,
    num_proposals: usize,
    candidates: &mut Candidates<Object3d>,
) {
    let (boxes, scores) = (outputs.boxes.values(), outputs.scores.values());
    let others = outputs.directions_or_labels.values();
    let at = |values, channel: usize, proposal| float(values, channel * num_proposals + proposal);
    let lowest = lowest_threshold(params);
    for proposal in 0..num_proposals {
        let (class, score) = match params.layout {
            ProposalLayout::TransFusion => {
                let num_classes = params.score_thresholds.per_class.len();
                let scores = (0..num_classes).map(|class| at(scores, class, proposal));
                let (class, score, has_nan) = first_greatest(scores);
                candidates.add_nan_scores(usize::from(has_nan));
                (Some(class), score)
            }
            ProposalLayout::BevFusion => {
                let score = float(scores, proposal);
                candidates.add_nan_scores(usize::from(score.is_nan()));
                (label(others, proposal, params), score)
            }
        };
        if !(score > 0.0 && score >= lowest) {
            continue;
        }
        let Some(class) = class else {
            candidates.add_unknown_classes(1);
            continue;
        };
        let numbers = std::array::from_fn(|channel| at(boxes, channel, proposal));
        let (direction, velocity) = match params.layout {
            ProposalLayout::TransFusion => ([0, 1].map(|i| at(others, i, proposal)), None),
            ProposalLayout::BevFusion => {
                let pair = |first| [first, first + 1].map(|i| at(boxes, i, proposal));
                (pair(6), Some(pair(8)))
            }
        };
        let raw = Raw { numbers, direction, velocity };
        if let Some((bbox, is_valid)) = raw.decode(class, score, params) {
            let candidate = Candidate { bbox, score, class, source: proposal as u32 };
            candidates.push_if_valid(candidate, is_valid);
        }
    }
}

/// The lowest threshold of any class: no score below it passes. NaN when no score does.
pub(super) fn lowest_threshold(params: &ProposalDecode) -> f32 {
    let thresholds = &params.score_thresholds;
    let classes = 0..thresholds.per_class.len() as u32;
    classes.filter_map(|class| thresholds.lowest(class)).reduce(f32::min).unwrap_or(f32::NAN)
}

/// The first class whose score no later one exceeds, its score, and whether any is NaN.
fn first_greatest(scores: impl Iterator<Item = f32>) -> (u32, f32, bool) {
    let mut best = (0, f32::NAN);
    let mut has_nan = false;
    for (class, score) in (0..).zip(scores) {
        has_nan |= score.is_nan();
        if class == 0 || score > best.1 {
            best = (class, score);
        }
    }
    (best.0, best.1, has_nan)
}

/// The label of a proposal, if it is a class of the head.
fn label(labels: TensorValues<'_>, proposal: usize, params: &ProposalDecode) -> Option<u32> {
    let num_classes = params.score_thresholds.per_class.len();
    let of_integer = |label: i64| usize::try_from(label).ok().filter(|&label| label < num_classes);
    let of_float =
        |label: f32| (label >= 0.0 && label < num_classes as f32).then_some(label as usize);
    let class = match labels {
        TensorValues::I64(labels) => of_integer(labels[proposal]),
        TensorValues::I32(labels) => of_integer(labels[proposal].into()),
        TensorValues::F64(labels) => of_float(labels[proposal] as f32),
        TensorValues::I8(labels) => of_integer(labels[proposal].into()),
        TensorValues::F32(labels) => of_float(labels[proposal]),
        TensorValues::F16(labels) => of_float(labels[proposal].to_f32()),
    };
    class.map(|class| class as u32)
}

fn float(values: TensorValues<'_>, index: usize) -> f32 {
    match values {
        TensorValues::F32(values) => values[index],
        TensorValues::F16(values) => values[index].to_f32(),
        TensorValues::I32(_)
        | TensorValues::I64(_)
        | TensorValues::F64(_)
        | TensorValues::I8(_) => f32::NAN,
    }
}

/// The numbers of a proposal as the network gives them.
struct Raw {
    /// x, y in cells, z, logarithms of length, width, height.
    numbers: [f32; 6],
    /// Sine and cosine.
    direction: [f32; 2],
    velocity: Option<[f32; 2]>,
}

impl Raw {
    /// The box and whether it is valid; `None` when the proposal does not pass.
    fn decode(&self, class: u32, score: f32, params: &ProposalDecode) -> Option<(Object3d, bool)> {
        let [x, y, z, length, width, height] = self.numbers;
        let x = x * params.cell_size_m[0] + params.origin_m[0];
        let y = y * params.cell_size_m[1] + params.origin_m[1];
        let threshold = params.score_thresholds.at_center(class, [x, y, z])?;
        let [sin, cos] = self.direction;
        let yaw_norm = (sin * sin + cos * cos).sqrt();
        let least_yaw_norm = params.yaw_norm_thresholds.get(class as usize);
        let passes = score >= threshold
            && least_yaw_norm.is_none_or(|&least| yaw_norm.is_nan() || yaw_norm >= least);
        if !passes {
            return None;
        }
        let bbox = Box3d {
            center: [x, y, z],
            length_m: exp(length),
            width_m: exp(width),
            height_m: exp(height),
            yaw_rad: YawConvention::CounterClockwise.yaw(sin, cos),
        };
        let object = Object3d { bbox, velocity_mps: self.velocity, variance: None };
        let is_finite = self.numbers.iter().chain(&self.direction).all(|number| number.is_finite());
        Some((object, is_finite && object.is_valid()))
    }
}
