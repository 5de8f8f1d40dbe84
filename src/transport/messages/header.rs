//! `std_msgs/Header`.

use crate::error::Result;
use crate::transport::cdr::{Reader, Writer};
use crate::types::{Header, Stamp};

/// Size of the shortest header in bytes.
pub(super) const MIN_SIZE: usize = 12;

/// Reads a `std_msgs/Header`, the first field of most messages.
///
/// # Errors
/// `Message` when the message ends before or the frame is not a string.
pub fn read_header<'a>(reader: &mut Reader<'a>) -> Result<Header<'a>> {
    Ok(Header { stamp: read_stamp(reader)?, frame_id: reader.str()? })
}

/// Writes a `std_msgs/Header`. A stamp outside the range of ROS saturates.
pub fn write_header(writer: &mut Writer<'_>, header: &Header<'_>) {
    write_stamp(writer, header.stamp);
    writer.str(header.frame_id);
}

/// Reads a `builtin_interfaces/Time`.
pub(super) fn read_stamp(reader: &mut Reader<'_>) -> Result<Stamp> {
    Ok(Stamp::from_ros(reader.i32()?, reader.u32()?))
}

/// Writes a `builtin_interfaces/Time`. A stamp outside the range of ROS
/// saturates.
pub(super) fn write_stamp(writer: &mut Writer<'_>, stamp: Stamp) {
    let (sec, nanosec) = stamp.to_ros();
    writer.i32(sec);
    writer.u32(nanosec);
}
