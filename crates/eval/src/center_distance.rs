//! Average precision by centre distance, as defined by nuScenes.
//!
//! The detections of a class in all frames form one ranking. In descending order
//! of score, each is matched to the nearest unmatched object of its class and
//! frame whose centre distance in BEV is below the threshold. Precision is
//! interpolated linearly at 101 recall positions; AP is the mean excess over a
//! precision of 0.1 beyond a recall of 0.1, scaled to 0..1. Errors are running
//! means over the matches at 2 m, interpolated by score and averaged from recall
//! 0.11 to the highest recall reached; if that is lower, they are one.
//!
//! Matching uses all truth and precedes filtering, so it is the same for every
//! filter: an object outside the filter is still matched. Source: Caesar et al., nuScenes (CVPR 2020), section 3, and the
//! published evaluation.

use super::curve::{NUM_RECALL_POINTS, Ranking, interpolate, recall_points};
use super::{Filter3d, Frame3d, GroundTruth3d, Match, Scored, Usable};
use det_post_types::Detection3d;

/// Distance thresholds of a match.
pub const THRESHOLDS_M: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// Index in [`THRESHOLDS_M`] of the threshold for errors, curves and scores: 2 m.
pub const REFERENCE: usize = 2;

/// Recall and precision up to which a curve does not contribute.
const MIN_RECALL_POINT: usize = 10;
const MIN_PRECISION: f64 = 0.1;

/// Errors of matched detections, averaged over recall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Centre distance in BEV, metres.
    pub translation_m: f64,
    /// One minus the IoU of the boxes after aligning centres and headings.
    pub scale: f64,
    /// Absolute difference of the headings, 0 to pi.
    pub heading_rad: f64,
    /// Norm of the difference of velocities; `None` when detections have none.
    pub velocity_mps: Option<f64>,
}

/// The metrics of one class with one filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Number of evaluated objects.
    pub num_truth: usize,
    /// AP at each of [`THRESHOLDS_M`]; `None` without truth.
    pub ap: Option<[f64; THRESHOLDS_M.len()]>,
    /// Errors at 2 m; `None` without truth.
    pub errors: Option<Errors>,
    /// Precision at 2 m at [`recall_points`]; zero beyond the recall reached.
    pub precision: [f64; NUM_RECALL_POINTS],
    /// The evaluated detections at 2 m, in descending order of score.
    pub scored: Vec<Scored>,
}

/// The matches of one class at every threshold, for any number of filters.
pub struct Matching<'a> {
    frames: &'a [Frame3d],
    class: u32,
    by_threshold: [Vec<Match>; THRESHOLDS_M.len()],
}

impl<'a> Matching<'a> {
    /// Matches the detections of a class.
    pub fn new(frames: &'a [Frame3d], class: u32) -> Self {
        let ranked = rank(frames, class);
        let by_threshold = THRESHOLDS_M.map(|threshold_m| match_all(frames, &ranked, threshold_m));
        Self { frames, class, by_threshold }
    }

    /// The usable detections and what they are matched to at 2 m, in descending order of score.
    pub fn matches(&self) -> &[Match] {
        &self.by_threshold[REFERENCE]
    }

    /// The metrics with a filter.
    pub fn accuracy(&self, filter: &Filter3d) -> Accuracy {
        let counts = |truth: &&GroundTruth3d| truth.class == self.class && filter.counts(truth);
        let num_truth = self.frames.iter().flat_map(|frame| &frame.truth).filter(counts).count();
        let mut by_threshold = [const { Vec::new() }; THRESHOLDS_M.len()];
        for (scored, matches) in by_threshold.iter_mut().zip(&self.by_threshold) {
            scored.extend(matches.iter().filter_map(|found| self.scored(found, filter)));
        }
        let ap = by_threshold.each_ref().map(|scored| average(&precision(scored, num_truth)));
        let [.., scored, _] = by_threshold;
        Accuracy {
            num_truth,
            ap: (num_truth > 0).then_some(ap),
            errors: (num_truth > 0).then(|| self.errors(filter, &scored, num_truth)),
            precision: precision(&scored, num_truth),
            scored,
        }
    }

