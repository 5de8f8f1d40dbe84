//! `diagnostic_msgs/DiagnosticArray`.

use super::field::Field;
use crate::cdr::Writer;
use det_post_types::{Header, Result};

/// Levels of diagnostics in ascending severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DiagnosticLevel {
    /// No problem.
    #[default]
    Ok = 0,
    /// It works, but needs attention.
    Warn = 1,
    /// It does not work.
    Error = 2,
    /// It has received no data for a while.
    Stale = 3,
}

/// `diagnostic_msgs/DiagnosticStatus`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiagnosticStatus {
    /// Its level.
    pub level: DiagnosticLevel,
    /// Name of the part, such as `det_post: camera: input`.
    pub name: String,
    /// A summary in one line.
    pub message: String,
    /// The hardware that it runs on.
    pub hardware_id: String,
    /// Keys and values.
    pub values: Vec<(String, String)>,
}

/// `diagnostic_msgs/DiagnosticArray`.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticArray<'a> {
    /// The time; the frame is unused.
    pub header: Header<'a>,
    /// One status per part.
    pub status: &'a [DiagnosticStatus],
}

impl DiagnosticArray<'_> {
    /// The ROS name.
    pub const TYPE: &'static str = "diagnostic_msgs/msg/DiagnosticArray";

    /// Encodes the message into `bytes`, replacing the content.
    ///
    /// # Errors
    /// `Message` when it exceeds 4 GiB.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        self.header.write(&mut writer);
        writer.sequence(self.status, |writer, status| {
            writer.u8(status.level as u8);
            writer.str(&status.name);
            writer.str(&status.message);
            writer.str(&status.hardware_id);
            writer.sequence(&status.values, |writer, (key, value)| {
                writer.str(key);
                writer.str(value);
            });
        });
        writer.finish(Self::TYPE)
    }
}
