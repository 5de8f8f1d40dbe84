//! The CPU side of [`nms_rotated`](super::nms_rotated).

use super::super::nms::{Reach, Suppressors, Walk, Workspace, is_finite_rotated};
use super::super::overlap::Rectangle;
use crate::error::Result;
use crate::types::{Candidate, Kept, NmsRotated, RotatedBox2d};

pub(super) fn nms_rotated(
    candidates: &[Candidate<RotatedBox2d>],
    params: &NmsRotated,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    let takes_part = |candidate: &Candidate<RotatedBox2d>| is_finite_rotated(&candidate.bbox);
    workspace.rank("nms_rotated", candidates, &params.class_mode, takes_part)?;
    workspace.prepare_rectangles(candidates, Rectangle::new);
    let rectangles = &workspace.rectangles;
    let walk = Walk {
        ranked: &workspace.ranked,
        places: &workspace.places,
        grid: &mut workspace.grid,
        suppressors: Suppressors::Kept,
        reach: Reach::rotated(params.iou_threshold),
        max_num: usize::MAX,
    };
    walk.run(keep, |better, candidate| {
        rectangles[better].iou(&rectangles[candidate]) > params.iou_threshold
    });
    Ok(())
}
