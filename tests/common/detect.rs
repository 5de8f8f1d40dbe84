//! One frame of one input through a detector.

use det_post::Result;
use det_post::detectors::{Detector, FrameInput, FrameSet};
use det_post_types::{
    CloudView, Detection2d, Detection3d, Detections, FrameReport, Header, ImagePayload, Stamp,
};
use nalgebra::Isometry3;

/// What became of a frame.
#[derive(Debug)]
pub struct Detected<T> {
    pub detections: Vec<T>,
    pub report: FrameReport,
}

/// The boxes that a detector finds in an image.
pub fn in_image(
    detector: &mut dyn Detector,
    payload: &ImagePayload<'_>,
) -> Result<Detected<Detection2d>> {
    let input = [Some(FrameInput::image(Header::default(), *payload))];
    let mut report = FrameReport::new();
    match detector.detect(&FrameSet::single(&input), &mut report)? {
        Detections::Boxes2d(boxes)
        | Detections::Masked2d(boxes, _)
        | Detections::Keypoints2d(boxes, _) => Ok(Detected { detections: boxes.to_vec(), report }),
        Detections::RotatedBoxes2d(_) => panic!("rotated boxes"),
        Detections::Boxes3d(_) => panic!("boxes in space"),
    }
}

/// The boxes that a detector finds in a cloud whose sensor stood at `pose`.
pub fn in_cloud(
    detector: &mut dyn Detector,
    cloud: &CloudView<'_>,
    stamp: Stamp,
    pose: Option<&Isometry3<f64>>,
) -> Result<Detected<Detection3d>> {
    let input = FrameInput::cloud(Header { stamp, frame_id: "lidar" }, cloud);
    let input = [Some(FrameInput { pose: pose.map(|pose| Ok(*pose)), ..input })];
    let mut report = FrameReport::new();
    match detector.detect(&FrameSet::single(&input), &mut report)? {
        Detections::Boxes3d(boxes) => Ok(Detected { detections: boxes.to_vec(), report }),
        Detections::Boxes2d(_)
        | Detections::Masked2d(..)
        | Detections::Keypoints2d(..)
        | Detections::RotatedBoxes2d(_) => {
            panic!("boxes in an image")
        }
    }
}
