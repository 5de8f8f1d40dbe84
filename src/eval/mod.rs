//! How good detections are, measured against truth by the field's definitions.
//!
//! | file | measures | definition |
//! |---|---|---|
//! | `center_distance.rs` | AP at 0.5, 1, 2, 4 m; errors of place, size, heading, velocity | nuScenes |
//! | `box_overlap.rs` | AP by overlap from above and in space, 40 recall positions | KITTI |
//! | `image.rs` | AP50, AP75, AP over 0.50:0.95, 101 recall positions | COCO |
//! | `calibration.rs` | how often a score is right | reliability diagram, ten bins |
//! | `recordings/` | all of these for recordings of detections and truth | |
//!
//! `docs/evaluation.md` tells each definition and where ours departs from it.
//!
//! **Filters.** Truth outside a filter is no miss, and what is matched to it is
//! no false alarm: both are left out. A detection that matches nothing and
//! itself lies outside the filter's range or heights is left out too.
//!
//! **Order.** Detections are taken by score, the highest first, equal scores in
//! the order of the frames and then of each frame's list: the same input gives
//! the same numbers. A detection whose score or box is not finite cannot be
//! ranked or placed; it takes no part and is counted by [`num_unusable_3d`] and [`num_unusable_2d`].
//!
//! **Nothing to measure.** Without truth of a class inside the filter its
//! figures are `None`, and means leave it out. With truth and without
//! detections, AP is zero and nuScenes' errors are one.
//!
//! All is computed in `f64`. Lengths are metres, angles radians, boxes in a
//! picture pixels; boxes in space are in the frame of the sensor, whose origin
//! ranges are measured from.

pub mod box_overlap;
pub mod calibration;
pub mod center_distance;
mod curve;
pub mod image;
mod overlap;
#[cfg(feature = "cli")]
pub(crate) mod recordings;

pub use curve::{NUM_RECALL_POINTS, recall_points};

use crate::types::{Box2d, Box3d, Detection2d, Detection3d, ImageBox};

/// An object in space that is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroundTruth3d {
    /// Class index, in the same table as the detections'.
    pub class: u32,
    /// Where it is and how large.
    pub bbox: Box3d,
    /// Velocity over ground along x and y of the sensor's frame.
    pub velocity_mps: [f32; 2],
    /// Points of the cloud that lie on it.
    pub num_points: u32,
}

/// An object in a picture that is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroundTruth2d {
    /// Class index, in the same table as the detections'.
    pub class: u32,
    /// Its box.
    pub bbox: ImageBox,
    /// The fraction of it that nothing hides.
    pub visibility: f32,
}

/// What is there and what was found, at one stamp of one sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame<T, D> {
    /// What is there.
    pub truth: Vec<T>,
    /// What was found, of all classes and scores, in any order.
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

/// Which objects in space count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter3d {
    /// Nearest distance of the centre from the sensor, seen from above.
    pub min_range_m: f64,
    /// The first distance that is too far.
    pub max_range_m: f64,
    /// The fewest points on an object.
    pub min_points: u32,
}

impl Filter3d {
    fn is_in_range(&self, bbox: &Box3d) -> bool {
        let [x, y, _] = bbox.center.map(f64::from);
        let range_m = x.hypot(y);
        (self.min_range_m..self.max_range_m).contains(&range_m)
    }

    /// Whether an object counts.
    pub fn counts(&self, truth: &GroundTruth3d) -> bool {
        truth.num_points >= self.min_points && self.is_in_range(&truth.bbox)
    }
}

/// Which objects in a picture count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter2d {
    /// The lowest box; of a rotated one, the height of its bounds.
    pub min_height: f64,
    /// The first height that is too high.
    pub max_height: f64,
    /// The smallest fraction that nothing hides.
    pub min_visibility: f64,
}

impl Filter2d {
    fn has_height(&self, bbox: &ImageBox) -> bool {
        let Box2d { y1, y2, .. } = bbox.bounds();
        let height = f64::from(y2) - f64::from(y1);
        (self.min_height..self.max_height).contains(&height)
    }

    /// Whether an object counts.
    pub fn counts(&self, truth: &GroundTruth2d) -> bool {
        f64::from(truth.visibility) >= self.min_visibility && self.has_height(&truth.bbox)
    }
}

/// A detection that counts, and whether it is right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// Its score.
    pub score: f32,
    /// Whether it is matched to truth that counts.
    pub is_right: bool,
}

/// A detection that can be ranked and placed.
trait Usable {
    fn is_usable(&self) -> bool;
}

impl Usable for Detection3d {
    fn is_usable(&self) -> bool {
        let b = &self.object.bbox;
        let [x, y, z] = b.center;
        [self.score, x, y, z, b.length_m, b.width_m, b.height_m, b.yaw_rad]
            .iter()
            .all(|value| value.is_finite())
    }
}

impl Usable for Detection2d<ImageBox> {
    fn is_usable(&self) -> bool {
        self.score.is_finite() && self.bbox.is_finite()
    }
}

/// How many detections in space take no part because their score or box is
/// not finite.
pub fn num_unusable_3d(frames: &[Frame3d]) -> usize {
    num_unusable(frames)
}

/// How many detections in pictures take no part because their score or box is
/// not finite.
pub fn num_unusable_2d(frames: &[Frame2d]) -> usize {
    num_unusable(frames)
}

fn num_unusable<T, D: Usable>(frames: &[Frame<T, D>]) -> usize {
    frames.iter().flat_map(|frame| &frame.detections).filter(|d| !d.is_usable()).count()
}

/// The mean of the figures there are; `None` when there is none.
pub fn mean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().flatten().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests;
