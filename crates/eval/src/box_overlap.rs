//! Average precision by IoU of boxes, as defined by KITTI, with 40 recall
//! positions (R40).
//!
//! First, every object is matched to the detection with the highest score among
//! those that overlap it by more than the minimum of the class; the scores closest
//! to recalls of 1/40, 2/40, … become thresholds. At each threshold every object
//! is matched to the unmatched detection with the largest overlap, and precision is
//! computed from the remaining detections. AP is the mean over positions 1 to 40 of
//! the maximum precision from there on; positions that are not reached are zero.
//! Overlap is the IoU of rotated boxes, in BEV or in space.
//!
//! Position 0 uses a threshold but does not contribute to the mean: with fewer
//! objects than [`MIN_NUM_TRUTH`], AP is below one even for perfect detections.
//!
//! The filter replaces KITTI's difficulties: truth outside it may be matched but
//! is ignored, and a detection outside its range is treated as one that is too
//! small in the original. Source: Geiger et al., KITTI
//! (CVPR 2012), Simonelli et al. (ICCV 2019) for R40, and the published
//! evaluation.

use super::overlap::{Overlap3d, overlap_3d};
use super::{Filter3d, Frame3d, Usable};

/// Number of recall positions in the mean.
const NUM_POSITIONS: usize = 40;

/// Minimum number of objects for which AP can be one.
pub const MIN_NUM_TRUTH: usize = NUM_POSITIONS + 1;

/// The overlap that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// IoU of footprints.
    Bev,
    /// IoU of boxes in space.
    Space,
}

/// The objects and detections of one class in one frame.
struct ClassFrame {
    /// Indices of the objects in the truth of the frame.
    truth: Vec<usize>,
    /// Indices of the detections in the frame.
    detections: Vec<usize>,
    /// Indexed by object, then by detection.
    overlaps: Vec<Vec<Overlap3d>>,
}

/// The overlaps of one class in all frames, for any number of filters.
pub struct Overlaps<'a> {
    frames: &'a [Frame3d],
    of_class: Vec<ClassFrame>,
}

/// One frame with one kind of overlap and one filter.
struct Scene {
    /// Indexed by object, then by detection.
    overlaps: Vec<Vec<f64>>,
    truth_counts: Vec<bool>,
    detection_counts: Vec<bool>,
    scores: Vec<f32>,
}

/// Counts at one threshold.
#[derive(Default)]
struct Tally {
    num_true: usize,
    num_false: usize,
}

impl<'a> Overlaps<'a> {
    /// Computes all overlaps of a class.
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

    /// AP with a filter. Matches have an overlap above `min_overlap`. `None`
    /// without truth.
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
            scenes.iter().for_each(|scene| scene.count(min_overlap, threshold, &mut tally));
            *slot = tally.num_true as f64 / (tally.num_true + tally.num_false).max(1) as f64;
        }
        super::curve::envelope(&mut precision);
        Some(precision[1..].iter().sum::<f64>() / NUM_POSITIONS as f64)
    }
}

fn scene(frame: &Frame3d, of_class: &ClassFrame, view: View, filter: &Filter3d) -> Scene {
    let detections = || of_class.detections.iter().map(|&at| &frame.detections[at]);
    let of_view = |overlap: &Overlap3d| match view {
        View::Bev => overlap.bev,
        View::Space => overlap.space,
    };
    Scene {
        overlaps: of_class.overlaps.iter().map(|row| row.iter().map(of_view).collect()).collect(),
        truth_counts: of_class.truth.iter().map(|&at| filter.counts(&frame.truth[at])).collect(),
        detection_counts: detections().map(|d| filter.is_in_range(&d.object.bbox)).collect(),
        scores: detections().map(|d| d.score).collect(),
    }
}

impl Scene {
    /// Scores of the detections that objects are matched to by highest score.
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

    /// Counts true and false positives from a score threshold on.
    fn count(&self, min_overlap: f64, threshold: f32, tally: &mut Tally) {
        let mut is_free: Vec<bool> = self.scores.iter().map(|&score| score >= threshold).collect();
        for (overlaps, counts) in self.overlaps.iter().zip(&self.truth_counts) {
            let fits = |at: &usize| is_free[*at] && overlaps[*at] > min_overlap;
            let counted = (0..overlaps.len()).filter(|at| fits(at) && self.detection_counts[*at]);
            // The largest overlap, the first of equals.
            let most =
                counted.reduce(|most, at| if overlaps[at] > overlaps[most] { at } else { most });
            let taken = most.or_else(|| (0..overlaps.len()).find(fits));
            let Some(taken) = taken else { continue };
            is_free[taken] = false;
            tally.num_true += usize::from(*counts && self.detection_counts[taken]);
        }
        let left = is_free.iter().zip(&self.detection_counts);
        tally.num_false += left.filter(|&(&free, &counts)| free && counts).count();
    }
}

/// The scores whose recalls are closest to the positions; at most one more than
/// there are positions.
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
