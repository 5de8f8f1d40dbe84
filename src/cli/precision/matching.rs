//! Detections of two runs, matched.

use super::parts::{self, Part};
use det_post_ops::nms::geometry::{iou_2d, iou_3d, rotated_iou};
use det_post_types::{Box2d, Box3d, Detections, RotatedBox2d};

/// The least IoU of partners.
pub(super) const MIN_IOU: f32 = 0.5;
/// The largest difference between the scores of partners that are the same, and the distance from
/// the score threshold within which a detection may be found by one run only.
pub(super) const SCORE_TOLERANCE: f32 = 0.05;

/// A detection.
#[derive(Clone, Debug)]
pub(super) struct Found {
    class: u32,
    score: f32,
    shape: Shape,
    part: Part,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Aligned(Box2d),
    Rotated(RotatedBox2d),
    Space(Box3d),
}

/// The detections of a frame.
pub(super) fn found(detections: &Detections<'_>) -> Vec<Found> {
    let of = |class, score, shape, part| Found { class, score, shape, part };
    match detections {
        Detections::Boxes2d(list)
        | Detections::Masked2d(list, _)
        | Detections::Keypoints2d(list, _) => (0..)
            .zip(list.iter())
            .map(|(at, found)| {
                let shape = Shape::Aligned(found.bbox);
                of(found.class, found.score, shape, Part::of(detections, at))
            })
            .collect(),
        Detections::RotatedBoxes2d(list) => list
            .iter()
            .map(|found| of(found.class, found.score, Shape::Rotated(found.bbox), Part::None))
            .collect(),
        Detections::Boxes3d(list) => list
            .iter()
            .map(|found| of(found.class, found.score, Shape::Space(found.object.bbox), Part::None))
            .collect(),
    }
}

impl Found {
    /// The diagonal of an aligned box.
    fn diagonal(&self) -> f32 {
        match &self.shape {
            Shape::Aligned(of) => (of.x2 - of.x1).hypot(of.y2 - of.y1),
            _ => 0.0,
        }
    }

    fn iou(&self, other: &Self) -> f32 {
        match (&self.shape, &other.shape) {
            (Shape::Aligned(a), Shape::Aligned(b)) => iou_2d(a, b, 0.0),
            (Shape::Rotated(a), Shape::Rotated(b)) => rotated_iou(a, b),
            (Shape::Space(a), Shape::Space(b)) => iou_3d(a, b),
            _ => 0.0,
        }
    }

    /// The largest difference of an edge, or of the centre and a side.
    fn distance(&self, other: &Self) -> f32 {
        let numbers = |shape: &Shape| -> Vec<f32> {
            match shape {
                Shape::Aligned(of) => vec![of.x1, of.y1, of.x2, of.y2],
                Shape::Rotated(of) => vec![of.cx, of.cy, of.width, of.height],
                Shape::Space(of) => {
                    let [x, y, z] = of.center;
                    vec![x, y, z, of.length_m, of.width_m, of.height_m]
                }
            }
        };
        let (ours, others) = (numbers(&self.shape), numbers(&other.shape));
        ours.iter().zip(&others).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }
}

/// What became of the detections of all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Matches {
    score_threshold: f32,
    /// Frames that both runs have.
    pub(super) num_frames: usize,
    /// Frames that one run dropped.
    pub(super) num_dropped_once: usize,
    /// Detections with 32-bit floats, and with 16-bit floats.
    pub(super) num: [usize; 2],
    pub(super) num_matched: usize,
    /// With 32-bit floats only, with 16-bit floats only.
    pub(super) num_unmatched: [usize; 2],
    /// Of these, at the score threshold.
    pub(super) num_at_threshold: usize,
    /// Partners whose scores are further apart than [`SCORE_TOLERANCE`].
    pub(super) num_other_scores: usize,
    /// Partners whose masks, and whose keypoints, differ.
    pub(super) num_other_masks: usize,
    pub(super) num_other_keypoints: usize,
    /// Partners with another score, mask or keypoint.
    num_matched_apart: usize,
    pub(super) largest_score_difference: f32,
    /// In pixels or metres.
    pub(super) largest_box_difference: f32,
    pub(super) least_iou: f32,
    /// Of the masks of partners; `None` without masks.
    pub(super) least_mask_iou: Option<f32>,
    /// Between keypoints of partners, in diagonals of the box; `None` without keypoints.
    pub(super) largest_keypoint_distance: Option<f32>,
    pub(super) is_in_space: bool,
}

