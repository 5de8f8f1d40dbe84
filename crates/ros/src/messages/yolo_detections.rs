//! `yolo_msgs/DetectionArray`.

use super::detection::{Pose, class_name, write_array};
use super::field::Field;
use crate::cdr::Writer;
use det_post_types::{
    Box2d, Detection2d, Header, ImageBox, Keypoint, Keypoints, Mask, Masks, Result, RotatedBox2d,
    Size,
};

/// `yolo_msgs/DetectionArray`, as yolo_ros publishes it.
#[derive(Clone, Copy, Debug)]
pub struct YoloDetectionArray;

/// What detections have beside their boxes.
#[derive(Clone, Copy, Debug, Default)]
pub struct YoloParts<'a> {
    /// The masks, of heads with masks.
    pub masks: Option<Masks<'a>>,
    /// The keypoints, of heads with keypoints.
    pub keypoints: Option<Keypoints<'a>>,
    /// Keypoints with a lower score are left out.
    pub keypoint_threshold: f32,
}

impl YoloDetectionArray {
    /// The ROS name.
    pub const TYPE: &'static str = "yolo_msgs/msg/DetectionArray";

    /// Encodes `detections` into `bytes`, replacing the content.
    ///
    /// Each has its class by index and name, its score, and its box in pixels of the source
    /// image by centre, size and angle, which is 0 for axis-aligned boxes. Keypoints have their position in
    /// the network's order, from 1, as `id`; a mask is its outline ([`Mask::outline`]) with the size of the
    /// image, which is 0 without a mask. Identifier, box in space and key points in space are
    /// empty.
    ///
    /// # Errors
    /// `Argument` when a class has no name, `Message` when the message would have 4 GiB or more.
    pub fn encode<B: Copy + Into<ImageBox>, S: AsRef<str>>(
        header: &Header<'_>,
        detections: &[Detection2d<B>],
        parts: &YoloParts<'_>,
        class_names: &[S],
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let numbered: Vec<(usize, &Detection2d<B>)> = detections.iter().enumerate().collect();
        write_array(Self::TYPE, header, &numbered, bytes, |&(index, detection), writer| {
            writer.i32(i32::try_from(detection.class).unwrap_or(i32::MAX));
            writer.str(class_name(detection.class, class_names, Self::TYPE)?);
            writer.f64(detection.score.into());
            // Identifier of a tracked object.
            writer.str("");
            write_bbox(writer, detection.bbox.into());
            // Box in space.
            Pose::from_yaw([0.0; 3], 0.0).write(writer);
            writer.f64_array(&[0.0; 3]);
            writer.str("");
            write_mask(writer, parts.masks.and_then(|masks| masks.get(index)));
            let keypoints = parts.keypoints.map_or(&[][..], |keypoints| keypoints.of(index));
            write_keypoints(writer, keypoints, parts.keypoint_threshold);
            // Key points in space with their frame.
            writer.sequence_len(0);
            writer.str("");
            Ok(())
        })
    }
}

/// Writes a `yolo_msgs/Mask`: height and width of the image, points.
fn write_mask(writer: &mut Writer<'_>, mask: Option<Mask<'_>>) {
    let size = mask.map_or(Size::default(), |mask| mask.image);
    for side in [size.height, size.width] {
        writer.i32(i32::try_from(side).unwrap_or(i32::MAX));
    }
    let outline = mask.map(|mask| mask.outline()).unwrap_or_default();
    writer.sequence(&outline, |writer, corner| writer.f64_array(&corner.map(f64::from)));
}

/// Writes a `yolo_msgs/KeyPoint2DArray` of the keypoints with at least this score.
fn write_keypoints(writer: &mut Writer<'_>, keypoints: &[Keypoint], threshold: f32) {
    let is_shown = |(_, keypoint): &(i32, &Keypoint)| keypoint.score >= threshold;
    let shown: Vec<(i32, &Keypoint)> = (1..).zip(keypoints).filter(is_shown).collect();
    writer.sequence(&shown, |writer, &(id, &Keypoint { x, y, score })| {
        writer.i32(id);
        writer.f64_array(&[x, y, score].map(f64::from));
    });
}

/// Writes a `yolo_msgs/BoundingBox2D`: x, y, theta, width, height.
fn write_bbox(writer: &mut Writer<'_>, bbox: ImageBox) {
    writer.f64_array(&match bbox {
        ImageBox::Aligned(Box2d { x1, y1, x2, y2 }) => {
            let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(f64::from);
            [0.5 * (x1 + x2), 0.5 * (y1 + y2), 0.0, x2 - x1, y2 - y1]
        }
        ImageBox::Rotated(RotatedBox2d { cx, cy, width, height, angle_rad }) => {
            [cx, cy, angle_rad, width, height].map(f64::from)
        }
    });
}
