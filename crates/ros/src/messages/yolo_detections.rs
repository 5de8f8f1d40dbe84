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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdr::Reader;
    use crate::messages::read_header;
    use det_post_types::MaskWindow;

    /// Height, width and corners of a mask, and keypoints by number.
    type Found = ([i32; 2], Vec<[f64; 2]>, Vec<(i32, [f64; 3])>);

    /// The parts of every detection of a message.
    fn decoded(bytes: &[u8]) -> Vec<Found> {
        let mut reader = Reader::new(YoloDetectionArray::TYPE, bytes).unwrap();
        read_header(&mut reader).unwrap();
        let num = reader.sequence_len(1).unwrap();
        let mut found = Vec::new();
        for _ in 0..num {
            reader.i32().unwrap();
            reader.str().unwrap();
            reader.f64().unwrap();
            reader.str().unwrap();
            // Box in the image; pose and size in space.
            reader.f64_array::<5>().unwrap();
            reader.f64_array::<10>().unwrap();
            reader.str().unwrap();
            let size = [reader.i32().unwrap(), reader.i32().unwrap()];
            let num = reader.sequence_len(16).unwrap();
            let corners = (0..num).map(|_| reader.f64_array::<2>().unwrap()).collect();
            let num = reader.sequence_len(28).unwrap();
            let keypoint =
                |reader: &mut Reader<'_>| (reader.i32().unwrap(), reader.f64_array::<3>().unwrap());
            let keypoints = (0..num).map(|_| keypoint(&mut reader)).collect();
            assert_eq!(reader.sequence_len(28).unwrap(), 0);
            reader.str().unwrap();
            found.push((size, corners, keypoints));
        }
        // Writers fill the last word.
        assert!(reader.remaining() < 4);
        found
    }

    #[test]
    fn detections_have_outlines_and_keypoints() {
        let detections = [Detection2d::<Box2d>::default(); 2];
        let image = Size::new(40, 30);
        let windows = [MaskWindow { left: 10, top: 20, width: 3, height: 2, first_word: 0 }];
        let masks = Masks { image, windows: &windows, words: &[0b111, 0b111] };
        let points = [0.5, 0.25, 0.75, 1.0].map(|score| Keypoint { x: 1.0, y: 2.0, score });
        let keypoints = Keypoints { num_per_detection: 2, all: &points };
        let mut bytes = Vec::new();
        let mut encoded = |parts: YoloParts<'_>| {
            let header = Header::default();
            YoloDetectionArray::encode(&header, &detections, &parts, &["a"], &mut bytes).unwrap();
            decoded(&bytes)
        };
        let corners = [[10.0, 20.0], [12.0, 20.0], [12.0, 21.0], [10.0, 21.0]];
        let nothing = ([0, 0], Vec::new(), Vec::new());
        let parts = YoloParts { masks: Some(masks), ..YoloParts::default() };
        // The second is beyond the capacity of masks.
        let expected = [([30, 40], corners.to_vec(), Vec::new()), nothing.clone()];
        assert_eq!(encoded(parts), expected);
        let parts = YoloParts { keypoints: Some(keypoints), keypoint_threshold: 0.5, masks: None };
        let expected = [
            ([0, 0], Vec::new(), vec![(1, [1.0, 2.0, 0.5])]),
            ([0, 0], Vec::new(), vec![(1, [1.0, 2.0, 0.75]), (2, [1.0, 2.0, 1.0])]),
        ];
        assert_eq!(encoded(parts), expected);
        assert_eq!(encoded(YoloParts::default()), [nothing.clone(), nothing]);
    }
}
