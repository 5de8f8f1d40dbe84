//! `vision_msgs/Detection2DArray`, 4.x layout.

use super::detection::{Detection, DetectionArray, Hypothesis, Pose, class_name, write_array};
use super::field::{Field, record};
use det_post_types::{Box2d, Detection2d, Header, ImageBox, Result, RotatedBox2d};

record! {
    /// `vision_msgs/Detection2D`: pixels of the source image.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Detection2D<'a> {
        /// Stamp and frame.
        pub header: Header<'a>,
        /// The hypothesis with the highest score, if there is one.
        pub best: Option<Hypothesis<'a>>,
        /// Centre of the box: x, y.
        pub center: [f64; 2],
        /// Rotation of the box about its centre, in radians from +x towards +y.
        pub theta_rad: f64,
        /// Width and height of the box.
        pub size: [f64; 2],
        /// Identifier of a tracked object, or empty.
        pub id: &'a str,
    }
}

/// `vision_msgs/Detection2DArray`.
pub type Detection2DArray<'a> = DetectionArray<'a, Detection2D<'a>>;

impl<'a> Detection<'a> for Detection2D<'a> {
    const ARRAY_TYPE: &'static str = "vision_msgs/msg/Detection2DArray";
}

impl Detection2DArray<'_> {
    /// Encodes `detections` into `bytes`, replacing the content.
    ///
    /// The array and every detection carry `header`. Each has one hypothesis,
    /// whose `class_id` is the class's name; its pose is not used in an image
    /// and is the identity. Boxes are by centre, size in pixels, and angle, which is
    /// 0 for axis-aligned ones.
    ///
    /// # Errors
    /// `Argument` when a class has no name, `Message` when the message would
    /// have 4 GiB or more.
    pub fn encode<B: Copy + Into<ImageBox>, S: AsRef<str>>(
        header: &Header<'_>,
        detections: &[Detection2d<B>],
        class_names: &[S],
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        write_array(Self::TYPE, header, detections, bytes, |detection, writer| {
            let hypothesis = Hypothesis {
                class_id: class_name(detection.class, class_names, Self::TYPE)?,
                score: detection.score.into(),
                pose: Pose::from_yaw([0.0; 3], 0.0),
                covariance: [0.0; 36],
            };
            let best = Some(hypothesis);
            Detection2D::new(*header, best, detection.bbox.into(), "").write(writer);
            Ok(())
        })
    }
}

impl<'a> Detection2D<'a> {
    /// A detection with a box in the pixels of the source image.
    pub fn new(
        header: Header<'a>,
        best: Option<Hypothesis<'a>>,
        bbox: ImageBox,
        id: &'a str,
    ) -> Self {
        let ([x, y], [width, height], theta_rad) = match bbox {
            ImageBox::Aligned(Box2d { x1, y1, x2, y2 }) => {
                let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(f64::from);
                ([0.5 * (x1 + x2), 0.5 * (y1 + y2)], [x2 - x1, y2 - y1], 0.0)
            }
            ImageBox::Rotated(RotatedBox2d { cx, cy, width, height, angle_rad }) => {
                ([cx, cy].map(f64::from), [width, height].map(f64::from), angle_rad.into())
            }
        };
        Self { header, best, center: [x, y], theta_rad, size: [width, height], id }
    }

    /// The box, axis-aligned where `theta_rad` is 0.
    pub fn bbox(&self) -> ImageBox {
        let ([x, y], [width, height]) = (self.center, self.size);
        if self.theta_rad == 0.0 {
            let [half_width, half_height] = [0.5 * width, 0.5 * height];
            let corners = [x - half_width, y - half_height, x + half_width, y + half_height];
            let [x1, y1, x2, y2] = corners.map(|value| value as f32);
            return Box2d::new(x1, y1, x2, y2).into();
        }
        let [cx, cy, width, height, angle_rad] =
            [x, y, width, height, self.theta_rad].map(|value| value as f32);
        RotatedBox2d { cx, cy, width, height, angle_rad }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{ErrorKind, Stamp};

    #[test]
    fn detections_are_written_as_pixels() {
        let header = Header { stamp: Stamp::from_ros(12, 34), frame_id: "front" };
        let detections = [
            Detection2d { class: 1, score: 0.75, bbox: Box2d::new(10.0, 21.0, 13.0, 26.0) },
            Detection2d { class: 0, score: 0.5, bbox: Box2d::new(0.0, 0.0, 1920.5, 7.0) },
        ];
        for n in 0..=2 {
            let mut bytes = Vec::new();
            Detection2DArray::encode(&header, &detections[..n], &["car", "person"], &mut bytes)
                .unwrap();
            let message = Detection2DArray::decode(&bytes).unwrap();
            assert_eq!((message.header, message.detections.len()), (header, n));
            let decoded: Vec<_> = message.detections.map(Result::unwrap).collect();
            let expected = [
                ("person", 0.75, [11.5, 23.5], [3.0, 5.0]),
                ("car", 0.5, [960.25, 3.5], [1920.5, 7.0]),
            ];
            assert_eq!(decoded.len(), n);
            for (found, (class_id, score, center, size)) in decoded.iter().zip(expected) {
                let best = found.best.unwrap();
                assert_eq!((found.header, found.id), (header, ""));
                assert_eq!((best.class_id, best.score), (class_id, score));
                assert_eq!(best.pose.orientation, [0.0, 0.0, 0.0, 1.0]);
                assert_eq!((found.center, found.size, found.theta_rad), (center, size, 0.0));
            }
        }
    }

    #[test]
    fn rotated_boxes_come_back() {
        let bbox = RotatedBox2d { cx: 11.5, cy: 23.25, width: 40.0, height: 8.0, angle_rad: 0.7 };
        let detections = [Detection2d { class: 0, score: 0.75, bbox }];
        let mut bytes = Vec::new();
        Detection2DArray::encode(&Header::default(), &detections, &["ship"], &mut bytes).unwrap();
        let mut message = Detection2DArray::decode(&bytes).unwrap();
        let found = message.detections.next().unwrap().unwrap();
        assert_eq!((found.center, found.size), ([11.5, 23.25], [40.0, 8.0]));
        assert_eq!(found.theta_rad, f64::from(0.7_f32));
        assert_eq!(found.bbox(), ImageBox::Rotated(bbox));
    }

    #[test]
    fn a_class_without_a_name_is_refused() {
        let detection = Detection2d { class: 2, score: 0.5, bbox: Box2d::default() };
        let error = Detection2DArray::encode(
            &Header::default(),
            &[detection],
            &["car", "person"],
            &mut Vec::new(),
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
    }
}