impl Matches {
    pub(super) fn new(score_threshold: f32) -> Self {
        Self { score_threshold, least_iou: 1.0, ..Self::default() }
    }

    /// Adds a frame. Partners have one class; pairs of the largest IoU come first, then those that
    /// are earlier in the order of the detections.
    pub(super) fn add(&mut self, wide: &[Found], half: &[Found]) {
        let mut pairs = Vec::new();
        for (at, a) in wide.iter().enumerate() {
            for (other, b) in half.iter().enumerate().filter(|(_, b)| b.class == a.class) {
                let iou = a.iou(b);
                if iou >= MIN_IOU {
                    pairs.push((iou, at, other));
                }
            }
        }
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut has_partner = [vec![false; wide.len()], vec![false; half.len()]];
        for (iou, at, other) in pairs {
            if has_partner[0][at] || has_partner[1][other] {
                continue;
            }
            (has_partner[0][at], has_partner[1][other]) = (true, true);
            let (a, b) = (&wide[at], &half[other]);
            let scores = (a.score - b.score).abs();
            let has_other_score = scores > SCORE_TOLERANCE;
            let has_other_part = self.add_parts(a, b);
            self.num_matched += 1;
            self.num_other_scores += usize::from(has_other_score);
            self.num_matched_apart += usize::from(has_other_score || has_other_part);
            self.largest_score_difference = self.largest_score_difference.max(scores);
            self.largest_box_difference = self.largest_box_difference.max(a.distance(b));
            self.least_iou = self.least_iou.min(iou);
        }
        for (side, list) in [wide, half].into_iter().enumerate() {
            self.num[side] += list.len();
            for (of, _) in list.iter().zip(&has_partner[side]).filter(|(_, has)| !**has) {
                self.num_unmatched[side] += 1;
                let is_close = of.score < self.score_threshold + SCORE_TOLERANCE;
                self.num_at_threshold += usize::from(is_close);
            }
            self.is_in_space |= list.iter().any(|of| matches!(of.shape, Shape::Space(_)));
        }
        self.num_frames += 1;
    }

    /// Adds masks and keypoints of partners. Returns whether they differ.
    fn add_parts(&mut self, a: &Found, b: &Found) -> bool {
        match (&a.part, &b.part) {
            (Part::Mask(a), Part::Mask(b)) => {
                let iou = parts::mask_iou(a.as_ref(), b.as_ref());
                let is_other = iou < parts::MIN_MASK_IOU;
                self.num_other_masks += usize::from(is_other);
                self.least_mask_iou = Some(self.least_mask_iou.map_or(iou, |of| of.min(iou)));
                is_other
            }
            (Part::Keypoints(of), Part::Keypoints(others)) => {
                let parts::Moved { largest, is_other } = parts::moved(of, others, a.diagonal());
                self.num_other_keypoints += usize::from(is_other);
                let most = self.largest_keypoint_distance.map_or(largest, |of| of.max(largest));
                self.largest_keypoint_distance = Some(most);
                is_other
            }
            _ => false,
        }
    }

