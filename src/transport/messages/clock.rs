//! `rosgraph_msgs/Clock`.

use super::header::{read_stamp, write_stamp};
use crate::error::Result;
use crate::transport::cdr::{Reader, Writer};
use crate::types::Stamp;

/// `rosgraph_msgs/Clock`: simulated or replayed time.
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
        Self::read(Reader::new(Self::TYPE, cdr)?)
    }

    /// As [`Self::decode`], from a reader at the first field.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn read(mut reader: Reader<'_>) -> Result<Self> {
        Ok(Self { clock: read_stamp(&mut reader)? })
    }

    /// Encodes the message into `bytes`, replacing the content. A stamp outside the
    /// range of ROS saturates.
    ///
    /// # Errors
    /// None: the message has a fixed size.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        write_stamp(&mut writer, self.clock);
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
