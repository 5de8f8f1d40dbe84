//! `bond/Status`.

use super::header::{read_header, write_header};
use crate::error::Result;
use crate::transport::cdr::{Reader, Writer};
use crate::types::Header;

/// `bond/Status`: a heartbeat of one of the two sides of a bond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BondStatus<'a> {
    /// When; the frame is not used.
    pub header: Header<'a>,
    /// Name of the bond, which both sides share.
    pub id: &'a str,
    /// Name of the side, unique.
    pub instance_id: &'a str,
    /// Whether the side is alive.
    pub active: bool,
    /// After how long without a heartbeat the side breaks the bond, in seconds.
    pub heartbeat_timeout_s: f32,
    /// Time from one of its heartbeats to the next, in seconds.
    pub heartbeat_period_s: f32,
}

impl<'a> BondStatus<'a> {
    /// The ROS name.
    pub const TYPE: &'static str = "bond/msg/Status";

    /// Decodes a message.
    ///
    /// # Errors
    /// `Message` when the bytes cannot be one.
    pub fn decode(cdr: &'a [u8]) -> Result<Self> {
        Self::read(Reader::new(Self::TYPE, cdr)?)
    }

    /// As [`BondStatus::decode`], of a message whose encapsulation header was read.
    ///
    /// # Errors
    /// As [`BondStatus::decode`].
    pub fn read(mut reader: Reader<'a>) -> Result<Self> {
        Ok(Self {
            header: read_header(&mut reader)?,
            id: reader.str()?,
            instance_id: reader.str()?,
            active: reader.bool()?,
            heartbeat_timeout_s: reader.f32()?,
            heartbeat_period_s: reader.f32()?,
        })
    }

    /// Writes the message to `bytes`, replacing what is there.
    ///
    /// # Errors
    /// `Message` when it would have 4 GiB or more.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        write_header(&mut writer, &self.header);
        writer.str(self.id);
        writer.str(self.instance_id);
        writer.bool(self.active);
        writer.f32(self.heartbeat_timeout_s);
        writer.f32(self.heartbeat_period_s);
        writer.finish(Self::TYPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Stamp;

    #[test]
    fn a_heartbeat_round_trips() {
        let status = BondStatus {
            header: Header { stamp: Stamp::from_ros(5, 6), frame_id: "" },
            id: "det_post",
            instance_id: "d2c1",
            active: true,
            heartbeat_timeout_s: 4.0,
            heartbeat_period_s: 0.1,
        };
        let mut bytes = Vec::new();
        status.encode(&mut bytes).unwrap();
        assert_eq!(BondStatus::decode(&bytes).unwrap(), status);
        assert!(BondStatus::decode(&bytes[..bytes.len() - 4]).is_err());
    }
}
