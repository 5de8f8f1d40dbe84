//! The CPU side of [`nms_soft`](super::nms_soft).

use std::cmp::Reverse;

use super::super::nms::{Reach, Workspace, key};
use crate::error::Result;
use crate::types::{Box2d, Candidate, Kept, NmsSoft, SoftDecay};

/// In `met_by`: the box was taken, or was met by no box yet.
const TAKEN: u32 = u32::MAX;
const NOT_MET: u32 = u32::MAX - 1;

pub(super) fn nms_soft(
    candidates: &[Candidate<Box2d>],
    params: &NmsSoft,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    workspace.rank("nms_soft", candidates, &params.class_mode, |candidate| {
        (0.0..f32::INFINITY).contains(&candidate.score) && candidate.bbox.is_finite()
    })?;
    workspace.prepare_flats(candidates, f32::from(params.offset));
    let Workspace { ranked, places, flats, scores, met_by, queue, grid, .. } = workspace;

    let reach = match params.decay {
        SoftDecay::Linear { iou_threshold } => Reach::upright(iou_threshold),
        SoftDecay::Gaussian { .. } => Reach::TOUCHING,
    };
    let key_of = |rank: u32, score: f32| {
        let index = ranked[rank as usize].index;
        let Candidate { class, source, .. } = candidates[index as usize];
        Reverse(key(score, class, source, rank))
    };

    scores.clear();
    scores.extend(ranked.iter().map(|candidate| candidate.score));
    met_by.clear();
    met_by.resize(ranked.len(), NOT_MET);
    queue.clear();
    grid.clear(ranked.len());
    for (rank, (candidate, place)) in (0..).zip(ranked.iter().zip(places.iter())) {
        queue.push(key_of(rank, candidate.score));
        grid.insert(rank, candidate.group, place);
    }

    keep.clear();
    while let Some(queued) = queue.pop() {
        let taken = queued.0 as u32;
        let (candidate, score) = (ranked[taken as usize], scores[taken as usize]);
        // Scores fall without touching the queue: an outdated place is put right
        // when its turn comes.
        let current = key_of(taken, score);
        if current != queued {
            queue.push(current);
            continue;
        }
        if score < params.min_score && !keep.is_empty() {
            break;
        }
        keep.push(Kept { index: candidate.index, score });
        met_by[taken as usize] = TAKEN;
        grid.any(candidate.group, &places[taken as usize], reach, |other| {
            let other_rank = other as usize;
            // A neighbour may be found more than once, and falls once.
            let is_new = met_by[other_rank] != TAKEN && met_by[other_rank] != taken;
            if is_new && ranked[other_rank].group == candidate.group {
                met_by[other_rank] = taken;
                let iou = flats[taken as usize].iou(&flats[other_rank]);
                scores[other_rank] *= weight(params.decay, iou);
            }
            false
        });
    }
    Ok(())
}

/// What a score is multiplied with after meeting a better box.
fn weight(decay: SoftDecay, iou: f32) -> f32 {
    match decay {
        SoftDecay::Linear { iou_threshold } if iou >= iou_threshold => 1.0 - iou,
        SoftDecay::Linear { .. } => 1.0,
        SoftDecay::Gaussian { sigma } => exp_f64(f64::from(-(iou * iou) / sigma)) as f32,
    }
}

/// `exp(x)` for `x` of zero or less, by additions and multiplications of f64
/// in a fixed order; 0 below -700.
pub fn exp_f64(x: f64) -> f64 {
    use std::f64::consts::{LN_2, LOG2_E};

    if x < -700.0 {
        return 0.0;
    }
    let powers = (x * LOG2_E + 0.5).floor();
    let rest = x - powers * LN_2;
    // Horner's form of the Taylor series: on [-ln 2 / 2, ln 2 / 2] the first
    // term left out is below 1e-14.
    let series = (1..=11).rev().fold(1.0, |sum, n| 1.0 + rest * sum / f64::from(n));
    series * f64::from_bits(((1023 + powers as i64) as u64) << 52)
}
