//! The reference on the CPU.

use super::{NUM_BOX_CHANNELS, StreamPetrOutputs};
use crate::decode::logit::{best_class, lowest_bound, sigmoid};
use crate::decode::query::object_of;
use det_post_types::{
    Candidate, Candidates, Object3d, QueryDecode, StreamPetrDecode, TensorValues, TensorView,
};

/// Decodes outputs that fit the parameters.
pub(super) fn decode_streampetr(
    outputs: &StreamPetrOutputs<TensorView<'_>>,
    params: &StreamPetrDecode,
    num_queries: usize,
    candidates: &mut Candidates<Object3d>,
) {
    let num_classes = params.query.score_thresholds.per_class.len();
    let bound = lowest_bound(&params.query.score_thresholds);
    let mut num_nan = 0;
    let strides = |num_channels| match params.channels_last {
        true => [num_channels, 1],
        false => [1, num_queries],
    };
    let logits = Channels { values: outputs.logits.values(), strides: strides(num_classes) };
    let boxes = Channels { values: outputs.boxes.values(), strides: strides(NUM_BOX_CHANNELS) };
    for query in 0..num_queries {
        let logits = (0..num_classes).map(|class| logits.at(query, class));
        let Some((class, logit)) = best_class(logits, &mut num_nan) else { continue };
        if logit < bound || bound.is_nan() {
            continue;
        }
        let numbers = std::array::from_fn(|channel| boxes.at(query, channel));
        let score = sigmoid(logit);
        if let Some((bbox, is_valid)) = decode_query(numbers, class, score, &params.query) {
            let source = query as u32;
            candidates.push_if_valid(Candidate { bbox, score, class, source }, is_valid);
        }
    }
    candidates.add_nan_scores(num_nan);
}

/// The box of a query and whether it is valid; `None` when it does not pass.
fn decode_query(
    [x, y, z, a, b, c, sin, cos, vx, vy]: [f32; NUM_BOX_CHANNELS],
    class: u32,
    score: f32,
    params: &QueryDecode,
) -> Option<(Object3d, bool)> {
    let center = [x, y, z];
    let has_center = center.iter().all(|value| value.is_finite());
    let threshold = params.score_thresholds.at_center(class, center)?;
    let yaw_norm = (sin * sin + cos * cos).sqrt();
    let least_yaw_norm = params.yaw_norm_thresholds.get(class as usize);
    let passes = score >= threshold
        && params.center_range.is_none_or(|range| !has_center || range.contains(center))
        && least_yaw_norm.is_none_or(|&least| yaw_norm.is_nan() || yaw_norm >= least);
    if !passes {
        return None;
    }
    let object = object_of(&[x, y, z, a, b, c, sin, cos, vx, vy, 0.0], params);
    let numbers = [a, b, c, sin, cos, vx, vy];
    let is_valid = object.is_valid() && numbers.iter().all(|number| number.is_finite());
    Some((object, is_valid))
}

/// An output, and the values from query to query and from channel to channel.
struct Channels<'a> {
    values: TensorValues<'a>,
    strides: [usize; 2],
}

impl Channels<'_> {
    #[inline]
    fn at(&self, query: usize, channel: usize) -> f32 {
        let index = query * self.strides[0] + channel * self.strides[1];
        match self.values {
            TensorValues::F32(values) => values[index],
            TensorValues::F16(values) => values[index].to_f32(),
            TensorValues::I32(_)
            | TensorValues::I64(_)
            | TensorValues::F64(_)
            | TensorValues::I8(_) => f32::NAN,
        }
    }
}
