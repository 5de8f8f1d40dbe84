//! Keypoints as a message that every ROS has.

use det_post_ros::messages::PointCloud2;
use det_post_types::{Header, Keypoints, PointField, PointFields, Result};

/// Topic of the keypoints of a channel, below its detections.
pub const KEYPOINTS: &str = "keypoints";

/// The numbers of a keypoint in the message.
const FIELDS: [&str; 3] = ["x", "y", "score"];

/// `FLOAT32` of `sensor_msgs/PointField`.
const FLOAT32: u8 = 7;

/// Encodes the keypoints of `num_detections` as a `sensor_msgs/PointCloud2`, replacing the content of
/// `message`: a row per detection, in the order of its message, and in it a point per keypoint
/// with `x` and `y` in pixels of the source image and `score`, all `FLOAT32`. `data` is scratch memory.
///
/// # Errors
/// `Message` when the message exceeds 4 GiB.
pub fn encode_keypoints(
    header: &Header<'_>,
    num_detections: usize,
    keypoints: &Keypoints<'_>,
    data: &mut Vec<u8>,
    message: &mut Vec<u8>,
) -> Result<()> {
    data.clear();
    for keypoint in keypoints.all {
        for number in [keypoint.x, keypoint.y, keypoint.score] {
            data.extend(number.to_le_bytes());
        }
    }
    let mut fields = PointFields::new();
    for (offset, name) in (0..).step_by(4).zip(FIELDS) {
        fields.push(PointField { name, offset, datatype: FLOAT32, count: 1 })?;
    }
    let point_step = 4 * FIELDS.len() as u32;
    let width = keypoints.num_per_detection as u32;
    PointCloud2 {
        header: *header,
        height: num_detections as u32,
        width,
        fields,
        is_bigendian: false,
        point_step,
        row_step: point_step * width,
        data,
        is_dense: true,
    }
    .encode(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Keypoint;

    #[test]
    fn a_row_has_the_keypoints_of_a_detection() {
        let all: Vec<Keypoint> =
            (0..6).map(|n| Keypoint { x: n as f32, y: 0.5, score: 0.25 }).collect();
        let keypoints = Keypoints { num_per_detection: 3, all: &all };
        let mut message = Vec::new();
        encode_keypoints(&Header::default(), 2, &keypoints, &mut Vec::new(), &mut message).unwrap();
        let cloud = PointCloud2::decode(&message).unwrap();
        assert_eq!((cloud.height, cloud.width, cloud.point_step), (2, 3, 12));
        assert_eq!(cloud.view().unwrap().num_points(), 6);
        let number = |at: usize| f32::from_le_bytes(cloud.data[at..at + 4].try_into().unwrap());
        assert_eq!([number(48), number(52), number(56)], [4.0, 0.5, 0.25]);
        // Without detections.
        let none = Keypoints { num_per_detection: 3, all: &[] };
        encode_keypoints(&Header::default(), 0, &none, &mut Vec::new(), &mut message).unwrap();
        let cloud = PointCloud2::decode(&message).unwrap();
        assert_eq!((cloud.height, cloud.view().unwrap().num_points()), (0, 0));
    }
}
