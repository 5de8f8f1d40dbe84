//! Detections as the message that a channel is configured to publish.

use super::{
    DetectedObjects, DetectedObjectsWithFeature, Detection2DArray, Detection3DArray,
    YoloDetectionArray, YoloParts,
};
use crate::{OutputFormat, OutputType};
use det_post_types::{
    Detection2d, Detection3d, Detections, Error, ErrorKind, Header, ImageBox, Result,
};

impl OutputType {
    /// The ROS name of the message.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Detection2dArray => Detection2DArray::TYPE,
            Self::Detection3dArray => Detection3DArray::TYPE,
            Self::DetectedObjects => DetectedObjects::TYPE,
            Self::AutoDetectedObjects => DetectedObjects::FORMER_TYPE,
            Self::DetectedObjectsWithFeature => DetectedObjectsWithFeature::TYPE,
            Self::YoloDetectionArray => YoloDetectionArray::TYPE,
        }
    }
}

impl OutputFormat {
    /// Encodes `detections` into `bytes` as one message of `output_type`, replacing the content.
    ///
    /// # Errors
    /// `Argument` when a class is not known to the format or the message cannot hold such
    /// detections, `Message` when it exceeds 4 GiB.
    pub fn encode(
        &self,
        output_type: OutputType,
        header: &Header<'_>,
        detections: Detections<'_>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        match detections {
            Detections::Boxes2d(boxes)
            | Detections::Masked2d(boxes, _)
            | Detections::Keypoints2d(boxes, _) => {
                let parts = YoloParts {
                    masks: detections.masks(),
                    keypoints: detections.keypoints(),
                    keypoint_threshold: self.keypoint_threshold,
                };
                self.encode_2d(output_type, header, (boxes, &parts), bytes)
            }
            Detections::RotatedBoxes2d(boxes) => {
                self.encode_2d(output_type, header, (boxes, &YoloParts::default()), bytes)
            }
            Detections::Boxes3d(boxes) => self.encode_3d(output_type, header, boxes, bytes),
        }
    }

    fn encode_2d<B: Copy + Into<ImageBox>>(
        &self,
        output_type: OutputType,
        header: &Header<'_>,
        (boxes, parts): (&[Detection2d<B>], &YoloParts<'_>),
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        match output_type {
            OutputType::Detection2dArray => {
                Detection2DArray::encode(header, boxes, &self.class_ids, bytes)
            }
            OutputType::DetectedObjectsWithFeature => {
                DetectedObjectsWithFeature::encode(header, boxes, &self.objects, bytes)
            }
            OutputType::YoloDetectionArray => {
                YoloDetectionArray::encode(header, boxes, parts, &self.class_names, bytes)
            }
            OutputType::Detection3dArray
            | OutputType::DetectedObjects
            | OutputType::AutoDetectedObjects => Err(unfit(output_type, "2D")),
        }
    }

    fn encode_3d(
        &self,
        output_type: OutputType,
        header: &Header<'_>,
        boxes: &[Detection3d],
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        match output_type {
            OutputType::Detection3dArray => {
                Detection3DArray::encode(header, boxes, &self.class_ids, bytes)
            }
            OutputType::DetectedObjects | OutputType::AutoDetectedObjects => {
                DetectedObjects::encode(header, boxes, &self.objects, bytes)
            }
            OutputType::Detection2dArray
            | OutputType::DetectedObjectsWithFeature
            | OutputType::YoloDetectionArray => Err(unfit(output_type, "3D")),
        }
    }
}

fn unfit(output_type: OutputType, found: &str) -> Error {
    let message = format!("{} cannot hold {found} boxes", output_type.type_name());
    Error::new(ErrorKind::Argument, "output", message)
}
