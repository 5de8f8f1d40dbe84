//! `vision_msgs/Detection3DArray`, 4.x layout.

use super::detection::{Detection, DetectionArray, Hypothesis, Pose, class_name, write_array};
use super::field::{Field, record};
use det_post_types::{Detection3d, Header, Result, Variance3d};

record! {
    /// `vision_msgs/Detection3D`: metres, in the frame of the header.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Detection3D<'a> {
        /// Stamp and frame.
        pub header: Header<'a>,
        /// The hypothesis with the highest score, if there is one.
        pub best: Option<Hypothesis<'a>>,
        /// Centre and orientation of the box.
        pub center: Pose,
        /// Extents along the local axes: length, width, height.
        pub size: [f64; 3],
        /// Identifier of a tracked object, or empty.
        pub id: &'a str,
    }
}

/// `vision_msgs/Detection3DArray`.
pub type Detection3DArray<'a> = DetectionArray<'a, Detection3D<'a>>;

impl<'a> Detection<'a> for Detection3D<'a> {
    const ARRAY_TYPE: &'static str = "vision_msgs/msg/Detection3DArray";
}

impl Detection3DArray<'_> {
    /// Encodes `detections` into `bytes`, replacing the content.
    ///
    /// The array and every detection carry `header`. Each has one hypothesis,
    /// whose `class_id` is the class's name and whose pose is the box's; its
    /// covariance has the variances of x, y, z and yaw on the diagonal, or is
    /// zero when there are none. The yaw rotates about z; sizes are length,
    /// width, height. `vision_msgs` has no field for velocities.
    ///
    /// # Errors
    /// `Argument` when a class has no name, `Message` when the message would
    /// have 4 GiB or more.
    pub fn encode<S: AsRef<str>>(
        header: &Header<'_>,
        detections: &[Detection3d],
        class_names: &[S],
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        write_array(Self::TYPE, header, detections, bytes, |detection, writer| {
            let bbox = &detection.object.bbox;
            let pose = Pose::from_yaw(bbox.center.map(f64::from), bbox.yaw_rad.into());
            let hypothesis = Hypothesis {
                class_id: class_name(detection.class, class_names, Self::TYPE)?,
                score: detection.score.into(),
                pose,
                covariance: detection.object.variance.map_or([0.0; 36], pose_covariance),
            };
            let size = [bbox.length_m, bbox.width_m, bbox.height_m].map(f64::from);
            let best = Some(hypothesis);
            Detection3D { header: *header, best, center: pose, size, id: "" }.write(writer);
            Ok(())
        })
    }
}

/// The diagonal 6x6 matrix over x, y, z and the rotations about x, y, z.
fn pose_covariance(variance: Variance3d) -> [f64; 36] {
    let [x, y, z] = variance.center;
    let mut covariance = [0.0; 36];
    for (i, value) in [x, y, z, 0.0, 0.0, variance.yaw].into_iter().enumerate() {
        covariance[7 * i] = value.into();
    }
    covariance
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{Box3d, ErrorKind, Object3d, Stamp};

    fn detection(class: u32, yaw_rad: f32, variance: Option<Variance3d>) -> Detection3d {
        Detection3d {
            class,
            score: 0.625,
            object: Object3d {
                bbox: Box3d {
                    center: [1.5, -2.25, 0.5],
                    length_m: 4.0,
                    width_m: 2.0,
                    height_m: 1.5,
                    yaw_rad,
                },
                velocity_mps: Some([1.0, 2.0]),
                variance,
            },
        }
    }

    #[test]
    fn detections_are_written_in_metres() {
        let header = Header { stamp: Stamp::from_ros(12, 34), frame_id: "velodyne" };
        let variance = Variance3d {
            center: [0.25, 0.5, 0.75],
            size: [1.0; 3],
            yaw: 0.125,
            velocity: [2.0; 2],
        };
        let detections = [detection(0, 0.4, None), detection(1, -2.7, Some(variance))];
        for n in 0..=2 {
            let mut bytes = Vec::new();
            Detection3DArray::encode(&header, &detections[..n], &["car", "pedestrian"], &mut bytes)
                .unwrap();
            let message = Detection3DArray::decode(&bytes).unwrap();
            assert_eq!((message.header, message.detections.len()), (header, n));
            let decoded: Vec<_> = message.detections.map(Result::unwrap).collect();
            assert_eq!(decoded.len(), n);
            for (found, yaw) in decoded.iter().zip([0.4f32, -2.7]) {
                let best = found.best.unwrap();
                assert_eq!((found.header, found.id), (header, ""));
                assert_eq!((best.score, best.pose), (0.625, found.center));
                assert_eq!(found.center.position, [1.5, -2.25, 0.5]);
                assert!((found.center.yaw_rad() - f64::from(yaw)).abs() < 1e-12);
                assert_eq!(found.size, [4.0, 2.0, 1.5]);
            }
            if n == 2 {
                let [first, second] = [0, 1].map(|i| decoded[i].best.unwrap());
                assert_eq!((first.class_id, second.class_id), ("car", "pedestrian"));
                assert_eq!(first.covariance, [0.0; 36]);
                let diagonal: Vec<_> = second.covariance.iter().step_by(7).copied().collect();
                assert_eq!(diagonal, [0.25, 0.5, 0.75, 0.0, 0.0, 0.125]);
                assert_eq!(second.covariance.iter().sum::<f64>(), 1.625);
            }
        }
    }

    #[test]
    fn a_class_without_a_name_is_refused() {
        let error = Detection3DArray::encode(
            &Header::default(),
            &[detection(1, 0.0, None)],
            &["car"],
            &mut Vec::new(),
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
    }
}
