//! Average precision by overlap of boxes, as KITTI defines it, with 40 recall
//! positions (R40).
//!
//! First every object takes, of the detections that overlap it by more than
//! the class asks, the one of the highest score; of these scores, those that
//! come nearest to recalls of 1/40, 2/40, … become thresholds. At each
//! threshold every object takes the free detection that overlaps it most, and
//! precision is what is right of what is left. AP is the mean over positions 1
//! to 40 of the best precision from there on; positions that are not reached
//! are zero. Overlap is intersection over union of turned boxes, from above
//! (BEV) or in space.
//!
//! Position 0 takes a threshold and does not count: of fewer objects than
//! [`MIN_NUM_TRUTH`] even perfect detections do not reach one.
//!
//! In place of KITTI's difficulties stands the filter: truth outside it may
//! take a detection and counts for nothing, a detection outside its range is
//! like one that is too small in the original. Source: Geiger et al., KITTI
//! (CVPR 2012), Simonelli et al. (ICCV 2019) for R40, and the published
//! evaluation.

use super::overlap::{Overlap3d, overlap_3d};
use super::{Filter3d, Frame3d, Usable};

/// Recall positions that count.
const NUM_POSITIONS: usize = 40;

/// The fewest objects of which AP can reach one.
pub const MIN_NUM_TRUTH: usize = NUM_POSITIONS + 1;

/// What overlaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Footprints, from above.
    Bev,
    /// Boxes in space.
    Space,
}

/// Everything of one class in one frame.
struct ClassFrame {
    /// Places of the objects in the frame's truth.
    truth: Vec<usize>,
    /// Places of the detections in the frame.
    detections: Vec<usize>,
    /// By object, then by detection.
    overlaps: Vec<Vec<Overlap3d>>,
}

/// Overlaps of one class in all frames, for any number of filters.
pub struct Overlaps<'a> {
    frames: &'a [Frame3d],
    of_class: Vec<ClassFrame>,
}

/// One frame as one view and one filter see it.
struct Scene {
    /// By object, then by detection.
    overlaps: Vec<Vec<f64>>,
    truth_counts: Vec<bool>,
    detection_counts: Vec<bool>,
    scores: Vec<f32>,
}

/// What happened at one threshold.
#[derive(Default)]
struct Tally {
    num_right: usize,
    num_wrong: usize,
}

impl<'a> Overlaps<'a> {
    /// Measures all overlaps of a class.
    pub fn new(frames: &'a [Frame3d], class: u32) -> Self {
        let of_frame = |frame: &Frame3d| {
            let truth: Vec<usize> =
                (0..frame.truth.len()).filter(|&at| frame.truth[at].class == class).collect();
            let is_of_class = |at: &usize| {
                let detection = &frame.detections[*at];
                detection.class == class && detection.is_usable()
            };
            let detections: Vec<usize> = (0..frame.detections.len()).filter(is_of_class).collect();
            let overlap = |t: usize, d: usize| {
                overlap_3d(&frame.detections[d].object.bbox, &frame.truth[t].bbox)
            };
            let overlaps =
                truth.iter().map(|&t| detections.iter().map(|&d| overlap(t, d)).collect());
            ClassFrame { overlaps: overlaps.collect(), truth, detections }
        };
        Self { frames, of_class: frames.iter().map(of_frame).collect() }
    }

    /// AP inside a filter; an overlap must be larger than `min_overlap`.
    /// `None` without truth.
    pub fn average_precision(
        &self,
        view: View,
        min_overlap: f64,
        filter: &Filter3d,
    ) -> Option<f64> {
        let scenes: Vec<Scene> = self
            .frames
            .iter()
            .zip(&self.of_class)
            .map(|(frame, of_class)| scene(frame, of_class, view, filter))
            .collect();
        let counted = scenes.iter().flat_map(|scene| &scene.truth_counts).filter(|&&counts| counts);
        let num_truth = counted.count();
        if num_truth == 0 {
            return None;
        }
        let scores = scenes.iter().flat_map(|scene| scene.recalled_scores(min_overlap)).collect();
        let mut precision = [0.0; NUM_POSITIONS + 1];
        for (slot, threshold) in precision.iter_mut().zip(thresholds(scores, num_truth)) {
            let mut tally = Tally::default();
            scenes.iter().for_each(|scene| scene.judge(min_overlap, threshold, &mut tally));
            *slot = tally.num_right as f64 / (tally.num_right + tally.num_wrong).max(1) as f64;
        }
        super::curve::envelope(&mut precision);
        Some(precision[1..].iter().sum::<f64>() / NUM_POSITIONS as f64)
    }
}

