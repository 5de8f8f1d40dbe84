//! The detections of a frame, as arrays.

use super::call::{Const, ConstText};
use det_post::runtime::channel::ChannelFrame;
use det_post_types::{Keypoints, MaskWindow, Masks, Object3d, RotatedBox2d, Size};

/// Axis-aligned boxes in an image: `boxes_2d`.
pub const DETECTIONS_2D: u32 = 1;
/// Rotated boxes in an image: `rotated_boxes_2d`.
pub const DETECTIONS_ROTATED_2D: u32 = 2;
/// Boxes in space: `boxes_3d`.
pub const DETECTIONS_3D: u32 = 3;

/// `detection_3d.has`: the head estimates the velocity.
pub const HAS_VELOCITY: u32 = 1;
/// `detection_3d.has`: the head estimates variances.
pub const HAS_VARIANCE: u32 = 2;

/// A box in an image, clipped to it. Pixel `i` covers `[i, i + 1)`, x to the right, y down.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Detection2d {
    /// Position in the class names of the detector.
    pub class_id: u32,
    /// Score in [0, 1].
    pub score: f32,
    /// Left edge.
    pub x1: f32,
    /// Top edge.
    pub y1: f32,
    /// Right edge.
    pub x2: f32,
    /// Bottom edge.
    pub y2: f32,
}

/// A rotated box in an image, in pixels, not clipped.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RotatedDetection2d {
    /// Position in the class names of the detector.
    pub class_id: u32,
    /// Score in [0, 1].
    pub score: f32,
    /// Centre, x.
    pub cx: f32,
    /// Centre, y.
    pub cy: f32,
    /// Extent along the local x axis.
    pub width: f32,
    /// Extent along the local y axis.
    pub height: f32,
    /// Turn of the local x axis from +x towards +y.
    pub angle_rad: f32,
}

/// A box in space, upright in its frame (z up), in metres.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Detection3d {
    /// Position in the class names of the detector.
    pub class_id: u32,
    /// Score in [0, 1].
    pub score: f32,
    /// Geometric centre: x, y, z.
    pub center: [f32; 3],
    /// Extent along the heading.
    pub length_m: f32,
    /// Extent across the heading.
    pub width_m: f32,
    /// Vertical extent.
    pub height_m: f32,
    /// Heading, counter-clockwise from +x.
    pub yaw_rad: f32,
    /// Velocity over ground along x and y, in metres per second; 0 if not estimated.
    pub velocity_mps: [f32; 2],
    /// Variances of the centre; 0 if not estimated.
    pub center_variance: [f32; 3],
    /// Variances of length, width, height.
    pub size_variance: [f32; 3],
    /// Variance of the yaw.
    pub yaw_variance: f32,
    /// Variances of the velocity.
    pub velocity_variance: [f32; 2],
    /// `DET_POST_HAS_…`, added.
    pub has: u32,
}

/// A keypoint of a detection, in pixels of the image.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Keypoint {
    /// Column, from 0 to the width of the image.
    pub x: f32,
    /// Row, from 0 to its height.
    pub y: f32,
    /// Score in [0, 1]; 1 of networks that give none.
    pub score: f32,
}

/// The mask of a detection: bits of the pixels inside a window of the image. Rows follow each
/// other from the top, each in `(width + 31) / 32` words, the left pixel in the lowest bit.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Mask {
    /// First column of the window.
    pub left: u32,
    /// First row of the window.
    pub top: u32,
    /// Columns of the window.
    pub width: u32,
    /// Rows of the window.
    pub height: u32,
    /// Position of its first word in `mask_words`.
    pub first_word: u32,
}

