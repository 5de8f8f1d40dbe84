//! Detections in an image as annotations for Foxglove.

use det_post_eval::draw::class_rgb;
use det_post_ros::messages::{ImageAnnotations, ImagePoints, LabeledOutline};
use det_post_types::{
    Detection2d, Detections, ImageBox, Keypoint, Keypoints, Masks, Result, Stamp, bones,
};

/// Encodes the annotations of a frame's detections in an image into `bytes`, replacing the content;
/// keypoints with a lower score than `keypoint_threshold` are left out. Boxes in space have none.
///
/// # Errors
/// `Message` when the message exceeds 4 GiB.
pub fn encode_detections(
    stamp: Stamp,
    detections: &Detections<'_>,
    (class_names, keypoint_threshold): (&[String], f32),
    bytes: &mut Vec<u8>,
) -> Result<()> {
    match *detections {
        Detections::Boxes2d(found) => encode_annotations(stamp, found, &[], class_names, bytes),
        Detections::Masked2d(found, masks) => {
            let outlines = outlines_of(found, &masks);
            encode_annotations(stamp, found, &outlines, class_names, bytes)
        }
        Detections::Keypoints2d(found, keypoints) => {
            let points = points_of(found, &keypoints, keypoint_threshold);
            encode_annotations(stamp, found, &points, class_names, bytes)
        }
        Detections::RotatedBoxes2d(found) => {
            encode_annotations(stamp, found, &[], class_names, bytes)
        }
        // Markers show them.
        Detections::Boxes3d(_) => {
            encode_annotations::<ImageBox>(stamp, &[], &[], class_names, bytes)
        }
    }
}

/// The outline of the mask of each detection.
fn outlines_of(detections: &[Detection2d], masks: &Masks<'_>) -> Vec<ImagePoints> {
    let of_detection = |(index, detection): (usize, &Detection2d)| {
        let outline = masks.get(index)?.outline();
        // Corners of the image are at whole numbers, centres of pixels between them.
        let outline = outline.iter().map(|corner| corner.map(|value| f64::from(value) + 0.5));
        let (outline, color) = (outline.collect(), color_of(detection.class));
        Some(ImagePoints { outline, color, ..ImagePoints::default() })
    };
    detections.iter().enumerate().filter_map(of_detection).collect()
}

/// The keypoints that are shown of each detection, and the lines between them.
fn points_of(
    detections: &[Detection2d],
    keypoints: &Keypoints<'_>,
    threshold: f32,
) -> Vec<ImagePoints> {
    let of_detection = |(index, detection): (usize, &Detection2d)| {
        let own = keypoints.of(index);
        let shown = |at: usize| own.get(at).filter(|keypoint| keypoint.score >= threshold);
        let position = |keypoint: &Keypoint| [keypoint.x, keypoint.y].map(f64::from);
        let lines = bones(own.len())
            .iter()
            .filter_map(|&[from, to]| Some([position(shown(from)?), position(shown(to)?)]));
        ImagePoints {
            points: (0..own.len()).filter_map(shown).map(position).collect(),
            outline: Vec::new(),
            lines: lines.flatten().collect(),
            color: color_of(detection.class),
        }
    };
    detections.iter().enumerate().map(of_detection).collect()
}

fn color_of(class: u32) -> [f64; 3] {
    class_rgb(class).map(|value| f64::from(value) / 255.0)
}

/// Encodes the outlines, classes and scores of a frame's detections into `bytes`, replacing the
/// content, and points of objects. Viewers show them on the image with the same stamp.
///
/// # Errors
/// `Message` when the message exceeds 4 GiB.
pub fn encode_annotations<B: Copy + Into<ImageBox>>(
    stamp: Stamp,
    detections: &[Detection2d<B>],
    points: &[ImagePoints],
    class_names: &[String],
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let outline = |detection: &Detection2d<B>| {
        let bbox: ImageBox = detection.bbox.into();
        let name = class_names.get(detection.class as usize).map_or("?", String::as_str);
        LabeledOutline {
            corners: bbox.corners().map(|corner| corner.map(f64::from)),
            color: color_of(detection.class),
            label: format!("{name} {:.2}", detection.score),
        }
    };
    let outlines: Vec<LabeledOutline> = detections.iter().map(outline).collect();
    ImageAnnotations::encode(stamp, &outlines, points, bytes)
}
