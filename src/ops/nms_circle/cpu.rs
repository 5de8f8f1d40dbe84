//! The CPU side of [`nms_circle`](super::nms_circle).

use super::super::nms::{
    Place, Reach, Suppressors, Walk, Workspace, check_num_thresholds, is_finite_3d, threshold_of,
};
use crate::error::Result;
use crate::types::{Candidate, CircleThreshold, Kept, NmsCircle, Object3d};

pub(super) fn nms_circle(
    candidates: &[Candidate<Object3d>],
    params: &NmsCircle,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    let takes_part = |candidate: &Candidate<Object3d>| is_finite_3d(&candidate.bbox);
    workspace.rank("nms_circle", candidates, &params.class_mode, takes_part)?;
    check_num_thresholds("nms_circle", params.thresholds.len(), &workspace.ranked)?;

    let longest = params.thresholds.iter().fold(0.0, |longest: f32, &t| longest.max(t));
    let radius = match params.reading {
        CircleThreshold::Radius => longest,
        CircleThreshold::SquaredDistance => longest.sqrt(),
    };
    // Circles of half the longest radius touch wherever two centres can meet.
    let half = [0.5 * radius; 2];
    workspace.places.clear();
    workspace.places.extend(workspace.ranked.iter().map(|ranked| {
        let [x, y, _] = candidates[ranked.index as usize].bbox.bbox.center;
        Place::new([x, y], half)
    }));

    let ranked = &workspace.ranked;
    let walk = Walk {
        ranked,
        places: &workspace.places,
        grid: &mut workspace.grid,
        suppressors: Suppressors::Kept,
        reach: Reach::TOUCHING,
        max_num: usize::MAX,
    };
    walk.run(keep, |better, candidate| {
        let threshold = threshold_of(&params.thresholds, ranked[better].class);
        let [x_better, y_better, _] = candidates[ranked[better].index as usize].bbox.bbox.center;
        let [x, y, _] = candidates[ranked[candidate].index as usize].bbox.bbox.center;
        let (dx, dy) = (x - x_better, y - y_better);
        let squared_distance = dx * dx + dy * dy;
        match params.reading {
            CircleThreshold::Radius => threshold > 0.0 && squared_distance < threshold * threshold,
            CircleThreshold::SquaredDistance => squared_distance <= threshold,
        }
    });
    Ok(())
}
