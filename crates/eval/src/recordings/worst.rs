//! The frames in which detections and truth differ most.

use std::slice::from_ref;

use super::filters::Filters;
use super::pair::Paired;
use crate::center_distance::Matching;
use crate::{Frame, Frame2d, Frame3d, GroundTruth2d, GroundTruth3d, image};
use det_post_types::{Box3d, Detection2d, Detection3d, ImageBox, Stamp};

/// Number of frames that are kept of a sensor.
const NUM_KEPT: usize = 10;

/// What became of an object or a detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The two belong together.
    Matched,
    /// A miss, or a false detection.
    Unmatched,
    /// It does not count.
    Ignored,
}

/// A box in the plane of an image: pixels of the image or, from above, metres to the right and
/// backwards.
pub(super) struct Outline {
    pub(super) corners: [[f64; 2]; 4],
    /// Centre and front of a box in space.
    pub(super) heading: Option<[[f64; 2]; 2]>,
    pub(super) class: u32,
    /// Of a detection; truth has none.
    pub(super) score: Option<f32>,
    pub(super) fate: Fate,
}

/// One of the worst frames.
pub(super) struct WorstFrame {
    /// Index of its drive.
    pub(super) drive: usize,
    pub(super) stamp: Stamp,
    /// Missed objects and the scores of false detections, added up.
    pub(super) error: f64,
    /// Truth, then detections.
    pub(super) outlines: Vec<Outline>,
}

/// The plane in which boxes are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Plane {
    Image,
    Above,
}

/// The worst frames of a sensor, worst first; frames without an error are left out.
pub(super) struct WorstFrames {
    pub(super) plane: Plane,
    pub(super) frames: Vec<WorstFrame>,
}

/// The fates in a frame, in the order of its lists.
struct Fates {
    truth: Vec<Fate>,
    detections: Vec<Fate>,
}

impl WorstFrames {
    pub(super) fn in_space(
        paired: &Paired<GroundTruth3d, Detection3d>,
        classes: &[(&str, u32)],
        filters: &Filters,
    ) -> Self {
        let fates = |frame: &Frame3d| fates_in_space(frame, classes, filters);
        let outlines = |frame: &Frame3d, fates: &Fates| {
            let truth = frame.truth.iter().zip(&fates.truth);
            let truth = truth.map(|(t, &fate)| from_above(&t.bbox, t.class, None, fate));
            let found = frame.detections.iter().zip(&fates.detections);
            let found =
                found.map(|(d, &fate)| from_above(&d.object.bbox, d.class, Some(d.score), fate));
            truth.chain(found).collect()
        };
        let frames = worst(paired, fates, |detection| detection.score, outlines);
        Self { plane: Plane::Above, frames }
    }

    pub(super) fn in_images(
        paired: &Paired<GroundTruth2d, Detection2d<ImageBox>>,
        classes: &[(&str, u32)],
        filters: &Filters,
    ) -> Self {
        let fates = |frame: &Frame2d| fates_in_image(frame, classes, filters);
        let outlines = |frame: &Frame2d, fates: &Fates| {
            let truth = frame.truth.iter().zip(&fates.truth);
            let truth = truth.map(|(t, &fate)| in_image(&t.bbox, t.class, None, fate));
            let found = frame.detections.iter().zip(&fates.detections);
            let found = found.map(|(d, &fate)| in_image(&d.bbox, d.class, Some(d.score), fate));
            truth.chain(found).collect()
        };
        let frames = worst(paired, fates, |detection| detection.score, outlines);
        Self { plane: Plane::Image, frames }
    }
}

/// The worst frames, the first of equals first.
fn worst<T, D>(
    paired: &Paired<T, D>,
    fates: impl Fn(&Frame<T, D>) -> Fates,
    score: impl Fn(&D) -> f32,
    outlines: impl Fn(&Frame<T, D>, &Fates) -> Vec<Outline>,
) -> Vec<WorstFrame> {
    let error = |frame: &Frame<T, D>| {
        let Fates { truth, detections } = fates(frame);
        let num_missed = truth.iter().filter(|&&fate| fate == Fate::Unmatched).count();
        let wrong = frame.detections.iter().zip(&detections);
        let wrong = wrong.filter(|&(_, &fate)| fate == Fate::Unmatched);
        num_missed as f64 + wrong.map(|(found, _)| f64::from(score(found))).sum::<f64>()
    };
    let mut ranked: Vec<(usize, f64)> =
        paired.frames.iter().map(error).enumerate().filter(|&(_, error)| error > 0.0).collect();
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranked.truncate(NUM_KEPT);
    let frame = |(at, error): (usize, f64)| WorstFrame {
        drive: paired.drives[at],
        stamp: paired.stamps[at],
        error,
        outlines: outlines(&paired.frames[at], &fates(&paired.frames[at])),
    };
    ranked.into_iter().map(frame).collect()
}

fn fates_in_space(frame: &Frame3d, classes: &[(&str, u32)], filters: &Filters) -> Fates {
    let filter = filters.in_space();
    let counts: Vec<bool> = frame.truth.iter().map(|truth| filter.counts(truth)).collect();
    let mut fates = Fates::new(&counts, frame.detections.len());
    for &(_, class) in classes {
        for found in Matching::new(from_ref(frame), class).matches() {
            let bbox = &frame.detections[found.detection].object.bbox;
            fates.settle(found.detection, found.truth, &counts, filter.is_in_range(bbox));
        }
    }
    fates
}

