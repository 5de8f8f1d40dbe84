//! `rcl_interfaces/Log`.

use super::field::Field;
use crate::LogLevel;
use crate::cdr::Writer;
use det_post_types::{Result, Stamp};

/// `rcl_interfaces/Log`: an entry of a log, as `/rosout` carries it.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    /// When, by the system's clock.
    pub stamp: Stamp,
    /// Its severity.
    pub level: LogLevel,
    /// Name of the logger.
    pub name: &'a str,
    /// The text.
    pub message: &'a str,
    /// Source file.
    pub file: &'a str,
    /// Function or module.
    pub function: &'a str,
    /// Line in the source file.
    pub line: u32,
}

impl Log<'_> {
    /// The ROS name.
    pub const TYPE: &'static str = "rcl_interfaces/msg/Log";

    /// Writes the message to `bytes`, replacing what is there.
    ///
    /// # Errors
    /// `Message` when it would have 4 GiB or more.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        self.stamp.write(&mut writer);
        writer.u8(self.level as u8);
        writer.str(self.name);
        writer.str(self.message);
        writer.str(self.file);
        writer.str(self.function);
        writer.u32(self.line);
        writer.finish(Self::TYPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdr::Reader;

    #[test]
    fn the_fields_are_in_the_order_of_ros() {
        let log = Log {
            stamp: Stamp::from_ros(12, 34),
            level: LogLevel::Warn,
            name: "front.det_post",
            message: "a frame is dropped",
            file: "src/node/worker.rs",
            function: "det_post::node::worker",
            line: 77,
        };
        let mut bytes = Vec::new();
        log.encode(&mut bytes).unwrap();
        let mut reader = Reader::new(Log::TYPE, &bytes).unwrap();
        assert_eq!(
            (reader.i32().unwrap(), reader.u32().unwrap(), reader.u8().unwrap()),
            (12, 34, 30)
        );
        for text in [log.name, log.message, log.file, log.function] {
            assert_eq!(reader.str().unwrap(), text);
        }
        assert_eq!(reader.u32().unwrap(), 77);
    }
}
