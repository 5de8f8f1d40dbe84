//! `tf2_msgs/TFMessage` and `geometry_msgs/TransformStamped`.

use super::field::{Field, record, write_all};
use crate::cdr::{Reader, Sequence, Writer};
use det_post_types::{Header, Result};

record! {
    /// `geometry_msgs/TransformStamped` as in the message, unchecked.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct TransformStamped<'a> {
        /// Stamp and parent frame.
        pub header: Header<'a>,
        /// The child frame.
        pub child_frame_id: &'a str,
        /// Origin of the child in the parent: x, y, z in metres.
        pub translation: [f64; 3],
        /// Rotation `parent_from_child` as a quaternion x, y, z, w.
        pub rotation: [f64; 4],
    }
}

/// `tf2_msgs/TFMessage`, with transforms that are decoded one by one.
#[derive(Clone, Debug)]
pub struct TfMessage<'a> {
    /// The transforms.
    pub transforms: Sequence<'a, TransformStamped<'a>>,
}

impl<'a> TfMessage<'a> {
    /// The ROS name.
    pub const TYPE: &'static str = "tf2_msgs/msg/TFMessage";

    /// Decodes a message.
    ///
    /// # Errors
    /// `Message` when the bytes are not a transform message. A transform that does
    /// not decode is a separate error.
    pub fn decode(cdr: &'a [u8]) -> Result<Self> {
        Self::read(Reader::new(Self::TYPE, cdr)?)
    }

    /// As [`Self::decode`], from a reader at the first field.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn read(reader: Reader<'a>) -> Result<Self> {
        Ok(Self { transforms: Sequence::new(reader, TransformStamped::MIN_SIZE, Field::read)? })
    }

    /// Encodes a message of `transforms` into `bytes`, replacing the content.
    ///
    /// # Errors
    /// `Message` when it exceeds 4 GiB.
    pub fn encode(transforms: &[TransformStamped<'_>], bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        write_all(&mut writer, transforms);
        writer.finish(Self::TYPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Stamp;

    #[test]
    fn transforms_round_trip() {
        let transforms: Vec<_> = ["a", "base_link", ""]
            .iter()
            .enumerate()
            .map(|(i, child_frame_id)| TransformStamped {
                header: Header { stamp: Stamp::from_ros(i as i32, 3), frame_id: "map" },
                child_frame_id,
                translation: [i as f64, 2.0, -3.0],
                rotation: [0.1, 0.2, 0.3, i as f64],
            })
            .collect();
        for n in 0..=transforms.len() {
            let mut bytes = Vec::new();
            TfMessage::encode(&transforms[..n], &mut bytes).unwrap();
            let message = TfMessage::decode(&bytes).unwrap();
            assert_eq!(message.transforms.len(), n);
            let decoded: Vec<_> = message.transforms.map(Result::unwrap).collect();
            assert_eq!(decoded, transforms[..n]);
        }
    }
}
