//! `ffmpeg_image_transport_msgs/FFMPEGPacket`.

use super::field::{message, record};
use det_post_types::Header;

record! {
    /// `ffmpeg_image_transport_msgs/FFMPEGPacket`, one packet of a stream of video, unchecked.
    /// [`VideoDecoder`](crate::video::VideoDecoder) decodes it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FfmpegPacket<'a> {
        /// Stamp and frame of the picture.
        pub header: Header<'a>,
        /// Pixels per row of the image that was encoded.
        pub width: i32,
        /// Rows of the image that was encoded.
        pub height: i32,
        /// The codec and then, after semicolons, formats of pixels: `h264;yuv420p;bgr8;rgb8`.
        pub encoding: &'a str,
        /// Time of presentation in units of the encoder.
        pub pts: u64,
        /// Bit 0: a key frame, by the encoder.
        pub flags: u8,
        /// Whether the sender is big endian.
        pub is_bigendian: bool,
        /// The packet.
        pub data: &'a [u8],
    }
}

message!(FfmpegPacket<'a>: "ffmpeg_image_transport_msgs/msg/FFMPEGPacket");
