//! `diagnostic_msgs/DiagnosticArray`.

use super::header::write_header;
use crate::error::Result;
use crate::transport::cdr::Writer;
use crate::types::Header;

/// How well a part does, the worst last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DiagnosticLevel {
    /// As it should.
    #[default]
    Ok = 0,
    /// It works, and something should be looked at.
    Warn = 1,
    /// It does not do its work.
    Error = 2,
    /// Nothing has been heard of what it works on for a while.
    Stale = 3,
}

/// `diagnostic_msgs/DiagnosticStatus`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiagnosticStatus {
    /// How well it does.
    pub level: DiagnosticLevel,
    /// Which part, such as `det_post: camera: input`.
    pub name: String,
    /// In one sentence.
    pub message: String,
    /// On which hardware.
    pub hardware_id: String,
    /// The numbers.
    pub values: Vec<(String, String)>,
}

/// `diagnostic_msgs/DiagnosticArray`.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticArray<'a> {
    /// When; the frame is not used.
    pub header: Header<'a>,
    /// The parts.
    pub status: &'a [DiagnosticStatus],
}

impl DiagnosticArray<'_> {
    /// The ROS name.
    pub const TYPE: &'static str = "diagnostic_msgs/msg/DiagnosticArray";

    /// Writes the message to `bytes`, replacing what is there.
    ///
    /// # Errors
    /// `Message` when it would have 4 GiB or more.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        write_header(&mut writer, &self.header);
        writer.sequence_len(self.status.len());
        for status in self.status {
            writer.u8(status.level as u8);
            writer.str(&status.name);
            writer.str(&status.message);
            writer.str(&status.hardware_id);
            writer.sequence_len(status.values.len());
            for (key, value) in &status.values {
                writer.str(key);
                writer.str(value);
            }
        }
        writer.finish(Self::TYPE)
    }
}