/// The detections of a frame, in the total order: score descending, then class, then position
/// in the network's output.
#[repr(C)]
pub struct Detections {
    /// Stamp of the reference input.
    pub stamp_ns: i64,
    /// Coordinate frame of the detections: the reference input's, unless the detector has
    /// a target frame.
    pub frame_id: ConstText,
    /// One of `DET_POST_DETECTIONS_…`.
    pub kind: u32,
    /// 1 if the stamp shows that the clock of the inputs has started over, for which the
    /// detector was reset; else 0.
    pub has_started_over: u32,
    /// Number of detections.
    pub num_detections: usize,
    /// Of `DET_POST_DETECTIONS_2D`, else `NULL`.
    pub boxes_2d: Const<Detection2d>,
    /// Of `DET_POST_DETECTIONS_ROTATED_2D`, else `NULL`.
    pub rotated_boxes_2d: Const<RotatedDetection2d>,
    /// Of `DET_POST_DETECTIONS_3D`, else `NULL`.
    pub boxes_3d: Const<Detection3d>,
    /// Why the pose of a sensor is unknown, without which the frame was processed; or `NULL`.
    pub degraded: ConstText,
    /// Keypoints of each detection; 0 of a head without keypoints.
    pub num_keypoints: usize,
    /// `num_detections * num_keypoints`, detection by detection in the network's order, or `NULL`.
    pub keypoints: Const<Keypoint>,
    /// Number of masks: of the first detections. 0 of a head without masks; less than
    /// `num_detections` where `mask_capacity_bytes` was reached.
    pub num_masks: usize,
    /// The masks, or `NULL`.
    pub masks: Const<Mask>,
    /// Number of `mask_words`.
    pub num_mask_words: usize,
    /// The bits of all masks, or `NULL`.
    pub mask_words: Const<u32>,
    /// Width of the image that masks are of; 0 of a head without masks.
    pub mask_image_width: u32,
    /// Height of that image.
    pub mask_image_height: u32,
}

/// The memory of [`Detections`], which grows to the largest frame.
pub(super) struct Found {
    public: Detections,
    boxes_2d: Vec<Detection2d>,
    rotated_boxes_2d: Vec<RotatedDetection2d>,
    boxes_3d: Vec<Detection3d>,
    keypoints: Vec<Keypoint>,
    masks: Vec<Mask>,
    mask_words: Vec<u32>,
    /// These end with 0.
    frame_id: Vec<u8>,
    degraded: Vec<u8>,
}

impl Found {
    pub(super) fn new() -> Self {
        let public = Detections {
            stamp_ns: 0,
            frame_id: ConstText::NULL,
            kind: 0,
            has_started_over: 0,
            num_detections: 0,
            boxes_2d: Const::NULL,
            rotated_boxes_2d: Const::NULL,
            boxes_3d: Const::NULL,
            degraded: ConstText::NULL,
            num_keypoints: 0,
            keypoints: Const::NULL,
            num_masks: 0,
            masks: Const::NULL,
            num_mask_words: 0,
            mask_words: Const::NULL,
            mask_image_width: 0,
            mask_image_height: 0,
        };
        Self {
            public,
            boxes_2d: Vec::new(),
            rotated_boxes_2d: Vec::new(),
            boxes_3d: Vec::new(),
            keypoints: Vec::new(),
            masks: Vec::new(),
            mask_words: Vec::new(),
            frame_id: Vec::new(),
            degraded: Vec::new(),
        }
    }

    /// Copies the result of a frame.
    pub(super) fn fill(
        &mut self,
        detected: &ChannelFrame<'_>,
        has_started_over: bool,
    ) -> Const<Detections> {
        self.boxes_2d.clear();
        self.rotated_boxes_2d.clear();
        self.boxes_3d.clear();
        let kind = match detected.detections {
            det_post_types::Detections::Boxes2d(found)
            | det_post_types::Detections::Masked2d(found, _)
            | det_post_types::Detections::Keypoints2d(found, _) => {
                self.boxes_2d.extend(found.iter().map(detection_2d));
                DETECTIONS_2D
            }
            det_post_types::Detections::RotatedBoxes2d(found) => {
                self.rotated_boxes_2d.extend(found.iter().map(rotated_detection_2d));
                DETECTIONS_ROTATED_2D
            }
            det_post_types::Detections::Boxes3d(found) => {
                self.boxes_3d.extend(found.iter().map(detection_3d));
                DETECTIONS_3D
            }
        };
        let num_keypoints = self.fill_keypoints(detected.detections.keypoints());
        let image = self.fill_masks(detected.detections.masks());
        let degraded = detected.degraded.as_ref().map(ToString::to_string);
        let pointer = |of: u32| of == kind;
        self.public = Detections {
            stamp_ns: detected.header.stamp.nanos(),
            frame_id: ConstText::copy_to(&mut self.frame_id, detected.header.frame_id),
            kind,
            has_started_over: u32::from(has_started_over),
            num_detections: detected.detections.len(),
            boxes_2d: Const::if_so(pointer(DETECTIONS_2D), &self.boxes_2d),
            rotated_boxes_2d: Const::if_so(pointer(DETECTIONS_ROTATED_2D), &self.rotated_boxes_2d),
            boxes_3d: Const::if_so(pointer(DETECTIONS_3D), &self.boxes_3d),
            degraded: degraded
                .map_or(ConstText::NULL, |text| ConstText::copy_to(&mut self.degraded, &text)),
            num_keypoints,
            keypoints: Const::if_so(!self.keypoints.is_empty(), &self.keypoints),
            num_masks: self.masks.len(),
            masks: Const::if_so(!self.masks.is_empty(), &self.masks),
            num_mask_words: self.mask_words.len(),
            mask_words: Const::if_so(!self.mask_words.is_empty(), &self.mask_words),
            mask_image_width: image.width,
            mask_image_height: image.height,
        };
        Const::of(std::slice::from_ref(&self.public))
    }

