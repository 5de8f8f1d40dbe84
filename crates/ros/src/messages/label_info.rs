//! `vision_msgs/LabelInfo`: the class table of a channel.

use super::field::Field;
use crate::cdr::Writer;
use det_post_types::{Error, ErrorKind, Header, Result};

/// `vision_msgs/LabelInfo` with the `class_map` of its classes.
#[derive(Clone, Copy, Debug)]
pub struct LabelInfo<'a, S> {
    /// Stamp and frame.
    pub header: Header<'a>,
    /// Name of each class, in the order of its index, which is its
    /// `VisionClass.class_id`.
    pub class_names: &'a [S],
    /// Minimum score of published detections.
    pub threshold: f32,
}

impl LabelInfo<'_, &str> {
    /// The ROS name.
    pub const TYPE: &'static str = "vision_msgs/msg/LabelInfo";
}

impl<S: AsRef<str>> LabelInfo<'_, S> {
    /// Encodes the message into `bytes`, replacing the content.
    ///
    /// # Errors
    /// `Argument` when a class index exceeds 16 bits, `Message`
    /// when the message would have 4 GiB or more.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        const TYPE: &str = LabelInfo::TYPE;
        let mut writer = Writer::new(bytes);
        self.header.write(&mut writer);
        writer.sequence_len(self.class_names.len());
        for (class, name) in self.class_names.iter().enumerate() {
            let class = u16::try_from(class).map_err(|_| {
                Error::new(
                    ErrorKind::Argument,
                    TYPE,
                    format!("{} classes exceed the limit of {}", self.class_names.len(), 1 << 16),
                )
            })?;
            writer.u16(class);
            writer.str(name.as_ref());
        }
        writer.f32(self.threshold);
        writer.finish(TYPE)
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::read_header;
    use super::*;
    use crate::cdr::Reader;
    use det_post_types::Stamp;

    #[test]
    fn the_table_is_written_in_order() {
        let header = Header { stamp: Stamp::from_ros(1, 2), frame_id: "camera" };
        let class_names = ["car", "", "traffic light"];
        let mut bytes = Vec::new();
        LabelInfo { header, class_names: &class_names, threshold: 0.25 }
            .encode(&mut bytes)
            .unwrap();
        let mut reader = Reader::new("test", &bytes).unwrap();
        assert_eq!(read_header(&mut reader).unwrap(), header);
        assert_eq!(reader.sequence_len(6).unwrap(), 3);
        for (class, name) in class_names.iter().enumerate() {
            assert_eq!(usize::from(reader.u16().unwrap()), class);
            assert_eq!(reader.str().unwrap(), *name);
        }
        assert_eq!(reader.f32().unwrap().to_bits(), 0.25f32.to_bits());
    }

    #[test]
    fn class_indices_have_16_bits() {
        let names = vec![""; (1 << 16) + 1];
        let encode = |class_names: &[&str]| {
            LabelInfo { header: Header::default(), class_names, threshold: 0.0 }
                .encode(&mut Vec::new())
        };
        assert!(encode(&names[1..]).is_ok());
        assert_eq!(encode(&names).unwrap_err().kind(), ErrorKind::Argument);
    }
}
