//! Times that nodes of Autoware publish for debugging.

use super::header::{write_header, write_stamp};
use crate::error::Result;
use crate::transport::cdr::Writer;
use crate::types::{DebugTimesType, Header, Stamp};

/// `autoware_internal_debug_msgs/Float64Stamped`: a number and its time.
#[derive(Clone, Copy, Debug)]
pub struct Float64Stamped {
    /// The time of the measurement.
    pub stamp: Stamp,
    /// The number.
    pub data: f64,
}

impl Float64Stamped {
    /// The ROS name.
    pub const TYPE: &'static str = "autoware_internal_debug_msgs/msg/Float64Stamped";

    /// The ROS name until 2025-02. The fields and therefore the bytes are the same.
    pub const FORMER_TYPE: &'static str = "tier4_debug_msgs/msg/Float64Stamped";

    /// Encodes the message into `bytes`, replacing the content.
    ///
    /// # Errors
    /// None: it has 16 bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        write_stamp(&mut writer, self.stamp);
        writer.f64(self.data);
        writer.finish(Self::TYPE)
    }
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

/// `autoware_internal_msgs/PublishedTime`: when the message with a header was published.
#[derive(Clone, Copy, Debug)]
pub struct PublishedTime<'a> {
    /// The header of the message.
    pub header: Header<'a>,
    /// The time at which it was published.
    pub published: Stamp,
}

impl PublishedTime<'_> {
    /// The ROS name.
    pub const TYPE: &'static str = "autoware_internal_msgs/msg/PublishedTime";

    /// Encodes the message into `bytes`, replacing the content.
    ///
    /// # Errors
    /// `Message` when the message would have 4 GiB or more.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        write_header(&mut writer, &self.header);
        write_stamp(&mut writer, self.published);
        writer.finish(Self::TYPE)
    }
}
