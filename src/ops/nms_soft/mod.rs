//! Suppression by lowering scores (soft NMS).
//!
//! The algorithm of mmcv's `soft_nms`: the best of the remaining boxes is
//! kept, then the scores of those it overlaps fall, and so on; `keep` has the
//! order in which boxes were taken, with their scores at that moment. Linear:
//! `score * (1 - iou)` when `iou >= iou_threshold` (mmcv's comparison, not the
//! strict one of the other ops). Gaussian: `score * exp(-(iou * iou) / sigma)`.
//! A box whose score is below `min_score` goes, but never the first one taken,
//! which mmcv does not test either. Equal scores are ordered by class, then
//! source, then position, where mmcv takes what its swaps brought forward.
//!
//! The IoU is that of [`nms_iou`](super::nms_iou) and the products are f32. The
//! exponential is [`exp_f64`], additions and multiplications of f64 in a fixed
//! order, rounded to f32 once: the same bits on every device.
//!
//! A score that is negative or infinite takes no part. What else holds for every suppression (NaN,
//! memory) stands in [`nms`](super::nms).

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;

use super::nms::{Workspace, check_iou_threshold, check_offset};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Box2d, Candidate, Kept, NmsSoft, SoftDecay};

pub use cpu::exp_f64;

/// Takes the boxes in the order of their lowered scores, down to `min_score`.
///
/// # Errors
/// `Argument` for an IoU threshold outside [0, 1], a sigma that is not above
/// zero and finite, a `min_score` that is negative or NaN, or an offset other
/// than 0 and 1.
pub fn nms_soft(
    candidates: &[Candidate<Box2d>],
    params: &NmsSoft,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    cpu::nms_soft(candidates, params, workspace, keep)
}

fn check(params: &NmsSoft) -> Result<()> {
    check_offset("nms_soft", params.offset)?;
    match params.decay {
        SoftDecay::Linear { iou_threshold } => check_iou_threshold("nms_soft", iou_threshold)?,
        SoftDecay::Gaussian { sigma } if sigma > 0.0 && sigma.is_finite() => {}
        SoftDecay::Gaussian { sigma } => {
            let message = format!("sigma is {sigma}, allowed is above 0 and finite");
            return Err(Error::new(ErrorKind::Argument, "nms_soft", message));
        }
    }
    if params.min_score.is_nan() || params.min_score < 0.0 {
        let message = format!("min_score is {}, allowed is 0 or more", params.min_score);
        return Err(Error::new(ErrorKind::Argument, "nms_soft", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
