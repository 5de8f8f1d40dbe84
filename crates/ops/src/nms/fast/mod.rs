//! One-pass suppression by IoU of axis-aligned boxes.
//!
//! A box is suppressed if any better box of its group overlaps it, even a
//! suppressed one, as in YOLACT's Fast NMS and the parallel suppression of many
//! YOLO plugins. Not equal to greedy suppression: the survivors are a subset of
//! the greedy ones.
//!
//! Boxes overlap if their IoU, as in [`nms_iou`](crate::nms::iou) with offset 0, is
//! strictly above the threshold. Order, ties, NaN and memory: see
//! [`nms`](crate::nms).

#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the argument names the kernels")]
mod kernels;

use crate::nms::Workspace;
use crate::nms::geometry::AlignedBox;
use crate::nms::greedy::Suppressors;
use crate::nms::grid::Reach;
use crate::nms::thresholds::check_iou_threshold;
use det_post_types::{Box2d, Candidate, Kept, NmsFast, Result};

/// Keeps the boxes that overlap no box of their group that ranks above, best
/// first.
///
/// # Errors
/// `Argument` for an IoU threshold outside [0, 1].
pub fn nms_fast(
    candidates: &[Candidate<Box2d>],
    params: &NmsFast,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    let Workspace { order, boxes, .. } = workspace;
    order.rank("nms_fast", candidates, &params.class_mode, |c| c.bbox.is_finite())?;
    order.prepare(candidates, boxes, |bbox| AlignedBox::new(bbox, 0.0));
    let reach = Reach::aligned(params.iou_threshold);
    order.suppress(Suppressors::All, reach, usize::MAX, keep, |better, own| {
        better.of(boxes).iou(own.of(boxes)) > params.iou_threshold
    });
    Ok(())
}

fn check(params: &NmsFast) -> Result<()> {
    check_iou_threshold("nms_fast", params.iou_threshold)
}

#[cfg(test)]
mod tests;
