//! Greedy suppression by IoU of footprints in the bird's-eye view.
//!
//! The footprint is the box seen from above, with its yaw; heights do not
//! matter. Serves as mmcv's `nms3d`, as the rotated suppression of CenterPoint
//! and, with a search distance and forbidden pairs, as that of Autoware's
//! LiDAR detectors. Autoware lets a box that itself goes still suppress others;
//! this op does not.
//!
//! A box goes when `intersection / ((area_better + area) - intersection)`, in
//! f32, is strictly above the threshold of the better box's class; the
//! intersection is
//! [`Rectangle::intersection`](super::overlap::Rectangle::intersection) in the
//! frame of the better box. Two boxes do not meet when their centres'
//! `dx * dx + dy * dy` is above the squared search distance. Empty footprints
//! (a side of zero or less) overlap nothing, so they stay. What holds for every
//! suppression (order, ties, NaN, memory) stands in [`nms`](super::nms).

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;

use super::nms::{Workspace, check_iou_threshold};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Candidate, Kept, NmsBev, Object3d};

/// Keeps the objects whose footprint overlaps no better kept one of their
/// group, best first.
///
/// # Errors
/// `Argument` for an IoU threshold outside [0, 1], a search distance that is
/// negative or NaN, or when a class that takes part has no threshold.
pub fn nms_bev(
    candidates: &[Candidate<Object3d>],
    params: &NmsBev,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    cpu::nms_bev(candidates, params, workspace, keep)
}

fn check(params: &NmsBev) -> Result<()> {
    for &threshold in &params.iou_thresholds {
        check_iou_threshold("nms_bev", threshold)?;
    }
    if params.search_distance_m.is_nan() || params.search_distance_m < 0.0 {
        let message =
            format!("search_distance_m is {}, allowed is 0 or more", params.search_distance_m);
        return Err(Error::new(ErrorKind::Argument, "nms_bev", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