    fn detection(&self, found: &Match) -> &Detection3d {
        &self.frames[found.frame].detections[found.detection]
    }

    fn truth(&self, found: &Match) -> Option<&GroundTruth3d> {
        found.truth.map(|truth| &self.frames[found.frame].truth[truth])
    }

    /// The detection as evaluated; `None` when it is ignored.
    fn scored(&self, found: &Match, filter: &Filter3d) -> Option<Scored> {
        let detection = self.detection(found);
        let is_right = match self.truth(found) {
            Some(truth) => filter.counts(truth).then_some(true),
            None => filter.is_in_range(&detection.object.bbox).then_some(false),
        };
        Some(Scored { score: detection.score, is_right: is_right? })
    }

    /// Errors of the evaluated matches at the recall positions.
    fn errors(&self, filter: &Filter3d, scored: &[Scored], num_truth: usize) -> Errors {
        let pairs: Vec<_> = self
            .matches()
            .iter()
            .filter_map(|found| Some((self.detection(found), self.truth(found)?)))
            .filter(|(_, truth)| filter.counts(truth))
            .collect();
        let recall = Ranking::new(scored.iter().map(|entry| entry.is_right), num_truth).recall;
        let scores: Vec<f64> = scored.iter().map(|entry| entry.score.into()).collect();
        let rising: Vec<f64> =
            pairs.iter().rev().map(|(detection, _)| detection.score.into()).collect();
        let score_at = recall_points().map(|at| interpolate(at, &recall, &scores, 0.0));
        // As in the original, a score of zero means that the recall is not reached.
        let last = score_at.iter().rposition(|&score| score != 0.0).unwrap_or(0);
        let over_recall = |error: &dyn Fn(&Detection3d, &GroundTruth3d) -> Option<f64>| {
            let each: Vec<Option<f64>> = pairs.iter().map(|(d, t)| error(d, t)).collect();
            if !each.is_empty() && each.iter().all(Option::is_none) {
                return None;
            }
            if pairs.is_empty() || last <= MIN_RECALL_POINT {
                return Some(1.0);
            }
            let mut means = running_means(&each);
            means.reverse();
            let last_mean = means.last().copied().unwrap_or(1.0);
            let points = &score_at[MIN_RECALL_POINT + 1..=last];
            let sum: f64 =
                points.iter().map(|&score| interpolate(score, &rising, &means, last_mean)).sum();
            Some(sum / points.len() as f64)
        };
        Errors {
            translation_m: over_recall(&|d, t| Some(distance_m(d, t))).unwrap_or(1.0),
            scale: over_recall(&|d, t| Some(1.0 - aligned_iou(d, t))).unwrap_or(1.0),
            heading_rad: over_recall(&|d, t| Some(heading_difference(d, t))).unwrap_or(1.0),
            velocity_mps: over_recall(&velocity_difference),
        }
    }
}

/// The usable detections of a class in descending order of score, as indices of
/// frame and detection.
fn rank(frames: &[Frame3d], class: u32) -> Vec<(usize, usize)> {
    let mut ranked = Vec::new();
    for (at, frame) in frames.iter().enumerate() {
        let of_class = |d: &Detection3d| d.class == class && d.is_usable();
        let indices = (0..frame.detections.len()).filter(|&d| of_class(&frame.detections[d]));
        ranked.extend(indices.map(|detection| (at, detection)));
    }
    let score = |&(frame, detection): &(usize, usize)| frames[frame].detections[detection].score;
    // The sort is stable: equal scores remain in the order of frames and lists.
    ranked.sort_by(|a, b| score(b).total_cmp(&score(a)));
    ranked
}

