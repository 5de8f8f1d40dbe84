//! `foxglove_msgs/CompressedVideo`.

use super::field::{message, record};
use det_post_types::Header;

record! {
    /// `foxglove_msgs/CompressedVideo`, one picture of a stream of video, unchecked. Fields that newer
    /// definitions append are not read. [`VideoDecoder`](crate::video::VideoDecoder) decodes it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CompressedVideo<'a> {
        /// `timestamp` and `frame_id`, which are on the wire as a header.
        pub header: Header<'a>,
        /// The packet.
        pub data: &'a [u8],
        /// The codec, such as `h264`.
        pub format: &'a str,
    }
}

message!(CompressedVideo<'a>: "foxglove_msgs/msg/CompressedVideo");
