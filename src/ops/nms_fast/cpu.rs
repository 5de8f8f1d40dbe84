//! The CPU side of [`nms_fast`](super::nms_fast).

use super::super::nms::{Reach, Suppressors, Walk, Workspace};
use crate::error::Result;
use crate::types::{Box2d, Candidate, Kept, NmsFast};

pub(super) fn nms_fast(
    candidates: &[Candidate<Box2d>],
    params: &NmsFast,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    let takes_part = |candidate: &Candidate<Box2d>| candidate.bbox.is_finite();
    workspace.rank("nms_fast", candidates, &params.class_mode, takes_part)?;
    workspace.prepare_flats(candidates, 0.0);
    let flats = &workspace.flats;
    let walk = Walk {
        ranked: &workspace.ranked,
        places: &workspace.places,
        grid: &mut workspace.grid,
        suppressors: Suppressors::All,
        reach: Reach::upright(params.iou_threshold),
        max_num: usize::MAX,
    };
    walk.run(keep, |better, candidate| flats[better].iou(&flats[candidate]) > params.iou_threshold);
    Ok(())
}
