//! Detections, in the frame of the input message.

use super::boxes::{Box2d, Box3d, RotatedBox2d};
use super::keypoint::Keypoints;
use super::mask::Masks;

/// A detection in an image: source-image pixels. Axis-aligned boxes are clipped
/// to the image, rotated ones are not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Detection2d<B = Box2d> {
    /// Class index, a position in the head's `class_names`.
    pub class: u32,
    /// Score in [0, 1].
    pub score: f32,
    /// Box in pixels of the source image.
    pub bbox: B,
}

/// A detection in space: metres, in the frame of the input cloud.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detection3d {
    /// Class index, a position in the head's `class_names`.
    pub class: u32,
    /// Score in [0, 1].
    pub score: f32,
    /// Box, velocity and variance.
    pub object: Object3d,
}

/// An object in space.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Object3d {
    /// Its box.
    pub bbox: Box3d,
    /// Velocity over ground along x and y of the cloud's frame, in metres per
    /// second; `None` when the head does not estimate it.
    pub velocity_mps: Option<[f32; 2]>,
    /// Uncertainty; `None` when the head does not estimate it.
    pub variance: Option<Variance3d>,
}

impl Object3d {
    /// Whether the box is valid ([`Box3d::is_valid`]), and velocity and variances are finite
    /// where there are any.
    pub fn is_valid(&self) -> bool {
        let finite = |value: &f32| value.is_finite();
        let of_box = self.variance.unwrap_or_default();
        let [velocity, of_velocity] = [self.velocity_mps.unwrap_or_default(), of_box.velocity]
            .map(|xy| xy.iter().all(finite));
        self.bbox.is_valid()
            && velocity
            && of_velocity
            && of_box.center.iter().chain(&of_box.size).all(finite)
            && of_box.yaw.is_finite()
    }
}

/// Variances of a 3D box, each in the square of its quantity's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Variance3d {
    /// Of the centre: x, y, z.
    pub center: [f32; 3],
    /// Of length, width, height.
    pub size: [f32; 3],
    /// Of the yaw.
    pub yaw: f32,
    /// Of the velocity along x and y.
    pub velocity: [f32; 2],
}

/// The detections of one frame, in the total order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Detections<'a> {
    /// Axis-aligned boxes in an image, in pixels of the source image.
    Boxes2d(&'a [Detection2d]),
    /// Axis-aligned boxes in an image, in pixels of the source image, with masks.
    Masked2d(&'a [Detection2d], Masks<'a>),
    /// Axis-aligned boxes in an image, in pixels of the source image, with keypoints.
    Keypoints2d(&'a [Detection2d], Keypoints<'a>),
    /// Rotated boxes in an image, in pixels of the source image.
    RotatedBoxes2d(&'a [Detection2d<RotatedBox2d>]),
    /// Boxes in space, in metres.
    Boxes3d(&'a [Detection3d]),
}

impl<'a> Detections<'a> {
    /// The masks of the boxes; `None` of a head without masks.
    pub fn masks(&self) -> Option<Masks<'a>> {
        match self {
            Self::Masked2d(_, masks) => Some(*masks),
            Self::Boxes2d(_)
            | Self::Keypoints2d(..)
            | Self::RotatedBoxes2d(_)
            | Self::Boxes3d(_) => None,
        }
    }

    /// The keypoints of the boxes; `None` of a head without keypoints.
    pub fn keypoints(&self) -> Option<Keypoints<'a>> {
        match self {
            Self::Keypoints2d(_, keypoints) => Some(*keypoints),
            Self::Boxes2d(_) | Self::Masked2d(..) | Self::RotatedBoxes2d(_) | Self::Boxes3d(_) => {
                None
            }
        }
    }

    /// The axis-aligned boxes in an image, with or without masks and keypoints; `None` of others.
    pub fn aligned_2d(&self) -> Option<&'a [Detection2d]> {
        match self {
            Self::Boxes2d(boxes) | Self::Masked2d(boxes, _) | Self::Keypoints2d(boxes, _) => {
                Some(boxes)
            }
            Self::RotatedBoxes2d(_) | Self::Boxes3d(_) => None,
        }
    }

    /// Number of detections.
    pub fn len(&self) -> usize {
        match self {
            Self::Boxes2d(boxes) | Self::Masked2d(boxes, _) | Self::Keypoints2d(boxes, _) => {
                boxes.len()
            }
            Self::RotatedBoxes2d(boxes) => boxes.len(),
            Self::Boxes3d(boxes) => boxes.len(),
        }
    }

    /// Number of detections whose score is above 1. Scores below 0 pass no
    /// threshold, and operations drop NaN.
    pub fn num_scores_out_of_range(&self) -> usize {
        match self {
            Self::Boxes2d(boxes) | Self::Masked2d(boxes, _) | Self::Keypoints2d(boxes, _) => {
                boxes.iter().filter(|found| found.score > 1.0).count()
            }
            Self::RotatedBoxes2d(boxes) => boxes.iter().filter(|found| found.score > 1.0).count(),
            Self::Boxes3d(boxes) => boxes.iter().filter(|found| found.score > 1.0).count(),
        }
    }

    /// Whether there are no detections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
