//! The CPU side of [`nms_iou`](super::nms_iou).

use super::super::nms::{Reach, Suppressors, Walk, Workspace};
use crate::error::Result;
use crate::types::{Box2d, Candidate, Kept, NmsIou};

pub(super) fn nms_iou(
    candidates: &[Candidate<Box2d>],
    params: &NmsIou,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    workspace.rank("nms_iou", candidates, &params.class_mode, |candidate| {
        candidate.bbox.is_finite()
            && params.score_threshold.is_none_or(|threshold| candidate.score > threshold)
    })?;
    workspace.prepare_flats(candidates, f32::from(params.offset));
    let flats = &workspace.flats;
    let walk = Walk {
        ranked: &workspace.ranked,
        places: &workspace.places,
        grid: &mut workspace.grid,
        suppressors: Suppressors::Kept,
        reach: Reach::upright(params.iou_threshold),
        max_num: params.max_num,
    };
    walk.run(keep, |better, candidate| flats[better].iou(&flats[candidate]) > params.iou_threshold);
    Ok(())
}
