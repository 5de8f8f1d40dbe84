//! `rosgraph_msgs/Clock`.

use crate::error::Result;
use crate::transport::cdr::{Reader, Writer};
use crate::types::Stamp;

/// `rosgraph_msgs/Clock`: the time that a recording plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The time.
    pub clock: Stamp,
}

impl Clock {
    /// The ROS name.
    pub const TYPE: &'static str = "rosgraph_msgs/msg/Clock";

    /// Decodes a message.
    ///
    /// # Errors
    /// `Message` when the bytes are too few.
    pub fn decode(cdr: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(Self::TYPE, cdr)?;
        Ok(Self { clock: Stamp::from_ros(reader.i32()?, reader.u32()?) })
    }

    /// Writes the message to `bytes`, replacing what is there. A stamp that
    /// ROS cannot say saturates.
    ///
    /// # Errors
    /// None is possible: the message has a fixed size.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        let (sec, nanosec) = self.clock.to_ros();
        writer.i32(sec);
        writer.u32(nanosec);
        writer.finish(Self::TYPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_round_trips() {
        let message = Clock { clock: Stamp::from_ros(1_700_000_000, 999_999_999) };
        let mut bytes = Vec::new();
        message.encode(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 12);
        assert_eq!(Clock::decode(&bytes).unwrap(), message);
        assert!(Clock::decode(&bytes[..11]).is_err());
    }
}
