//! Middlewares: bytes in and out. Recordings, the live ROS graph, ROS 2 messages as
//! CDR, truth as messages, and the buffer of transforms. Nothing here knows an
//! op, a head or a network.

pub mod bag;
pub mod cdr;
#[cfg(feature = "dds")]
pub mod dds;
pub mod memory;
pub mod messages;
pub mod middleware;
#[cfg(feature = "ros2")]
pub mod ros2;
#[cfg(any(feature = "dds", feature = "ros2"))]
mod socket_buffers;
pub mod tf;
pub mod truth;
