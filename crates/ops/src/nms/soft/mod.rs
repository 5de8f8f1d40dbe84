//! Suppression by lowering scores (soft NMS).
//!
//! The algorithm of mmcv's `soft_nms`: the best of the remaining boxes is kept, then
//! the scores of those it overlaps fall, and so on. `keep` receives the boxes in the
//! order in which they were kept, with their scores at that moment. Linear:
//! `score * (1 - iou)` if `iou >= iou_threshold` (mmcv's comparison, not the strict
//! one of the other ops). Gaussian: `score * exp(-(iou * iou) / sigma)`. Boxes whose
//! score decays below `min_score` are dropped, except the top box, as in mmcv. Equal
//! scores are ordered by class, then source, then position; in mmcv by its swaps.
//!
//! The IoU is that of [`nms_iou`](crate::nms::iou) and the products are f32. The
//! exponential is [`exp_f64`], additions and multiplications of f64 in a fixed
//! order, rounded to f32 once: the same bits on every device.
//!
//! Candidates with a negative or infinite score are not eligible. Other eligibility
//! and memory: see [`nms`](crate::nms).

#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the argument names the kernels")]
mod kernels;

use std::cmp::Reverse;

use crate::nms::Workspace;
use crate::nms::geometry::AlignedBox;
use crate::nms::greedy::{Order, sort_key};
use crate::nms::grid::Reach;
use crate::nms::thresholds::{check_iou_threshold, check_offset};
use det_post_types::{Box2d, Candidate, Error, ErrorKind, Kept, NmsSoft, Result, SoftDecay};

/// In `lowered_by`: kept already; not lowered yet.
const KEPT: u32 = u32::MAX;
const NOT_LOWERED: u32 = u32::MAX - 1;

/// Keeps boxes in the order of their lowered scores, down to `min_score`.
///
/// # Errors
/// `Argument` for an IoU threshold outside [0, 1], a sigma that is not above
/// zero and finite, a `min_score` that is negative or NaN, or an offset other
/// than 0 and 1.
pub fn nms_soft(
    candidates: &[Candidate<Box2d>],
    params: &NmsSoft,
    workspace: &mut Workspace,
    keep: &mut Vec<Kept>,
) -> Result<()> {
    check(params)?;
    let Workspace { order, boxes, scores, lowered_by, queue, .. } = workspace;
    order.rank("nms_soft", candidates, &params.class_mode, |candidate| {
        (0.0..f32::INFINITY).contains(&candidate.score) && candidate.bbox.is_finite()
    })?;
    let offset = f32::from(params.offset);
    order.prepare(candidates, boxes, |bbox| AlignedBox::new(bbox, offset));
    let Order { ranked, extents, grid, .. } = order;

    let reach = match params.decay {
        SoftDecay::Linear { iou_threshold } => Reach::aligned(iou_threshold),
        SoftDecay::Gaussian { .. } => Reach::TOUCHING,
    };
    let key_of = |rank: u32, score: f32| {
        let index = ranked[rank as usize].index;
        let Candidate { class, source, .. } = candidates[index as usize];
        Reverse(sort_key(score, class, source, rank))
    };

    scores.clear();
    scores.extend(ranked.iter().map(|candidate| candidate.score));
    lowered_by.clear();
    lowered_by.resize(ranked.len(), NOT_LOWERED);
    queue.clear();
    grid.clear(ranked.len());
    for (candidate, extent) in ranked.iter().zip(extents.iter()) {
        queue.push(key_of(candidate.rank, candidate.score));
        grid.insert(candidate.rank, candidate.group, extent);
    }

    keep.clear();
    while let Some(queued) = queue.pop() {
        let rank = queued.0 as u32;
        let (candidate, score) = (ranked[rank as usize], scores[rank as usize]);
        // The queue is not updated when scores fall: an entry with an outdated
        // score is queued again.
        let current = key_of(rank, score);
        if current != queued {
            queue.push(current);
            continue;
        }
        if score < params.min_score && !keep.is_empty() {
            break;
        }
        keep.push(Kept { index: candidate.index, score });
        lowered_by[rank as usize] = KEPT;
        grid.any(candidate.group, &extents[rank as usize], reach, |other| {
            let other_rank = other as usize;
            // A neighbour may be found more than once; it is lowered once.
            let is_new = lowered_by[other_rank] != KEPT && lowered_by[other_rank] != rank;
            if is_new && ranked[other_rank].group == candidate.group {
                lowered_by[other_rank] = rank;
                let iou = boxes[rank as usize].iou(&boxes[other_rank]);
                scores[other_rank] *= weight(params.decay, iou);
            }
            false
        });
    }
    Ok(())
}

fn check(params: &NmsSoft) -> Result<()> {
    check_offset("nms_soft", params.offset)?;
    match params.decay {
        SoftDecay::Linear { iou_threshold } => check_iou_threshold("nms_soft", iou_threshold)?,
        SoftDecay::Gaussian { sigma } if sigma > 0.0 && sigma.is_finite() => {}
        SoftDecay::Gaussian { sigma } => {
            let message = format!("sigma is {sigma}, allowed is above 0 and finite");
            return Err(Error::new(ErrorKind::Argument, "nms_soft", message));
        }
    }
    if params.min_score.is_nan() || params.min_score < 0.0 {
        let message = format!("min_score is {}, allowed is 0 or more", params.min_score);
        return Err(Error::new(ErrorKind::Argument, "nms_soft", message));
    }
    Ok(())
}

/// The factor of a score, given the IoU with the kept box.
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

#[cfg(test)]
mod tests;
