//! `std_msgs/Header` and `builtin_interfaces/Time`.

use super::field::Field;
use crate::cdr::{Reader, Writer};
use det_post_types::{Header, Result, Stamp};

/// `builtin_interfaces/Time`. A stamp outside the range of ROS saturates.
impl Field<'_> for Stamp {
    const MIN_SIZE: usize = 8;

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self::from_ros(reader.i32()?, reader.u32()?))
    }

    fn write(&self, writer: &mut Writer<'_>) {
        let (sec, nanosec) = self.to_ros();
        writer.i32(sec);
        writer.u32(nanosec);
    }
}

impl<'a> Field<'a> for Header<'a> {
    const MIN_SIZE: usize = Stamp::MIN_SIZE + <&str>::MIN_SIZE;

    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(Self { stamp: Field::read(reader)?, frame_id: reader.str()? })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        self.stamp.write(writer);
        writer.str(self.frame_id);
    }
}

/// Reads a `std_msgs/Header`, the first field of most messages.
///
/// # Errors
/// `Message` when the message ends before or the frame is not a string.
pub fn read_header<'a>(reader: &mut Reader<'a>) -> Result<Header<'a>> {
    Field::read(reader)
}