/// Matches each detection to the nearest unmatched object of its class.
fn match_all(frames: &[Frame3d], ranked: &[(usize, usize)], threshold_m: f64) -> Vec<Match> {
    let mut is_matched: Vec<Vec<bool>> =
        frames.iter().map(|frame| vec![false; frame.truth.len()]).collect();
    let match_one = |&(frame, detection): &(usize, usize)| {
        let found = &frames[frame].detections[detection];
        let mut nearest: Option<(usize, f64)> = None;
        for (at, truth) in frames[frame].truth.iter().enumerate() {
            if truth.class == found.class && !is_matched[frame][at] {
                let distance_m = distance_m(found, truth);
                if nearest.is_none_or(|(_, least)| distance_m < least) {
                    nearest = Some((at, distance_m));
                }
            }
        }
        let truth = nearest.filter(|&(_, distance)| distance < threshold_m).map(|(at, _)| at);
        if let Some(at) = truth {
            is_matched[frame][at] = true;
        }
        Match { frame, detection, truth }
    };
    ranked.iter().map(match_one).collect()
}

/// Precision at the recall positions, zero beyond the recall reached.
fn precision(scored: &[Scored], num_truth: usize) -> [f64; NUM_RECALL_POINTS] {
    if !scored.iter().any(|entry| entry.is_right) {
        return [0.0; NUM_RECALL_POINTS];
    }
    let ranking = Ranking::new(scored.iter().map(|entry| entry.is_right), num_truth);
    let precision = ranking.precision(0.0);
    recall_points().map(|at| interpolate(at, &ranking.recall, &precision, 0.0))
}

/// AP of a curve.
fn average(precision: &[f64; NUM_RECALL_POINTS]) -> f64 {
    let counted = &precision[MIN_RECALL_POINT + 1..];
    let above: f64 = counted.iter().map(|precision| (precision - MIN_PRECISION).max(0.0)).sum();
    above / counted.len() as f64 / (1.0 - MIN_PRECISION)
}

/// The mean of the present values up to each entry; zero before the first.
fn running_means(values: &[Option<f64>]) -> Vec<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    let mean = |value: &Option<f64>| {
        if let Some(value) = value {
            sum += value;
            count += 1.0;
        }
        if count > 0.0 { sum / count } else { 0.0 }
    };
    values.iter().map(mean).collect()
}

fn distance_m(detection: &Detection3d, truth: &GroundTruth3d) -> f64 {
    let (found, actual) = (&detection.object.bbox.center, &truth.bbox.center);
    let apart = |axis: usize| f64::from(found[axis]) - f64::from(actual[axis]);
    apart(0).hypot(apart(1))
}

/// IoU in space of the two boxes after aligning centres and headings.
fn aligned_iou(detection: &Detection3d, truth: &GroundTruth3d) -> f64 {
    let [found, actual] = [&detection.object.bbox, &truth.bbox]
        .map(|b| [b.length_m, b.width_m, b.height_m].map(f64::from));
    let common: f64 = (0..3).map(|axis| found[axis].min(actual[axis])).product();
    let volumes = found.iter().product::<f64>() + actual.iter().product::<f64>();
    common / (volumes - common)
}

/// Difference of the headings, 0 to pi.
fn heading_difference(detection: &Detection3d, truth: &GroundTruth3d) -> f64 {
    use std::f64::consts::{PI, TAU};
    let difference = f64::from(truth.bbox.yaw_rad) - f64::from(detection.object.bbox.yaw_rad);
    ((difference + PI).rem_euclid(TAU) - PI).abs()
}

fn velocity_difference(detection: &Detection3d, truth: &GroundTruth3d) -> Option<f64> {
    let found = detection.object.velocity_mps?;
    let apart = |axis: usize| f64::from(found[axis]) - f64::from(truth.velocity_mps[axis]);
    let difference = apart(0).hypot(apart(1));
    difference.is_finite().then_some(difference)
}
