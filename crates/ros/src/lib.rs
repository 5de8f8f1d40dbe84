//! Transport: recordings, middlewares, ROS 2 messages as CDR, ground truth as
//! messages, calibration files, and the buffer of transforms. Independent of
//! operations, heads and networks.

pub mod bag;
pub mod calibration_files;
pub mod cdr;
#[cfg(feature = "dds")]
pub mod dds;
pub mod messages;
pub mod middleware;
#[cfg(feature = "ros2")]
pub mod ros2;
#[cfg(any(feature = "dds", feature = "ros2"))]
mod socket_buffers;
pub mod tf;
pub mod truth;
