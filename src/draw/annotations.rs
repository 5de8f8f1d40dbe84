//! Detections in an image as annotations for Foxglove.

use det_post_eval::draw::class_rgb;
use det_post_ros::messages::{ImageAnnotations, LabeledOutline};
use det_post_types::{Detection2d, ImageBox, Result, Stamp};

/// Encodes the outlines, classes and scores of a frame's detections into `bytes`, replacing the
/// content. Viewers show them on the image with the same stamp.
///
/// # Errors
/// `Message` when the message exceeds 4 GiB.
pub fn encode_annotations<B: Copy + Into<ImageBox>>(
    stamp: Stamp,
    detections: &[Detection2d<B>],
    class_names: &[String],
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let outline = |detection: &Detection2d<B>| {
        let bbox: ImageBox = detection.bbox.into();
        let name = class_names.get(detection.class as usize).map_or("?", String::as_str);
        LabeledOutline {
            corners: bbox.corners().map(|corner| corner.map(f64::from)),
            color: class_rgb(detection.class).map(|value| f64::from(value) / 255.0),
            label: format!("{name} {:.2}", detection.score),
        }
    };
    let outlines: Vec<LabeledOutline> = detections.iter().map(outline).collect();
    ImageAnnotations::encode(stamp, &outlines, bytes)
}
