//! Fast, one-pass suppression by IoU of axis-aligned boxes.
//!
//! A box goes when any better box of its group overlaps it, also one that
//! itself goes: as YOLACT's Fast NMS and the parallel suppression of many
//! YOLO plugins. Not equal to greedy suppression, which keeps some boxes more;
//! every box kept here is kept there.
//!
//! A box goes when its IoU, as in [`nms_iou`](super::nms_iou) with offset 0,
//! is strictly above the threshold. What holds for every suppression (order,
//! ties, NaN, memory) stands in [`nms`](super::nms).

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;

use super::nms::{Workspace, check_iou_threshold};
use crate::error::Result;
use crate::types::{Box2d, Candidate, Kept, NmsFast};

/// Keeps the boxes that overlap no better one of their group, best first.
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
    cpu::nms_fast(candidates, params, workspace, keep)
}

fn check(params: &NmsFast) -> Result<()> {
    check_iou_threshold("nms_fast", params.iou_threshold)
}

#[cfg(test)]
mod tests;
