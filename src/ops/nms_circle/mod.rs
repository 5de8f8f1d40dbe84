//! Greedy suppression by distance of centres in the bird's-eye view.
//!
//! Two published readings of the threshold: Autoware's radius (suppressed when
//! `distance^2 < radius^2`) and mmdet3d's `circle_nms` (suppressed when
//! `distance^2 <= threshold`, the threshold not squared). The class of the
//! kept, better box decides which threshold holds. `distance^2` is
//! `dx * dx + dy * dy` and `radius^2` is `radius * radius`, in f32. Sizes, yaw
//! and height do not matter. What holds for every suppression (order, ties,
//! NaN, memory) stands in [`nms`](super::nms).

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;

use super::nms::Workspace;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Candidate, Kept, NmsCircle, Object3d};

/// Keeps the objects that are not too near to a better kept one of their
/// group, best first.
///
/// # Errors
/// `Argument` for a NaN threshold, or when a class that takes part has no
/// threshold.
pub fn nms_circle(
    candidates: &[Candidate<Object3d>],
    params: &NmsCircle,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    cpu::nms_circle(candidates, params, workspace, keep)
}

fn check(params: &NmsCircle) -> Result<()> {
    if params.thresholds.iter().any(|threshold| threshold.is_nan()) {
        let message = format!("thresholds are {:?}, NaN is not allowed", params.thresholds);
        return Err(Error::new(ErrorKind::Argument, "nms_circle", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
