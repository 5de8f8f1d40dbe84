//! Times that nodes of Autoware publish for debugging.

use super::field::{message, record};
use crate::DebugTimesType;
use det_post_types::{Header, Stamp};

record! {
    /// `autoware_internal_debug_msgs/Float64Stamped`: a number and its time.
    #[derive(Clone, Copy, Debug)]
    pub struct Float64Stamped {
        /// The time of the measurement.
        pub stamp: Stamp,
        /// The number.
        pub data: f64,
    }
}

message!(Float64Stamped: "autoware_internal_debug_msgs/msg/Float64Stamped");

impl Float64Stamped {
    /// The ROS name until 2025-02. The fields and therefore the bytes are the same.
    pub const FORMER_TYPE: &'static str = "tier4_debug_msgs/msg/Float64Stamped";
}

impl DebugTimesType {
    /// The ROS name of the message.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::AutowareInternalDebug => Float64Stamped::TYPE,
            Self::Tier4Debug => Float64Stamped::FORMER_TYPE,
        }
    }
}

record! {
    /// `autoware_internal_msgs/PublishedTime`: when the message with a header was published.
    #[derive(Clone, Copy, Debug)]
    pub struct PublishedTime<'a> {
        /// The header of the message.
        pub header: Header<'a>,
        /// The time at which it was published.
        pub published: Stamp,
    }
}

message!(PublishedTime<'a>: "autoware_internal_msgs/msg/PublishedTime");