fn fates_in_image(frame: &Frame2d, classes: &[(&str, u32)], filters: &Filters) -> Fates {
    let filter = filters.in_images();
    let counts: Vec<bool> = frame.truth.iter().map(|truth| filter.counts(truth)).collect();
    let mut fates = Fates::new(&counts, frame.detections.len());
    for &(_, class) in classes {
        for found in image::matches(frame, class, &filter) {
            let bbox = &frame.detections[found.detection].bbox;
            fates.settle(found.detection, found.truth, &counts, filter.has_height(bbox));
        }
    }
    fates
}

impl Fates {
    /// Truth that counts is missed and no detection counts, until they are matched.
    fn new(counts: &[bool], num_detections: usize) -> Self {
        let of_truth = |&counts: &bool| if counts { Fate::Unmatched } else { Fate::Ignored };
        Self {
            truth: counts.iter().map(of_truth).collect(),
            detections: vec![Fate::Ignored; num_detections],
        }
    }

    /// Notes a detection and what it is matched to; `is_inside` says whether it counts by itself.
    fn settle(&mut self, detection: usize, truth: Option<usize>, counts: &[bool], is_inside: bool) {
        self.detections[detection] = match truth {
            Some(truth) if counts[truth] => {
                self.truth[truth] = Fate::Matched;
                Fate::Matched
            }
            None if is_inside => Fate::Unmatched,
            Some(_) | None => Fate::Ignored,
        };
    }
}

fn in_image(bbox: &ImageBox, class: u32, score: Option<f32>, fate: Fate) -> Outline {
    let corners = bbox.corners().map(|corner| corner.map(f64::from));
    Outline { corners, heading: None, class, score, fate }
}

fn from_above(bbox: &Box3d, class: u32, score: Option<f32>, fate: Fate) -> Outline {
    let [x, y, _] = bbox.center.map(f64::from);
    let (sin, cos) = f64::from(bbox.yaw_rad).sin_cos();
    let [length, width] = [bbox.length_m, bbox.width_m].map(f64::from);
    let at = |forward: f64, left: f64| {
        let (forward, left) = (0.5 * forward * length, 0.5 * left * width);
        [-(y + sin * forward + cos * left), -(x + cos * forward - sin * left)]
    };
    let corners = [at(1.0, 1.0), at(1.0, -1.0), at(-1.0, -1.0), at(-1.0, 1.0)];
    Outline { corners, heading: Some([at(0.0, 0.0), at(1.5, 0.0)]), class, score, fate }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Box2d;

    fn bbox(at: f32) -> ImageBox {
        Box2d::new(at, 0.0, at + 40.0, 30.0).into()
    }

    fn truth(at: f32, visibility: f32) -> GroundTruth2d {
        GroundTruth2d { class: 0, bbox: bbox(at), visibility }
    }

    fn found(at: f32, score: f32) -> Detection2d<ImageBox> {
        Detection2d { class: 0, score, bbox: bbox(at) }
    }

    /// Misses and confident false detections make a frame bad; what does not count, does not.
    #[test]
    fn frames_are_ranked_by_misses_and_confident_false_detections() {
        let frames = [
            (vec![truth(0.0, 1.0)], vec![found(1.0, 0.9)]),
            (vec![truth(0.0, 1.0)], vec![found(0.0, 0.9), found(300.0, 0.3)]),
            (vec![truth(0.0, 1.0), truth(100.0, 1.0)], vec![found(0.0, 0.9)]),
            (vec![truth(0.0, 0.1)], vec![found(0.0, 0.9)]),
            (vec![truth(0.0, 1.0)], vec![found(300.0, 0.8)]),
        ];
        let paired = Paired {
            name: "camera".into(),
            detections: "/found".into(),
            truth: "/truth".into(),
            frame_id: "camera".into(),
            frames: frames
                .into_iter()
                .map(|(truth, detections)| Frame { truth, detections })
                .collect(),
            parts: Vec::new(),
            stamps: (0..5).map(Stamp::from_nanos).collect(),
            drives: vec![0; 5],
            num_truth_without_detections: 0,
            num_detections_without_truth: 0,
        };
        let worst = WorstFrames::in_images(&paired, &[("car", 0)], &Filters::default());
        let order: Vec<_> = worst.frames.iter().map(|f| (f.stamp.nanos(), f.error)).collect();
        let expected = [(4, 1.0 + f64::from(0.8_f32)), (2, 1.0), (1, f64::from(0.3_f32))];
        assert_eq!(order, expected);
        let fates: Vec<_> = worst.frames[2].outlines.iter().map(|outline| outline.fate).collect();
        assert_eq!(fates, [Fate::Matched, Fate::Matched, Fate::Unmatched]);
    }

    /// x is ahead and up in the image, y is to the left.
    #[test]
    fn boxes_are_seen_from_above() {
        let bbox = Box3d {
            center: [10.0, 2.0, 0.0],
            length_m: 4.0,
            width_m: 2.0,
            height_m: 1.0,
            yaw_rad: 0.0,
        };
        let Outline { corners, heading, .. } = from_above(&bbox, 0, None, Fate::Ignored);
        assert_eq!(corners, [[-3.0, -12.0], [-1.0, -12.0], [-1.0, -8.0], [-3.0, -8.0]]);
        assert_eq!(heading, Some([[-2.0, -10.0], [-2.0, -13.0]]));
    }
}
