//! The CPU side of [`nms_iou_3d`](super::nms_iou_3d).

use super::super::nms::{
    Reach, Suppressors, Walk, Workspace, check_num_thresholds, is_finite_3d, lowest, threshold_of,
};
use crate::error::Result;
use crate::types::{Candidate, Kept, NmsIou3d, Object3d};

pub(super) fn nms_iou_3d(
    candidates: &[Candidate<Object3d>],
    params: &NmsIou3d,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    let takes_part = |candidate: &Candidate<Object3d>| is_finite_3d(&candidate.bbox);
    workspace.rank("nms_iou_3d", candidates, &params.class_mode, takes_part)?;
    check_num_thresholds("nms_iou_3d", params.iou_thresholds.len(), &workspace.ranked)?;
    workspace.prepare_solids(candidates);

    let (ranked, solids) = (&workspace.ranked, &workspace.solids);
    let walk = Walk {
        ranked,
        places: &workspace.places,
        grid: &mut workspace.grid,
        suppressors: Suppressors::Kept,
        reach: Reach::rotated(lowest(&params.iou_thresholds)),
        max_num: usize::MAX,
    };
    walk.run(keep, |better, candidate| {
        let threshold = threshold_of(&params.iou_thresholds, ranked[better].class);
        solids[better].iou(&solids[candidate]) > threshold
    });
    Ok(())
}
