//! Greedy suppression by IoU of volumes.
//!
//! The intersection of two upright boxes is that of their footprints, with yaw,
//! times that of their vertical intervals. Corresponds to mmdet3d's
//! `aligned_3d_nms` if all yaws are 0, and to suppression by `boxes_iou3d`.
//!
//! A box is suppressed if `shared / ((volume_better + volume) - shared)`, in f32,
//! is strictly above the threshold of the better box's class; the intersection of
//! the footprints is
//! [`Rectangle::intersection`](crate::nms::geometry::Rectangle::intersection) in the
//! frame of the better box. Empty boxes (a size of zero or less) have no
//! intersection, so that they are kept. Order, ties, NaN and memory: see
//! [`nms`](crate::nms).

#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the argument names the kernels")]
mod kernels;

use crate::nms::Workspace;
use crate::nms::geometry::Solid;
use crate::nms::greedy::Suppressors;
use crate::nms::grid::Reach;
use crate::nms::thresholds::{ClassThresholds, check_iou_threshold};
use det_post_types::{Candidate, Kept, NmsIou3d, Object3d, Result};

/// Keeps the objects whose volume overlaps no better kept object of their group,
/// best first.
///
/// # Errors
/// `Argument` for an IoU threshold outside [0, 1], or when the class of an
/// eligible candidate has no threshold.
pub fn nms_iou_3d(
    candidates: &[Candidate<Object3d>],
    params: &NmsIou3d,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    let Workspace { order, solids, .. } = workspace;
    order.rank("nms_iou_3d", candidates, &params.class_mode, |c| c.bbox.bbox.is_finite())?;
    let thresholds = ClassThresholds::new("nms_iou_3d", &params.iou_thresholds, &order.ranked)?;
    order.prepare(candidates, solids, |object| Solid::new(&object.bbox));
    let reach = Reach::rotated(thresholds.lowest());
    order.suppress(Suppressors::Kept, reach, usize::MAX, keep, |better, own| {
        better.of(solids).iou(own.of(solids)) > thresholds.of(better)
    });
    Ok(())
}

fn check(params: &NmsIou3d) -> Result<()> {
    params.iou_thresholds.iter().try_for_each(|&t| check_iou_threshold("nms_iou_3d", t))
}

#[cfg(test)]
mod tests;
