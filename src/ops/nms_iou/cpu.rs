//! The CPU side of [`nms_iou`](super::nms_iou).

use multiversion::multiversion;

use super::super::nms::{Ranked, Reach, Suppressors, Walk, Workspace};
use super::super::overlap::Flat;
use crate::error::Result;
use crate::types::{Box2d, Candidate, Kept, NmsIou};

/// Up to this many boxes, looking at all kept ones, many at a time, takes less
/// than the grid.
pub(in crate::ops) const MAX_WITHOUT_GRID: usize = 1024;
/// Kept boxes that are looked at together.
pub(in crate::ops) const NUM_LANES: usize = 16;

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
    let Workspace { ranked, flats, blocks, .. } = workspace;
    if ranked.len() <= MAX_WITHOUT_GRID {
        without_grid(params, ranked, flats, blocks, keep);
        return Ok(());
    }
    let walk = Walk {
        ranked,
        places: &workspace.places,
        grid: &mut workspace.grid,
        suppressors: Suppressors::Kept,
        reach: Reach::upright(params.iou_threshold),
        max_num: params.max_num,
    };
    walk.run(keep, |better, candidate| flats[better].iou(&flats[candidate]) > params.iou_threshold);
    Ok(())
}

/// Kept boxes side by side; places not yet taken hold empty boxes.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ops) struct Block {
    x1: [f32; NUM_LANES],
    y1: [f32; NUM_LANES],
    x2: [f32; NUM_LANES],
    y2: [f32; NUM_LANES],
    area: [f32; NUM_LANES],
    rank: [u32; NUM_LANES],
}

fn without_grid(
    params: &NmsIou,
    ranked: &[Ranked],
    flats: &[Flat],
    blocks: &mut Vec<Block>,
    keep: &mut Vec<Kept>,
) {
    // An IoU above the threshold needs about that part of either box; rounding
    // weighs more than a tiny threshold.
    let min_part = if params.iou_threshold < 1e-3 { 0.0 } else { 0.99 * params.iou_threshold };
    let offset = f32::from(params.offset);
    keep.clear();
    blocks.clear();
    for (rank, (candidate, flat)) in ranked.iter().zip(flats).enumerate() {
        if keep.len() >= params.max_num {
            break;
        }
        let suppresses = |better: u32| {
            ranked[better as usize].group == candidate.group
                && flats[better as usize].iou(flat) > params.iou_threshold
        };
        let mut first = 0;
        let goes = loop {
            let Some(found) = first_overlapping(&blocks[first..], flat.bbox(), offset, min_part)
            else {
                break false;
            };
            first += found;
            if blocks[first].rank.iter().any(|&better| suppresses(better)) {
                break true;
            }
            first += 1;
        };
        if goes {
            continue;
        }
        let lane = keep.len() % NUM_LANES;
        if lane == 0 {
            // Lanes not yet taken repeat the newcomer, which is harmless.
            blocks.push(Block { rank: [rank as u32; NUM_LANES], ..Block::default() });
        }
        if let Some(block) = blocks.last_mut() {
            let bbox = flat.bbox();
            (block.x1[lane], block.y1[lane]) = (bbox.x1, bbox.y1);
            (block.x2[lane], block.y2[lane]) = (bbox.x2, bbox.y2);
            (block.area[lane], block.rank[lane]) = (flat.area(), rank as u32);
        }
        keep.push(Kept { index: candidate.index, score: candidate.score });
    }
}

/// The first block with a box of which more than `min_part` is shared.
#[multiversion(targets("x86_64+avx2"))]
fn first_overlapping(blocks: &[Block], bbox: &Box2d, offset: f32, min_part: f32) -> Option<usize> {
    blocks.iter().position(|block| {
        let mut overlaps = 0_u32;
        for lane in 0..NUM_LANES {
            let width = (block.x2[lane].min(bbox.x2) - block.x1[lane].max(bbox.x1)) + offset;
            let height = (block.y2[lane].min(bbox.y2) - block.y1[lane].max(bbox.y1)) + offset;
            let shared = width.max(0.0) * height.max(0.0);
            overlaps |= u32::from(shared > min_part * block.area[lane]);
        }
        overlaps != 0
    })
}
