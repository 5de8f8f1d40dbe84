//! Greedy suppression by IoU of volumes.
//!
//! The volume two upright boxes share is the intersection of their footprints
//! (with yaw) times that of their vertical intervals. Serves as mmdet3d's
//! `aligned_3d_nms` when all yaws are 0, and as suppression by `boxes_iou3d`.
//!
//! A box goes when `shared / ((volume_better + volume) - shared)`, in f32, is
//! strictly above the threshold of the better box's class; the footprints'
//! intersection is
//! [`Rectangle::intersection`](super::overlap::Rectangle::intersection) in the
//! frame of the better box. Empty boxes (a size of zero or less) overlap
//! nothing, so they stay. What holds for every suppression (order, ties, NaN,
//! memory) stands in [`nms`](super::nms).

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;

use super::nms::{Workspace, check_iou_threshold};
use crate::error::Result;
use crate::types::{Candidate, Kept, NmsIou3d, Object3d};

/// Keeps the objects whose volume overlaps no better kept one of their group,
/// best first.
///
/// # Errors
/// `Argument` for an IoU threshold outside [0, 1], or when a class that takes
/// part has no threshold.
pub fn nms_iou_3d(
    candidates: &[Candidate<Object3d>],
    params: &NmsIou3d,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    cpu::nms_iou_3d(candidates, params, workspace, keep)
}

fn check(params: &NmsIou3d) -> Result<()> {
    params.iou_thresholds.iter().try_for_each(|&t| check_iou_threshold("nms_iou_3d", t))
}

#[cfg(test)]
mod tests;
