//! `input_transport` of channels of images.

use super::declaration::Change::Fixed;
use super::reader::Reader;
use super::value::one_of;
use det_post_ros::messages::{CompressedImage, Image};
use det_post_ros::video::VideoMessage;

/// The type of the live input of a channel of images.
#[derive(Clone, Copy)]
pub(super) enum ImageTransport {
    Auto,
    Raw,
    Compressed,
    Video(VideoMessage),
}

const IMAGE_TRANSPORTS: &[(&str, ImageTransport)] = &[
    ("auto", ImageTransport::Auto),
    ("raw", ImageTransport::Raw),
    ("compressed", ImageTransport::Compressed),
    ("foxglove", ImageTransport::Video(VideoMessage::Foxglove)),
    ("ffmpeg", ImageTransport::Video(VideoMessage::Ffmpeg)),
];

/// Declares `input_transport`.
pub(super) fn image_transport(p: &mut Reader<'_>) -> ImageTransport {
    p.value(
        "input_transport",
        Fixed,
        one_of(IMAGE_TRANSPORTS),
        "auto",
        "Type of the live input: sensor_msgs/Image (`raw`), CompressedImage (`compressed`), or [video](live-node.md#video), \
         foxglove_msgs/CompressedVideo (`foxglove`) or ffmpeg_image_transport_msgs/FFMPEGPacket (`ffmpeg`); `auto`: by \
         the end of the topic.",
    )
}

impl ImageTransport {
    /// Whether the messages of a topic are `sensor_msgs/CompressedImage`.
    pub(super) fn is_compressed(self, topic: &str) -> bool {
        match self {
            // As image_transport names its topics.
            Self::Auto => topic.ends_with("/compressed"),
            Self::Raw | Self::Video(_) => false,
            Self::Compressed => true,
        }
    }

    /// The messages of a topic of video; `None` for other messages.
    pub(super) fn video(self, topic: &str) -> Option<VideoMessage> {
        match self {
            Self::Auto => VideoMessage::ONLY_VIDEO
                .into_iter()
                .find(|message| name_before(topic, message.transport()).is_some()),
            Self::Raw | Self::Compressed => None,
            Self::Video(message) => Some(message),
        }
    }
}

/// The name before the last part of a topic, where that is a transport.
fn name_before<'t>(topic: &'t str, transport: &str) -> Option<&'t str> {
    topic.strip_suffix(transport)?.strip_suffix('/')
}

/// The topic of the CameraInfo of a topic of images, as image_transport names it:
/// `/front/camera_info` of `/front/image_raw` and of `/front/image_raw/compressed`.
pub(super) fn camera_info_beside(topic: &str) -> String {
    let transports = ["compressed", "foxglove", "ffmpeg"];
    let base = transports.into_iter().find_map(|transport| name_before(topic, transport));
    let topic = base.unwrap_or(topic);
    let folder = topic.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{folder}/camera_info")
}

/// The `input_transport` of a channel that takes images of this ROS name; `None` for other types.
pub(super) fn image_transport_of(type_name: &str) -> Option<&'static str> {
    let is_of = |transport: &ImageTransport| match transport {
        ImageTransport::Auto => false,
        ImageTransport::Raw => type_name == Image::TYPE,
        ImageTransport::Compressed => type_name == CompressedImage::TYPE,
        ImageTransport::Video(message) => type_name == message.type_name(),
    };
    IMAGE_TRANSPORTS.iter().find(|(_, transport)| is_of(transport)).map(|(name, _)| *name)
}

/// The `input_transport` with which a channel that expects messages of one type takes messages of another; `None`
/// where there is none.
pub fn transport_of(found: &str, expected: &str) -> Option<&'static str> {
    let of = |transport_of: fn(&str) -> Option<&'static str>| {
        transport_of(found).filter(|_| transport_of(expected).is_some())
    };
    of(image_transport_of).or_else(|| of(super::cloud_transport::cloud_transport_of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_of_the_transport_that_ends_them() {
        let auto =
            |topic| (ImageTransport::Auto.is_compressed(topic), ImageTransport::Auto.video(topic));
        for (topic, expected) in [
            ("/front/image_raw", (false, None)),
            ("/front/image_raw/compressed", (true, None)),
            ("/front/image_raw/foxglove", (false, Some(VideoMessage::Foxglove))),
            ("/front/image_raw/ffmpeg", (false, Some(VideoMessage::Ffmpeg))),
            ("/front/myffmpeg", (false, None)),
            ("ffmpeg", (false, None)),
        ] {
            assert_eq!(auto(topic), expected, "{topic}");
        }
        for topic in ["/front/image_raw", "/front/image_raw/compressed", "/front/image_raw/ffmpeg"]
        {
            assert_eq!(camera_info_beside(topic), "/front/camera_info", "{topic}");
        }
    }

    #[test]
    fn another_type_of_the_same_sensor_has_a_transport() {
        let [image, cloud] = [Image::TYPE, det_post_ros::messages::PointCloud2::TYPE];
        let foxglove = VideoMessage::Foxglove.type_name();
        assert_eq!(transport_of(foxglove, image), Some("foxglove"));
        assert_eq!(transport_of(image, foxglove), Some("raw"));
        assert_eq!(transport_of(foxglove, cloud), None);
        assert_eq!(transport_of("std_msgs/msg/String", image), None);
    }
}
