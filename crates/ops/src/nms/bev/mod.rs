//! Greedy suppression by IoU of footprints in the bird's-eye view.
//!
//! The footprint is the box seen from above, with its yaw; heights are ignored.
//! Corresponds to mmcv's `nms3d` and to the rotated suppression of CenterPoint; with
//! a search distance and forbidden pairs to that of Autoware's LiDAR detectors,
//! except that there a suppressed box still suppresses others
//! ([`nms_bev_fast`](crate::nms::bev_fast)).
//!
//! A box is suppressed if `intersection / ((area_better + area) - intersection)`,
//! in f32, is strictly above the threshold of the better box's class; the
//! intersection is
//! [`Rectangle::intersection`](crate::nms::geometry::Rectangle::intersection) in the
//! frame of the better box. Boxes whose centres' `dx * dx + dy * dy` is above the
//! squared search distance do not suppress each other. Empty footprints (a side of
//! zero or less) have no intersection, so that they are kept. Order, ties, NaN and
//! memory: see [`nms`](crate::nms).

#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the argument names the kernels")]
mod kernels;

use crate::nms::Workspace;
use crate::nms::geometry::Rectangle;
use crate::nms::greedy::Suppressors;
use crate::nms::grid::Reach;
use crate::nms::thresholds::{ClassThresholds, check_iou_threshold};
use det_post_types::{Candidate, Error, ErrorKind, Kept, NmsBev, Object3d, Result};

/// Keeps the objects whose footprint overlaps no better kept object of their
/// group, best first.
///
/// # Errors
/// `Argument` for an IoU threshold outside [0, 1], a search distance that is
/// negative or NaN, or when the class of an eligible candidate has no threshold.
pub fn nms_bev(
    candidates: &[Candidate<Object3d>],
    params: &NmsBev,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    let Workspace { order, rectangles, .. } = workspace;
    order.rank("nms_bev", candidates, &params.class_mode, |c| c.bbox.bbox.is_finite())?;
    let thresholds = ClassThresholds::new("nms_bev", &params.iou_thresholds, &order.ranked)?;
    order.prepare(candidates, rectangles, |object| Rectangle::new(&object.bbox.footprint()));
    let squared_search_distance = params.search_distance_m * params.search_distance_m;
    let reach = Reach::rotated(thresholds.lowest());
    order.suppress(Suppressors::Kept, reach, usize::MAX, keep, |better, own| {
        let (a, b) = (better.of(rectangles), own.of(rectangles));
        let (dx, dy) = (b.center[0] - a.center[0], b.center[1] - a.center[1]);
        let is_too_far = dx * dx + dy * dy > squared_search_distance;
        let is_pair = |&[a, b]: &[u32; 2]| {
            [a, b] == [better.class, own.class] || [b, a] == [better.class, own.class]
        };
        let is_forbidden = params.forbidden_pairs.iter().any(is_pair);
        !is_too_far && !is_forbidden && a.iou(b) > thresholds.of(better)
    });
    Ok(())
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
