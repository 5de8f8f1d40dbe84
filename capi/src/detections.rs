//! The detections of a frame, as arrays.

use super::call::{Const, ConstText};
use det_post::runtime::channel::ChannelFrame;
use det_post_types::{Object3d, RotatedBox2d};

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
}

/// The memory of [`Detections`], which grows to the largest frame.
pub(super) struct Found {
    public: Detections,
    boxes_2d: Vec<Detection2d>,
    rotated_boxes_2d: Vec<RotatedDetection2d>,
    boxes_3d: Vec<Detection3d>,
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
        };
        let (boxes_2d, rotated_boxes_2d, boxes_3d) = (Vec::new(), Vec::new(), Vec::new());
        let (frame_id, degraded) = (Vec::new(), Vec::new());
        Self { public, boxes_2d, rotated_boxes_2d, boxes_3d, frame_id, degraded }
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
        };
        Const::of(std::slice::from_ref(&self.public))
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