fn scene(frame: &Frame3d, of_class: &ClassFrame, view: View, filter: &Filter3d) -> Scene {
    let detections = || of_class.detections.iter().map(|&at| &frame.detections[at]);
    let seen = |overlap: &Overlap3d| match view {
        View::Bev => overlap.bev,
        View::Space => overlap.space,
    };
    Scene {
        overlaps: of_class.overlaps.iter().map(|row| row.iter().map(seen).collect()).collect(),
        truth_counts: of_class.truth.iter().map(|&at| filter.counts(&frame.truth[at])).collect(),
        detection_counts: detections().map(|d| filter.is_in_range(&d.object.bbox)).collect(),
        scores: detections().map(|d| d.score).collect(),
    }
}

impl Scene {
    /// Scores of the detections that objects take when the best score wins.
    fn recalled_scores(&self, min_overlap: f64) -> Vec<f32> {
        let mut is_taken = vec![false; self.scores.len()];
        let mut recalled = Vec::new();
        for (overlaps, counts) in self.overlaps.iter().zip(&self.truth_counts) {
            let mut best: Option<usize> = None;
            for (at, &overlap) in overlaps.iter().enumerate() {
                let is_free = !is_taken[at] && overlap > min_overlap;
                if is_free && best.is_none_or(|best| self.scores[at] > self.scores[best]) {
                    best = Some(at);
                }
            }
            let Some(best) = best else { continue };
            is_taken[best] = true;
            if *counts && self.detection_counts[best] {
                recalled.push(self.scores[best]);
            }
        }
        recalled
    }

    /// Counts what is right and wrong from a score on.
    fn judge(&self, min_overlap: f64, threshold: f32, tally: &mut Tally) {
        let mut is_free: Vec<bool> = self.scores.iter().map(|&score| score >= threshold).collect();
        for (overlaps, counts) in self.overlaps.iter().zip(&self.truth_counts) {
            let fits = |at: &usize| is_free[*at] && overlaps[*at] > min_overlap;
            let counted = (0..overlaps.len()).filter(|at| fits(at) && self.detection_counts[*at]);
            // The most overlap, the first of equals.
            let most =
                counted.reduce(|most, at| if overlaps[at] > overlaps[most] { at } else { most });
            let taken = most.or_else(|| (0..overlaps.len()).find(fits));
            let Some(taken) = taken else { continue };
            is_free[taken] = false;
            tally.num_right += usize::from(*counts && self.detection_counts[taken]);
        }
        let left = is_free.iter().zip(&self.detection_counts);
        tally.num_wrong += left.filter(|&(&free, &counts)| free && counts).count();
    }
}

/// The scores at which recall comes nearest to each position; at most one more
/// than there are positions.
fn thresholds(mut scores: Vec<f32>, num_truth: usize) -> Vec<f32> {
    scores.sort_by(|a, b| b.total_cmp(a));
    let mut thresholds = Vec::new();
    let mut wanted = 0.0;
    for (at, &score) in scores.iter().enumerate() {
        let recall = |num: usize| num as f64 / num_truth as f64;
        let is_last = at + 1 == scores.len();
        let (here, next) = (recall(at + 1), recall(if is_last { at + 1 } else { at + 2 }));
        if !is_last && next - wanted < wanted - here {
            continue;
        }
        thresholds.push(score);
        wanted += 1.0 / NUM_POSITIONS as f64;
    }
    thresholds
}
