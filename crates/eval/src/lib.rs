//! Accuracy of detections against ground truth, by the definitions of nuScenes,
//! KITTI and COCO.
//!
//! | file | metric | definition |
//! |---|---|---|
//! | `center_distance.rs` | AP at 0.5, 1, 2, 4 m; errors of translation, scale, heading, velocity | nuScenes |
//! | `box_overlap.rs` | AP by IoU in BEV and in space, 40 recall positions | KITTI |
//! | `image.rs` | AP50, AP75, AP over 0.50:0.95, 101 recall positions; of boxes, masks, keypoints | COCO |
//! | `parts.rs` | overlap of masks, similarity of keypoints (OKS) | COCO |
//! | `calibration.rs` | calibration of scores | reliability diagram, ten bins |
//! | `recordings/` | all of these for recordings of detections and truth | |
//!
//! `docs/evaluation.md` states the definitions and the deviations from them.
//!
//! **Filters.** Truth outside a filter and detections that are matched to it are
//! ignored: they are neither false negatives nor false positives. Unmatched
//! detections outside the filter's range or heights are ignored as well.
//!
//! **Order.** Detections are ranked by descending score, equal scores in the
//! order of the frames and of the lists in them, so results are reproducible.
//! Detections with a score or box that is not finite are ignored and counted by
//! [`num_unusable_3d`] and [`num_unusable_2d`].
//!
//! **Absent truth.** The metrics of a class without truth inside the filter are
//! `None`, and means omit it. With truth and without detections, AP is zero and
//! nuScenes' errors are one.
//!
//! All computations are in `f64`. Lengths are in metres, angles in radians, boxes
//! in an image in pixels. Boxes in space are in the frame of the sensor; ranges
//! are measured from its origin.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod box_overlap;
pub mod calibration;
pub mod center_distance;
mod curve;
pub mod draw;
pub mod image;
mod overlap;
pub mod parts;
pub mod recordings;

pub use curve::{NUM_RECALL_POINTS, recall_points};

use det_post_types::{Box2d, Box3d, Detection2d, Detection3d, Evidence, ImageBox};

/// An object in space, of the ground truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroundTruth3d {
    /// Class index, in the same table as the detections'.
    pub class: u32,
    /// Its box.
    pub bbox: Box3d,
    /// Velocity over ground along x and y of the sensor's frame.
    pub velocity_mps: [f32; 2],
    /// Its points or its pixels.
    pub evidence: Evidence,
    /// The fraction of it that is not occluded.
    pub visibility: f32,
}

/// An object in an image, of the ground truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroundTruth2d {
    /// Class index, in the same table as the detections'.
    pub class: u32,
    /// Its box.
    pub bbox: ImageBox,
    /// The fraction of it that is not occluded.
    pub visibility: f32,
}

/// Ground truth and detections at one stamp of one sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame<T, D> {
    /// Ground truth.
    pub truth: Vec<T>,
    /// Detections of all classes and scores, in any order.
    pub detections: Vec<D>,
}

impl<T, D> Default for Frame<T, D> {
    fn default() -> Self {
        Self { truth: Vec::new(), detections: Vec::new() }
    }
}

/// A frame of a LiDAR.
pub type Frame3d = Frame<GroundTruth3d, Detection3d>;

/// A frame of a camera.
pub type Frame2d = Frame<GroundTruth2d, Detection2d<ImageBox>>;

/// Selects the objects in space that are evaluated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter3d {
    /// Minimum distance of the centre from the sensor in BEV.
    pub min_range_m: f64,
    /// Exclusive upper limit of that distance.
    pub max_range_m: f64,
    /// Minimum number of points on an object of a cloud.
    pub min_points: u32,
    /// Minimum number of pixels of an object of images.
    pub min_pixels: u32,
    /// Minimum visibility of an object of images.
    pub min_visibility: f64,
}

impl Filter3d {
    fn is_in_range(&self, bbox: &Box3d) -> bool {
        let [x, y, _] = bbox.center.map(f64::from);
        let range_m = x.hypot(y);
        (self.min_range_m..self.max_range_m).contains(&range_m)
    }

    /// Whether an object is evaluated: none whose box is not finite or reversed.
    pub fn counts(&self, truth: &GroundTruth3d) -> bool {
        let is_shown = match truth.evidence {
            Evidence::Points(num_points) => num_points >= self.min_points,
            Evidence::Pixels(num_pixels) => {
                num_pixels >= self.min_pixels && f64::from(truth.visibility) >= self.min_visibility
            }
        };
        is_shown && truth.bbox.is_valid() && self.is_in_range(&truth.bbox)
    }
}

/// Selects the objects in an image that are evaluated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter2d {
    /// Minimum height of the box; of a rotated box, of its bounds.
    pub min_height: f64,
    /// Exclusive upper limit of the height.
    pub max_height: f64,
    /// Minimum visibility.
    pub min_visibility: f64,
}

impl Filter2d {
    fn has_height(&self, bbox: &ImageBox) -> bool {
        let Box2d { y1, y2, .. } = bbox.bounds();
        let height = f64::from(y2) - f64::from(y1);
        (self.min_height..self.max_height).contains(&height)
    }

    /// Whether an object is evaluated: none whose box is not finite or reversed.
    pub fn counts(&self, truth: &GroundTruth2d) -> bool {
        f64::from(truth.visibility) >= self.min_visibility
            && truth.bbox.is_valid()
            && self.has_height(&truth.bbox)
    }
}

/// An evaluated detection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// Its score.
    pub score: f32,
    /// Whether it is a true positive: matched to evaluated truth.
    pub is_right: bool,
}

/// A detection and the object that it is matched to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Index of the frame.
    pub frame: usize,
    /// Index in the frame's detections.
    pub detection: usize,
    /// Index in the frame's truth; `None` without a match.
    pub truth: Option<usize>,
}

/// Detections with finite scores and valid boxes can be evaluated.
trait Usable {
    fn is_usable(&self) -> bool;
}

impl Usable for Detection3d {
    fn is_usable(&self) -> bool {
        self.score.is_finite() && self.object.bbox.is_valid()
    }
}

impl Usable for Detection2d<ImageBox> {
    fn is_usable(&self) -> bool {
        self.score.is_finite() && self.bbox.is_valid()
    }
}

/// Number of detections in space that are ignored because their score or box is
/// not finite, or an extent negative.
pub fn num_unusable_3d(frames: &[Frame3d]) -> usize {
    num_unusable(frames)
}

/// Number of detections in images that are ignored because their score or box is
/// not finite, or the box reversed.
pub fn num_unusable_2d(frames: &[Frame2d]) -> usize {
    num_unusable(frames)
}

fn num_unusable<T, D: Usable>(frames: &[Frame<T, D>]) -> usize {
    frames.iter().flat_map(|frame| &frame.detections).filter(|d| !d.is_usable()).count()
}

/// The mean of the present values; `None` when all are absent.
pub fn mean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().flatten().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests;
