//! Greedy suppression by IoU of axis-aligned boxes.
//!
//! The answer of mmcv's `nms` with the same `offset`, `score_threshold` and
//! `max_num`; with [`ClassMode::Aware`](crate::types::ClassMode) that of
//! `batched_nms`, whose trick of moving classes apart it does without. Also
//! that of ONNX's `NonMaxSuppression` within one batch and class.
//!
//! A box goes when `intersection / ((area_better + area) - intersection)`, in
//! f32, is strictly above the threshold. Empty boxes (right at or before left)
//! overlap nothing, so they stay. What holds for every suppression (order,
//! ties, NaN, memory) stands in [`nms`](super::nms).

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;

pub(super) use cpu::{Block, MAX_WITHOUT_GRID, NUM_LANES};

use super::nms::{Workspace, check_iou_threshold, check_offset};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Box2d, Candidate, Kept, NmsIou};

/// Keeps the best boxes that overlap no better kept one of their group.
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
    cpu::nms_iou(candidates, params, workspace, keep)
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
