//! The reference on the CPU.

use std::f32::consts::PI;

use super::AnchorOutputs;
use crate::decode::logit::{best_class, exp, lowest_bound, sigmoid};
use det_post_types::{
    Anchor, AnchorDecode, Box3d, Candidate, Candidates, Object3d, TensorValues, TensorView,
};

/// Decodes maps of `height` x `width` cells that fit the parameters.
pub(super) fn decode_anchor(
    outputs: &AnchorOutputs<TensorView<'_>>,
    params: &AnchorDecode,
    [height, width]: [usize; 2],
    candidates: &mut Candidates<Object3d>,
) {
    let num_classes = params.anchors.len();
    let bound = lowest_bound(&params.score_thresholds);
    let mut num_nan = 0;
    let head = Head::new(outputs, params, [height, width]);
    for cell in 0..height * width {
        for anchor in 0..head.num_anchors {
            let logits = (0..num_classes).map(|class| head.classes.at(cell, anchor, class));
            let Some((class, logit)) = best_class(logits, &mut num_nan) else { continue };
            if logit < bound || bound.is_nan() {
                continue;
            }
            let bbox = head.box_of(cell, anchor, params);
            let score = sigmoid(logit);
            let least = params.score_thresholds.at_center(class, bbox.center);
            if least.is_some_and(|least| score >= least) {
                let bbox = Object3d { bbox, velocity_mps: None, variance: None };
                let source = (cell * head.num_anchors + anchor) as u32;
                let is_valid = bbox.is_valid();
                candidates.push_if_valid(Candidate { bbox, score, class, source }, is_valid);
            }
        }
    }
    candidates.add_nan_scores(num_nan);
}

fn decode_box(
    anchor: &Anchor,
    position: [f32; 3],
    rotation_rad: f32,
    [x, y, z, l, w, h, r]: [f32; 7],
) -> Box3d {
    let [length, width, height] = anchor.size_m;
    let diagonal = (length * length + width * width).sqrt();
    Box3d {
        center: [x * diagonal + position[0], y * diagonal + position[1], z * height + position[2]],
        length_m: exp(l) * length,
        width_m: exp(w) * width,
        height_m: exp(h) * height,
        yaw_rad: r + rotation_rad,
    }
}

/// The yaw or its opposite, whichever the direction classifier selects.
fn turn_towards(yaw_rad: f32, offset_rad: f32, second: bool) -> f32 {
    let yaw_rad = remainder(yaw_rad - offset_rad, PI) + offset_rad;
    if second { yaw_rad + PI } else { yaw_rad }
}

/// An angle reduced to [0, period).
fn remainder(angle: f32, period: f32) -> f32 {
    angle - (angle / period).floor() * period
}

/// The outputs and the positions of their anchors.
struct Head<'a> {
    classes: Map<'a>,
    boxes: Map<'a>,
    directions: Option<Map<'a>>,
    num_anchors: usize,
    width: usize,
    x_of: Centers,
    y_of: Centers,
}

impl<'a> Head<'a> {
    fn new(
        outputs: &AnchorOutputs<TensorView<'a>>,
        params: &AnchorDecode,
        [height, width]: [usize; 2],
    ) -> Self {
        let num_anchors = params.anchors.len() * params.rotations_rad.len();
        let map = |view: TensorView<'a>, per_anchor| {
            let channels = num_anchors * per_anchor;
            let strides = if params.channels_last { [channels, 1] } else { [1, height * width] };
            Map { values: view.values(), per_anchor, strides }
        };
        Self {
            classes: map(outputs.classes, params.anchors.len()),
            boxes: map(outputs.boxes, 7),
            directions: outputs.directions.map(|view| map(view, 2)),
            num_anchors,
            width,
            x_of: Centers::new(params, 0, width),
            y_of: Centers::new(params, 1, height),
        }
    }

    /// The box of an anchor; its yaw is NaN if a direction is.
    fn box_of(&self, cell: usize, index: usize, params: &AnchorDecode) -> Box3d {
        let num_rotations = params.rotations_rad.len();
        let anchor = params.anchors[index / num_rotations];
        let position =
            [self.x_of.at(cell % self.width), self.y_of.at(cell / self.width), anchor.center_z_m];
        let residuals = std::array::from_fn(|i| self.boxes.at(cell, index, i));
        let rotation_rad = params.rotations_rad[index % num_rotations];
        let mut bbox = decode_box(&anchor, position, rotation_rad, residuals);
        if let Some(directions) = &self.directions {
            let [first, second] = [0, 1].map(|i| directions.at(cell, index, i));
            bbox.yaw_rad = match first.partial_cmp(&second) {
                Some(order) => {
                    turn_towards(bbox.yaw_rad, params.direction_offset_rad, order.is_lt())
                }
                None => f32::NAN,
            };
        }
        bbox.yaw_rad = remainder(bbox.yaw_rad + PI, 2.0 * PI) - PI;
        bbox
    }
}

/// The positions of the cells' anchors along an axis.
pub(super) struct Centers {
    pub(super) first: f32,
    pub(super) step: f32,
}

impl Centers {
    pub(super) fn new(params: &AnchorDecode, axis: usize, num: usize) -> Self {
        let [min, max] = [params.range.min[axis], params.range.max[axis]];
        if params.align_center {
            let step = (max - min) / num as f32;
            Self { first: min + step * 0.5, step }
        } else {
            Self { first: min, step: (max - min) / num.saturating_sub(1).max(1) as f32 }
        }
    }

    fn at(&self, index: usize) -> f32 {
        index as f32 * self.step + self.first
    }
}

/// One output, with `per_anchor` channels per anchor.
struct Map<'a> {
    values: TensorValues<'a>,
    per_anchor: usize,
    /// Values from cell to cell and from channel to channel.
    strides: [usize; 2],
}

impl Map<'_> {
    #[inline]
    fn at(&self, cell: usize, anchor: usize, channel: usize) -> f32 {
        let channel = anchor * self.per_anchor + channel;
        let index = cell * self.strides[0] + channel * self.strides[1];
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
