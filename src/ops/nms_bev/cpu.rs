//! The CPU side of [`nms_bev`](super::nms_bev).

use super::super::nms::{
    Reach, Suppressors, Walk, Workspace, check_num_thresholds, is_finite_3d, lowest, threshold_of,
};
use super::super::overlap::Rectangle;
use crate::error::Result;
use crate::types::{Candidate, Kept, NmsBev, Object3d};

pub(super) fn nms_bev(
    candidates: &[Candidate<Object3d>],
    params: &NmsBev,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    let takes_part = |candidate: &Candidate<Object3d>| is_finite_3d(&candidate.bbox);
    workspace.rank("nms_bev", candidates, &params.class_mode, takes_part)?;
    check_num_thresholds("nms_bev", params.iou_thresholds.len(), &workspace.ranked)?;
    workspace.prepare_rectangles(candidates, |object: &Object3d| {
        Rectangle::new(&object.bbox.footprint())
    });

    let (ranked, rectangles) = (&workspace.ranked, &workspace.rectangles);
    let squared_search_distance = params.search_distance_m * params.search_distance_m;
    let walk = Walk {
        ranked,
        places: &workspace.places,
        grid: &mut workspace.grid,
        suppressors: Suppressors::Kept,
        reach: Reach::rotated(lowest(&params.iou_thresholds)),
        max_num: usize::MAX,
    };
    walk.run(keep, |better, candidate| {
        let (class_better, class) = (ranked[better].class, ranked[candidate].class);
        let (a, b) = (&rectangles[better], &rectangles[candidate]);
        let (dx, dy) = (b.center[0] - a.center[0], b.center[1] - a.center[1]);
        let is_too_far = dx * dx + dy * dy > squared_search_distance;
        let is_forbidden = params
            .forbidden_pairs
            .iter()
            .any(|&[a, b]| [a, b] == [class_better, class] || [b, a] == [class_better, class]);
        !is_too_far
            && !is_forbidden
            && a.iou(b) > threshold_of(&params.iou_thresholds, class_better)
    });
    Ok(())
}
