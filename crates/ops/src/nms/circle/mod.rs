//! Greedy suppression by distance of centres in the bird's-eye view.
//!
//! The threshold has two published readings: Autoware's radius (suppressed if
//! `distance^2 < radius^2`) and mmdet3d's `circle_nms` (suppressed if
//! `distance^2 <= threshold`, the threshold not squared). The threshold is that of
//! the better box's class. `distance^2` is `dx * dx + dy * dy` and `radius^2` is
//! `radius * radius`, in f32. Sizes, yaw and height are ignored. Order, ties, NaN
//! and memory: see [`nms`](crate::nms).

#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the argument names the kernels")]
mod kernels;

use crate::nms::Workspace;
use crate::nms::greedy::Suppressors;
use crate::nms::grid::{Extent, Reach};
use crate::nms::thresholds::ClassThresholds;
use det_post_types::{
    Candidate, CircleThreshold, Error, ErrorKind, Kept, NmsCircle, Object3d, Result,
};

/// Keeps the objects that are not too near to a better kept object of their
/// group, best first.
///
/// # Errors
/// `Argument` for a NaN threshold, or when the class of an eligible candidate
/// has no threshold.
pub fn nms_circle(
    candidates: &[Candidate<Object3d>],
    params: &NmsCircle,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    let order = &mut workspace.order;
    order.rank("nms_circle", candidates, &params.class_mode, |c| c.bbox.bbox.is_finite())?;
    let thresholds = ClassThresholds::new("nms_circle", &params.thresholds, &order.ranked)?;
    // Circles of half the longest radius touch if one centre suppresses the other.
    let half = [0.5 * longest_radius(params); 2];
    let center = |index: u32| {
        let [x, y, _] = candidates[index as usize].bbox.bbox.center;
        [x, y]
    };
    order.extents.clear();
    order.extents.extend(order.ranked.iter().map(|r| Extent::new(center(r.index), half)));
    order.suppress(Suppressors::Kept, Reach::TOUCHING, usize::MAX, keep, |better, own| {
        let threshold = thresholds.of(better);
        let ([x_better, y_better], [x, y]) = (center(better.index), center(own.index));
        let (dx, dy) = (x - x_better, y - y_better);
        let squared_distance = dx * dx + dy * dy;
        match params.reading {
            CircleThreshold::Radius => threshold > 0.0 && squared_distance < threshold * threshold,
            CircleThreshold::SquaredDistance => squared_distance <= threshold,
        }
    });
    Ok(())
}

/// The maximum distance at which a candidate suppresses another, up to rounding; 0 if
/// none does.
fn longest_radius(params: &NmsCircle) -> f32 {
    let longest = params.thresholds.iter().fold(0.0, |longest: f32, &t| longest.max(t));
    match params.reading {
        CircleThreshold::Radius => longest,
        CircleThreshold::SquaredDistance => longest.sqrt(),
    }
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
