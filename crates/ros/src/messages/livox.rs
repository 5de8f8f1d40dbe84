//! `CustomMsg` of Livox's drivers.

use super::field::Field;
use crate::cdr::{Reader, Writer};
use det_post_types::{Header, Result};

/// Bytes of a `CustomPoint` on the wire: `offset_time` (uint32), `x`, `y`, `z` (float32),
/// `reflectivity`, `tag`, `line` (uint8).
const POINT_SIZE: usize = 19;

/// `CustomMsg`: the points of a Livox LiDAR as an array, unchecked. Its layout is the same in the
/// packages `livox_ros_driver`, `livox_ros_driver2` and `livox_interfaces`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LivoxCustomMsg<'a> {
    /// Stamp and frame. The drivers write `timebase` as the stamp.
    pub header: Header<'a>,
    /// The time in nanoseconds to which `offset_time` is added.
    pub timebase: u64,
    /// The number of points as the driver counts it; the length of `points` decides.
    pub point_num: u32,
    /// The number of the LiDAR.
    pub lidar_id: u8,
    /// Reserved.
    pub rsvd: [u8; 3],
    /// The points as on the wire, [`Self::POINT_STEP`] bytes from one to the next; the last one lacks
    /// the byte of padding.
    pub points: &'a [u8],
    /// Whether the points are big endian, as the rest of their message.
    pub is_big_endian: bool,
}

impl<'a> LivoxCustomMsg<'a> {
    /// The ROS name in the package of the driver of HAP and Mid-360.
    pub const TYPE: &'static str = "livox_ros_driver2/msg/CustomMsg";
    /// The ROS name in the package of the driver for ROS 1, as in recordings that were converted.
    pub const DRIVER_1_TYPE: &'static str = "livox_ros_driver/msg/CustomMsg";
    /// The ROS name in the package of `livox_ros2_driver`.
    pub const INTERFACES_TYPE: &'static str = "livox_interfaces/msg/CustomMsg";

    /// Bytes from one point to the next.
    pub const POINT_STEP: usize = 20;

    /// Decodes a message.
    ///
    /// # Errors
    /// `Message` when the bytes are not such a message.
    pub fn decode(cdr: &'a [u8]) -> Result<Self> {
        Self::read(Reader::new(Self::TYPE, cdr)?)
    }

    /// As [`Self::decode`], from a reader at the first field.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn read(mut reader: Reader<'a>) -> Result<Self> {
        Ok(Self {
            header: Field::read(&mut reader)?,
            timebase: reader.u64()?,
            point_num: reader.u32()?,
            lidar_id: reader.u8()?,
            rsvd: [reader.u8()?, reader.u8()?, reader.u8()?],
            is_big_endian: reader.is_big_endian(),
            points: reader.structs(POINT_SIZE, Self::POINT_STEP)?,
        })
    }

    /// The number of points.
    pub fn num_points(&self) -> usize {
        self.points.len().div_ceil(Self::POINT_STEP)
    }

    /// Encodes the message into `bytes`, replacing the content. Points that are big endian are written as
    /// they are.
    ///
    /// # Errors
    /// `Message` when it exceeds 4 GiB.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        self.header.write(&mut writer);
        writer.u64(self.timebase);
        writer.u32(self.point_num);
        writer.u8(self.lidar_id);
        self.rsvd.iter().for_each(|byte| writer.u8(*byte));
        writer.sequence_len(self.num_points());
        self.points.iter().for_each(|byte| writer.u8(*byte));
        writer.finish(Self::TYPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{ErrorKind, Stamp};

    #[test]
    fn a_message_round_trips() {
        for num_points in [0, 1, 2, 7] {
            let points: Vec<u8> = (0..20 * num_points).map(|n| n as u8).collect();
            let message = LivoxCustomMsg {
                header: Header { stamp: Stamp::from_ros(3, 4), frame_id: "livox_frame" },
                timebase: 3_000_000_004,
                point_num: num_points as u32,
                lidar_id: 7,
                rsvd: [1, 2, 3],
                points: &points[..points.len().saturating_sub(1)],
                is_big_endian: false,
            };
            let mut cdr = Vec::new();
            message.encode(&mut cdr).unwrap();
            let decoded = LivoxCustomMsg::decode(&cdr).unwrap();
            assert_eq!((decoded.header, decoded.timebase), (message.header, message.timebase));
            assert_eq!((decoded.lidar_id, decoded.rsvd), (7, [1, 2, 3]));
            assert_eq!((decoded.points, decoded.num_points()), (message.points, num_points));
            assert!(!decoded.is_big_endian);
        }
    }

    #[test]
    fn more_points_than_the_message_holds_are_refused() {
        let points = [0; 39];
        let message = LivoxCustomMsg { points: &points, ..LivoxCustomMsg::default() };
        let mut cdr = Vec::new();
        message.encode(&mut cdr).unwrap();
        // header 4 + stamp 8 + frame 5 padded to 8 + timebase 8 + 8: the length of the points.
        let at = 4 + 8 + 8 + 8 + 8;
        assert_eq!(cdr[at..at + 4], [2, 0, 0, 0]);
        for len in [3, 1000, u32::MAX] {
            cdr[at..at + 4].copy_from_slice(&len.to_le_bytes());
            assert_eq!(LivoxCustomMsg::decode(&cdr).unwrap_err().kind(), ErrorKind::Message);
        }
    }
}
