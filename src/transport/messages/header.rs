//! `std_msgs/Header`.

use crate::error::Result;
use crate::transport::cdr::{Reader, Writer};
use crate::types::{Header, Stamp};

/// Bytes of the shortest header.
pub(super) const MIN_SIZE: usize = 12;

/// Reads a `std_msgs/Header`, the first field of most messages.
///
/// # Errors
/// `Message` when the message ends before or the frame is not a string.
pub fn read_header<'a>(reader: &mut Reader<'a>) -> Result<Header<'a>> {
    let stamp = Stamp::from_ros(reader.i32()?, reader.u32()?);
    Ok(Header { stamp, frame_id: reader.str()? })
}

/// Writes a `std_msgs/Header`. A stamp that ROS cannot say saturates.
pub fn write_header(writer: &mut Writer<'_>, header: &Header<'_>) {
    let (sec, nanosec) = header.stamp.to_ros();
    writer.i32(sec);
    writer.u32(nanosec);
    writer.str(header.frame_id);
}
