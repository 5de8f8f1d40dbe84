//! Greedy suppression by IoU of rotated boxes in a plane.
//!
//! The same result as mmcv's `nms_rotated`. A box is suppressed if
//! `intersection / ((area_better + area) - intersection)`, in f32, is strictly
//! above the threshold; the intersection is
//! [`Rectangle::intersection`](crate::nms::geometry::Rectangle::intersection) in the
//! frame of the better box. Empty boxes (a side of zero or less) have no
//! intersection, so that they are kept. Order, ties, NaN and memory: see
//! [`nms`](crate::nms).

#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the argument names the kernels")]
mod kernels;

use crate::nms::Workspace;
use crate::nms::geometry::Rectangle;
use crate::nms::greedy::Suppressors;
use crate::nms::grid::Reach;
use crate::nms::thresholds::check_iou_threshold;
use det_post_types::{Candidate, Kept, NmsRotated, Result, RotatedBox2d};

/// Keeps the boxes that overlap no better kept box of their group, best first.
///
/// # Errors
/// `Argument` for an IoU threshold outside [0, 1].
pub fn nms_rotated(
    candidates: &[Candidate<RotatedBox2d>],
    params: &NmsRotated,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    let Workspace { order, rectangles, .. } = workspace;
    order.rank("nms_rotated", candidates, &params.class_mode, |c| c.bbox.is_finite())?;
    order.prepare(candidates, rectangles, Rectangle::new);
    let reach = Reach::rotated(params.iou_threshold);
    order.suppress(Suppressors::Kept, reach, usize::MAX, keep, |better, own| {
        better.of(rectangles).iou(own.of(rectangles)) > params.iou_threshold
    });
    Ok(())
}

fn check(params: &NmsRotated) -> Result<()> {
    check_iou_threshold("nms_rotated", params.iou_threshold)
}

#[cfg(test)]
mod tests;