    /// Copies the keypoints; how many a detection has.
    fn fill_keypoints(&mut self, keypoints: Option<Keypoints<'_>>) -> usize {
        self.keypoints.clear();
        let Some(Keypoints { num_per_detection, all }) = keypoints else { return 0 };
        self.keypoints.extend(
            all.iter().map(|&det_post_types::Keypoint { x, y, score }| Keypoint { x, y, score }),
        );
        num_per_detection
    }

    /// Copies the masks; the size of their image.
    fn fill_masks(&mut self, masks: Option<Masks<'_>>) -> Size {
        self.masks.clear();
        self.mask_words.clear();
        let Some(Masks { image, windows, words }) = masks else { return Size::default() };
        self.masks.extend(windows.iter().map(|window| {
            let &MaskWindow { left, top, width, height, first_word } = window;
            Mask { left, top, width, height, first_word }
        }));
        self.mask_words.extend(words);
        image
    }
}

fn detection_2d(found: &det_post_types::Detection2d) -> Detection2d {
    let det_post_types::Box2d { x1, y1, x2, y2 } = found.bbox;
    Detection2d { class_id: found.class, score: found.score, x1, y1, x2, y2 }
}

fn rotated_detection_2d(found: &det_post_types::Detection2d<RotatedBox2d>) -> RotatedDetection2d {
    let RotatedBox2d { cx, cy, width, height, angle_rad } = found.bbox;
    let det_post_types::Detection2d { class: class_id, score, .. } = *found;
    RotatedDetection2d { class_id, score, cx, cy, width, height, angle_rad }
}

fn detection_3d(found: &det_post_types::Detection3d) -> Detection3d {
    let det_post_types::Detection3d { class: class_id, score, object } = *found;
    let Object3d { bbox, velocity_mps, variance } = object;
    let det_post_types::Box3d { center, length_m, width_m, height_m, yaw_rad } = bbox;
    let has_velocity = velocity_mps.map_or(0, |_| HAS_VELOCITY);
    let has_variance = variance.map_or(0, |_| HAS_VARIANCE);
    let variance = variance.unwrap_or_default();
    Detection3d {
        class_id,
        score,
        center,
        length_m,
        width_m,
        height_m,
        yaw_rad,
        velocity_mps: velocity_mps.unwrap_or_default(),
        center_variance: variance.center,
        size_variance: variance.size,
        yaw_variance: variance.yaw,
        velocity_variance: variance.velocity,
        has: has_velocity | has_variance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keypoints_and_masks_are_copied_and_cleared() {
        let mut found = Found::new();
        let all = [0.25, 0.5].map(|score| det_post_types::Keypoint { x: 3.0, y: 4.0, score });
        assert_eq!(found.fill_keypoints(Some(Keypoints { num_per_detection: 2, all: &all })), 2);
        assert_eq!((found.keypoints[1].x, found.keypoints[1].score), (3.0, 0.5));
        let windows = [MaskWindow { left: 1, top: 2, width: 33, height: 1, first_word: 0 }];
        let image = Size::new(40, 30);
        let masks = Masks { image, windows: &windows, words: &[5, 1] };
        assert_eq!(found.fill_masks(Some(masks)), image);
        assert_eq!((found.masks[0].top, found.masks[0].width), (2, 33));
        assert_eq!(found.mask_words, [5, 1]);
        // A frame of another head has none.
        assert_eq!((found.fill_keypoints(None), found.fill_masks(None)), (0, Size::default()));
        assert!(found.keypoints.is_empty() && found.masks.is_empty());
        assert!(found.mask_words.is_empty());
    }
}
