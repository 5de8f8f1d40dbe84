//! Detections as the message that a channel is configured to publish.

use super::{Detection2DArray, Detection3DArray};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{Detections, Header, OutputType};

impl OutputType {
    /// The ROS name of the message.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Detection2dArray => Detection2DArray::TYPE,
            Self::Detection3dArray => Detection3DArray::TYPE,
        }
    }

    /// Encodes `detections` into `bytes` as one message, replacing the content.
    /// `class_ids` holds the `class_id` of each class: its name or its index.
    ///
    /// # Errors
    /// `Argument` when a class has no `class_id` or the message cannot hold such
    /// detections, `Message` when it exceeds 4 GiB.
    pub fn encode(
        self,
        header: &Header<'_>,
        detections: Detections<'_>,
        class_ids: &[String],
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        match (self, detections) {
            (Self::Detection2dArray, Detections::Boxes2d(boxes)) => {
                Detection2DArray::encode(header, boxes, class_ids, bytes)
            }
            (Self::Detection2dArray, Detections::RotatedBoxes2d(boxes)) => {
                Detection2DArray::encode(header, boxes, class_ids, bytes)
            }
            (Self::Detection3dArray, Detections::Boxes3d(boxes)) => {
                Detection3DArray::encode(header, boxes, class_ids, bytes)
            }
            (Self::Detection2dArray, Detections::Boxes3d(_)) => Err(unfit(self, "3D")),
            (Self::Detection3dArray, Detections::Boxes2d(_) | Detections::RotatedBoxes2d(_)) => {
                Err(unfit(self, "2D"))
            }
        }
    }
}

fn unfit(output_type: OutputType, found: &str) -> Error {
    let message = format!("{} cannot hold {found} boxes", output_type.type_name());
    Error::new(ErrorKind::Argument, "output", message)
}
