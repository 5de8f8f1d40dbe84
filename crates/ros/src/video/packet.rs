//! The messages of video, and their packets.

use super::bits::STAGE;
use crate::cdr::Reader;
use crate::messages::{CompressedImage, CompressedVideo, FfmpegPacket, Image};
use det_post_types::{Error, ErrorKind, Header, Result};

/// The messages that carry packets of video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VideoMessage {
    /// `foxglove_msgs/CompressedVideo`.
    Foxglove,
    /// `ffmpeg_image_transport_msgs/FFMPEGPacket`.
    Ffmpeg,
    /// `sensor_msgs/CompressedImage` with the name of a codec as its `format`.
    CompressedImage,
    /// `sensor_msgs/Image` with the name of a codec as its `encoding`.
    Image,
}

/// Codecs of video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codec {
    H264,
    H265,
    Vp9,
    Av1,
}

impl Codec {
    /// The codec of a name: of a format, or of an encoder of FFmpeg such as `libx264` and `h264_nvenc`.
    fn of_name(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase();
        let has = |part: &str| name.contains(part);
        match name.as_str() {
            "avc" | "avc1" | "h.264" => Some(Self::H264),
            "h.265" => Some(Self::H265),
            _ if has("h264") || has("x264") => Some(Self::H264),
            _ if has("h265") || has("x265") || has("hevc") => Some(Self::H265),
            _ if has("vp9") => Some(Self::Vp9),
            _ if name == "av1" || has("_av1") || has("av1_") || has("aom-av1") => Some(Self::Av1),
            _ => None,
        }
    }

    /// The codec of the first of several names.
    fn of_list(names: &str) -> Option<Self> {
        names.split(';').next().and_then(Self::of_name)
    }
}

/// A packet and its header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) header: Header<'a>,
    pub(super) data: &'a [u8],
}

impl VideoMessage {
    /// The types of messages that are video and nothing else.
    pub const ONLY_VIDEO: [Self; 2] = [Self::Foxglove, Self::Ffmpeg];

    /// The ROS name of the messages.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Foxglove => CompressedVideo::TYPE,
            Self::Ffmpeg => FfmpegPacket::TYPE,
            Self::CompressedImage => CompressedImage::TYPE,
            Self::Image => Image::TYPE,
        }
    }

    /// The messages of this ROS name that are video and nothing else; `None` for other types.
    pub fn of_type(type_name: &str) -> Option<Self> {
        Self::ONLY_VIDEO.into_iter().find(|kind| kind.type_name() == type_name)
    }

    /// The name of the transport of `image_transport` that publishes and decodes the messages.
    pub fn transport(self) -> &'static str {
        match self {
            Self::Foxglove => "foxglove",
            Self::Ffmpeg => "ffmpeg",
            Self::CompressedImage => "compressed",
            Self::Image => "raw",
        }
    }

    /// The packet of a CDR message.
    ///
    /// # Errors
    /// `Message` when it does not decode, `Encoding` when it is not H.264, with a command that decodes it.
    pub(super) fn packet(self, cdr: &[u8]) -> Result<Packet<'_>> {
        let reader = Reader::new(self.type_name(), cdr)?;
        let (header, name, data) = match self {
            Self::Foxglove => {
                let CompressedVideo { header, data, format } = CompressedVideo::read(reader)?;
                (header, format, data)
            }
            Self::Ffmpeg => {
                let FfmpegPacket { header, encoding, data, .. } = FfmpegPacket::read(reader)?;
                (header, encoding, data)
            }
            Self::CompressedImage => {
                let CompressedImage { header, format, data } = CompressedImage::read(reader)?;
                (header, format, data)
            }
            Self::Image => {
                let Image { header, encoding, data, .. } = Image::read(reader)?;
                (header, encoding, data)
            }
        };
        if Codec::of_list(name) == Some(Codec::H264) {
            return Ok(Packet { header, data });
        }
        let message = format!("video of format {name:?}; decoded is h264{}", self.advice());
        Err(Error::new(ErrorKind::Encoding, STAGE, message))
    }

    /// How other codecs become images.
    fn advice(self) -> String {
        match self {
            Self::Foxglove | Self::Ffmpeg => {
                let transport = self.transport();
                format!(
                    ". Images of it: `ros2 run image_transport republish --ros-args -p in_transport:={transport} \
                     -p out_transport:=raw -r in/{transport}:=TOPIC -r out:=DECODED`, and `input: DECODED`"
                )
            }
            Self::CompressedImage | Self::Image => {
                ". Let the sender encode to h264, or publish images".to_owned()
            }
        }
    }
}

/// Whether the `format` of a `CompressedImage` or the `encoding` of an `Image` names a codec of video.
pub fn names_video(format: &str) -> bool {
    Codec::of_list(format).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_are_named_as_formats_and_encoders() {
        use Codec::{Av1, H264, H265, Vp9};
        for (name, expected) in [
            ("h264", Some(H264)),
            ("H264", Some(H264)),
            ("h264;yuv420p;bgr8;rgb8", Some(H264)),
            ("libx264", Some(H264)),
            ("h264_nvenc", Some(H264)),
            ("libopenh264", Some(H264)),
            (" avc1 ", Some(H264)),
            ("hevc", Some(H265)),
            ("h265", Some(H265)),
            ("hevc_nvenc;nv12;bgr8;bgr8", Some(H265)),
            ("libx265", Some(H265)),
            ("vp9", Some(Vp9)),
            ("av1", Some(Av1)),
            ("libsvtav1_av1", Some(Av1)),
            ("", None),
            ("jpeg", None),
            ("rgb8; jpeg compressed bgr8", None),
            ("avif", None),
            ("yuv422", None),
            ("yuv422;h264", None),
            ("bayer_rggb8; png compressed", None),
        ] {
            assert_eq!(Codec::of_list(name), expected, "{name:?}");
        }
    }

    #[test]
    fn another_codec_is_refused_with_the_command_that_decodes_it() {
        let header = Header::default();
        let mut cdr = Vec::new();
        CompressedVideo { header, data: &[1], format: "h265" }.encode(&mut cdr).unwrap();
        let error = VideoMessage::Foxglove.packet(&cdr).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encoding);
        assert!(
            error.message().contains("\"h265\"") && error.message().contains("-r in/foxglove:=")
        );
        let packet = FfmpegPacket { header, encoding: "hevc;p", data: &[1], ..Default::default() };
        packet.encode(&mut cdr).unwrap();
        let error = VideoMessage::Ffmpeg.packet(&cdr).unwrap_err();
        assert!(error.message().contains("-r in/ffmpeg:="), "{error}");
        assert!(VideoMessage::Foxglove.packet(&cdr[..20]).is_err());
    }
}
