//! Greedy suppression by IoU of axis-aligned boxes.
//!
//! Equal to mmcv's `nms` with the same `offset`, `score_threshold` and `max_num`;
//! with [`ClassMode::Aware`](det_post_types::ClassMode) to `batched_nms`, but without
//! moving the classes apart; and to ONNX's `NonMaxSuppression` within one batch and
//! class.
//!
//! A box is suppressed if `intersection / ((area_better + area) - intersection)`,
//! in f32, is strictly above the threshold. Empty boxes (right at or before left)
//! have no intersection, so that they are kept. Order, ties, NaN and memory: see
//! [`nms`](crate::nms).

#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the argument names the kernels")]
mod kernels;

use crate::nms::Workspace;
use crate::nms::geometry::AlignedBox;
use crate::nms::greedy::Suppressors;
use crate::nms::grid::Reach;
use crate::nms::lanes::MAX_WITHOUT_GRID;
use crate::nms::thresholds::{check_iou_threshold, check_offset};
use det_post_types::{Box2d, Candidate, Error, ErrorKind, Kept, NmsIou, Result};

/// Keeps the best boxes that overlap no better kept box of their group.
///
/// `keep` receives at most `max_num` survivors, best first.
///
/// # Errors
/// `Argument` for an IoU threshold outside [0, 1], an offset other than 0 and
/// 1, or a NaN score threshold.
pub fn nms_iou(
    candidates: &[Candidate<Box2d>],
    params: &NmsIou,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    let Workspace { order, boxes, .. } = workspace;
    order.rank("nms_iou", candidates, &params.class_mode, |candidate| {
        candidate.bbox.is_finite()
            && params.score_threshold.is_none_or(|threshold| candidate.score > threshold)
    })?;
    let offset = f32::from(params.offset);
    order.prepare(candidates, boxes, |bbox| AlignedBox::new(bbox, offset));
    if order.ranked.len() <= MAX_WITHOUT_GRID {
        suppress_without_grid(params, workspace, keep);
        return Ok(());
    }
    let reach = Reach::aligned(params.iou_threshold);
    order.suppress(Suppressors::Kept, reach, params.max_num, keep, |better, own| {
        better.of(boxes).iou(own.of(boxes)) > params.iou_threshold
    });
    Ok(())
}

fn suppress_without_grid(params: &NmsIou, workspace: &mut Workspace, keep: &mut Vec<Kept>) {
    // An IoU above the threshold needs about that part of either box; a tiny
    // threshold is within the rounding error.
    let min_part = if params.iou_threshold < 1e-3 { 0.0 } else { 0.99 * params.iou_threshold };
    let Workspace { order, boxes, lanes, .. } = workspace;
    keep.clear();
    lanes.clear();
    for (own, shape) in order.ranked.iter().zip(boxes.iter()) {
        if keep.len() >= params.max_num {
            break;
        }
        let is_suppressed = lanes.any(shape.bbox(), f32::from(params.offset), min_part, |rank| {
            let better = &order.ranked[rank as usize];
            better.group == own.group && better.of(boxes).iou(shape) > params.iou_threshold
        });
        if !is_suppressed {
            lanes.push(own.rank, shape);
            keep.push(Kept { index: own.index, score: own.score });
        }
    }
}

fn check(params: &NmsIou) -> Result<()> {
    check_iou_threshold("nms_iou", params.iou_threshold)?;
    check_offset("nms_iou", params.offset)?;
    if params.score_threshold.is_some_and(f32::is_nan) {
        return Err(Error::new(ErrorKind::Argument, "nms_iou", "score_threshold is NaN"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
