//! One-pass suppression by IoU of footprints in the bird's-eye view.
//!
//! A box is suppressed if any better box of its group overlaps it, even a suppressed
//! one: the second stage of Autoware's LiDAR detectors (`NonMaximumSuppression`). Not
//! equal to greedy suppression ([`nms_bev`](crate::nms::bev)): the survivors are a subset
//! of the greedy ones.
//!
//! Boxes overlap if `intersection / union`, as in [`nms_bev`](crate::nms::bev), is
//! strictly above the threshold of the better box's class. A union below
//! [`MIN_UNION_M2`] is no overlap, as in Autoware. Two boxes are not compared if their
//! classes are a forbidden pair, or if `dx * dx + dy * dy` of their centres is above the
//! squared search distance; that distance does not apply to
//! [`NmsBevFast::unlimited_pairs`]. Order, ties, NaN and memory: see
//! [`nms`](crate::nms).

#[cfg(feature = "cuda")]
pub(super) mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use crate::nms::Workspace;
use crate::nms::geometry::Rectangle;
use crate::nms::greedy::Suppressors;
use crate::nms::grid::Reach;
use crate::nms::thresholds::{ClassThresholds, check_iou_threshold};
use det_post_types::{Candidate, Error, ErrorKind, Kept, NmsBevFast, Object3d, Result};

/// Unions below this many square metres are no overlap.
pub const MIN_UNION_M2: f32 = 0.01;

/// Keeps the objects whose footprint overlaps no object of their group that ranks above,
/// best first.
///
/// # Errors
/// `Argument` for an IoU threshold outside [0, 1], a search distance that is
/// negative or NaN, or when the class of an eligible candidate has no threshold.
pub fn nms_bev_fast(
    candidates: &[Candidate<Object3d>],
    params: &NmsBevFast,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    let Workspace { order, rectangles, .. } = workspace;
    order.rank("nms_bev_fast", candidates, &params.class_mode, |c| c.bbox.bbox.is_finite())?;
    let thresholds = ClassThresholds::new("nms_bev_fast", &params.iou_thresholds, &order.ranked)?;
    order.prepare(candidates, rectangles, |object| Rectangle::new(&object.bbox.footprint()));
    let squared_search_distance = params.search_distance_m * params.search_distance_m;
    let reach = Reach::rotated(thresholds.lowest());
    order.suppress(Suppressors::All, reach, usize::MAX, keep, |better, own| {
        let (a, b) = (better.of(rectangles), own.of(rectangles));
        let classes = [better.class, own.class];
        let (dx, dy) = (b.center[0] - a.center[0], b.center[1] - a.center[1]);
        let is_too_far = dx * dx + dy * dy > squared_search_distance
            && !contains(&params.unlimited_pairs, classes);
        !is_too_far
            && !contains(&params.forbidden_pairs, classes)
            && iou(a, b) > thresholds.of(better)
    });
    Ok(())
}

/// Whether a list has a pair of classes, in either order.
fn contains(pairs: &[[u32; 2]], [a, b]: [u32; 2]) -> bool {
    pairs.iter().any(|&pair| pair == [a, b] || pair == [b, a])
}

fn iou(a: &Rectangle, b: &Rectangle) -> f32 {
    let intersection = a.intersection(b);
    let union = (a.area + b.area) - intersection;
    if (MIN_UNION_M2..f32::INFINITY).contains(&union) { intersection / union } else { 0.0 }
}

fn check(params: &NmsBevFast) -> Result<()> {
    for &threshold in &params.iou_thresholds {
        check_iou_threshold("nms_bev_fast", threshold)?;
    }
    if params.search_distance_m.is_nan() || params.search_distance_m < 0.0 {
        let message =
            format!("search_distance_m is {}, allowed is 0 or more", params.search_distance_m);
        return Err(Error::new(ErrorKind::Argument, "nms_bev_fast", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
