//! Greedy suppression by IoU of rotated boxes in a plane.
//!
//! Made for the same answers as mmcv's `nms_rotated`. A box goes when
//! `intersection / ((area_better + area) - intersection)`, in f32, is strictly
//! above the threshold; the intersection is
//! [`Rectangle::intersection`](super::overlap::Rectangle::intersection) in the
//! frame of the better box. Empty boxes (a side of zero or less) overlap
//! nothing, so they stay. What holds for every suppression (order, ties, NaN,
//! memory) stands in [`nms`](super::nms).

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;

use super::nms::{Workspace, check_iou_threshold};
use crate::error::Result;
use crate::types::{Candidate, Kept, NmsRotated, RotatedBox2d};

/// Keeps the boxes that overlap no better kept one of their group, best first.
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
    cpu::nms_rotated(candidates, params, workspace, keep)
}

fn check(params: &NmsRotated) -> Result<()> {
    check_iou_threshold("nms_rotated", params.iou_threshold)
}

#[cfg(test)]
mod tests;