    /// Detections that differ by more than what a threshold explains.
    pub(super) fn num_apart(&self) -> usize {
        self.num_unmatched.iter().sum::<usize>() - self.num_at_threshold + self.num_matched_apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(class: u32, score: f32, x: f32) -> Found {
        let bbox = Box2d { x1: x, y1: 0.0, x2: x + 10.0, y2: 10.0 };
        Found { class, score, shape: Shape::Aligned(bbox), part: Part::None }
    }

    /// With a keypoint at a column.
    fn posed(score: f32, x: f32, visible: f32) -> Found {
        let part = Part::Keypoints(vec![det_post_types::Keypoint { x, y: 5.0, score: visible }]);
        Found { part, ..aligned(0, score, 0.0) }
    }

    fn matched(wide: &[Found], half: &[Found]) -> Matches {
        let mut matches = Matches::new(0.3);
        matches.add(wide, half);
        matches
    }

    #[test]
    fn partners_have_one_class_and_the_largest_overlap() {
        let none = matched(&[], &[]);
        assert_eq!((none.num_frames, none.num, none.num_apart()), (1, [0, 0], 0));

        let all = matched(
            &[aligned(0, 0.9, 0.0), aligned(0, 0.8, 1.0)],
            &[aligned(0, 0.8, 1.0), aligned(0, 0.875, 0.5)],
        );
        assert_eq!((all.num_matched, all.num_unmatched, all.num_apart()), (2, [0, 0], 0));
        assert_eq!((all.largest_score_difference, all.largest_box_difference), (0.9 - 0.875, 0.5));

        // Another class; too far; at the threshold; another score.
        let other = matched(&[aligned(0, 0.9, 0.0)], &[aligned(1, 0.9, 0.0)]);
        assert_eq!((other.num_matched, other.num_unmatched, other.num_apart()), (0, [1, 1], 2));
        let far = matched(&[aligned(0, 0.9, 0.0)], &[aligned(0, 0.9, 6.0)]);
        assert_eq!((far.num_unmatched, far.num_apart()), ([1, 1], 2));
        let close = matched(&[aligned(0, 0.34, 0.0)], &[]);
        assert_eq!(
            (close.num_unmatched, close.num_at_threshold, close.num_apart()),
            ([1, 0], 1, 0)
        );
        let lower = matched(&[aligned(0, 0.9, 0.0)], &[aligned(0, 0.8, 0.0)]);
        assert_eq!((lower.num_matched, lower.num_other_scores, lower.num_apart()), (1, 1, 1));
    }

    #[test]
    fn ties_are_one_to_one_and_nan_has_no_partner() {
        let two = [aligned(0, 0.9, 0.0), aligned(0, 0.9, 0.0)];
        let tied = matched(&two, &two[..1]);
        assert_eq!((tied.num_matched, tied.num_unmatched), (1, [1, 0]));
        let nan = matched(&[aligned(0, 0.9, f32::NAN)], &[aligned(0, 0.9, f32::NAN)]);
        assert_eq!((nan.num_matched, nan.num_unmatched), (0, [1, 1]));
    }

    #[test]
    fn a_detection_differs_once() {
        // The diagonal is 14.1 pixels.
        let near = matched(&[posed(0.9, 5.0, 0.9)], &[posed(0.9, 5.5, 0.9)]);
        assert_eq!((near.num_other_keypoints, near.num_apart()), (0, 0));
        assert!(near.largest_keypoint_distance.is_some_and(|of| (of - 0.0354).abs() < 1e-3));
        assert_eq!(near.least_mask_iou, None);
        let far = matched(&[posed(0.9, 5.0, 0.9)], &[posed(0.8, 6.0, 0.9)]);
        let nums = (far.num_other_keypoints, far.num_other_scores, far.num_apart());
        assert_eq!(nums, (1, 1, 1), "score and keypoint of one detection");
    }

    #[test]
    fn boxes_in_space_are_matched() {
        let bbox = |x: f32| Box3d {
            center: [x, 0.0, 0.0],
            length_m: 4.0,
            width_m: 2.0,
            height_m: 1.5,
            yaw_rad: 0.1,
        };
        let of = |x| Found { class: 0, score: 0.5, shape: Shape::Space(bbox(x)), part: Part::None };
        let found = matched(&[of(1.0)], &[of(1.125)]);
        assert_eq!((found.num_matched, found.largest_box_difference), (1, 0.125));
        assert!(found.is_in_space && found.least_iou < 1.0);
    }
}
