//! The debug images of a channel: its detections on its inputs, drawn while they have
//! subscribers.

use super::endpoints::{DEBUG_IMAGE_QOS, OutputTopics};
use super::publisher::GatedPublisher;
use crate::detectors::FrameInput;
use crate::runtime::channel::ChannelFrame;
use det_post_ros::messages::{CompressedImage, Image};
use det_post_ros::middleware::Qos;
use det_post_types::Result;

/// The publishers of debug images.
pub struct DebugImage(Option<Publishers>);

struct Publishers {
    raw: GatedPublisher,
    compressed: GatedPublisher,
    /// Scratch memory of the compression.
    jpeg: Vec<u8>,
}

impl DebugImage {
    /// Announces the topics through `advertise`, which takes topic, type and quality of
    /// service.
    ///
    /// # Errors
    /// Returns the errors of `advertise`.
    pub fn open(
        topics: &OutputTopics,
        mut advertise: impl FnMut(&str, &'static str, Qos) -> Result<GatedPublisher>,
    ) -> Result<Self> {
        let compressed = &topics.compressed_debug_image;
        Ok(Self(Some(Publishers {
            raw: advertise(&topics.debug_image, Image::TYPE, DEBUG_IMAGE_QOS)?,
            compressed: advertise(compressed, CompressedImage::TYPE, DEBUG_IMAGE_QOS)?,
            jpeg: Vec::new(),
        })))
    }

    /// Whether a topic has a subscriber.
    pub fn has_subscribers(&self) -> bool {
        let publishers = self.0.iter().flat_map(|of| [&of.raw, &of.compressed]);
        publishers.into_iter().any(|publisher| publisher.num_subscribers() > 0)
    }

    /// Draws and publishes a frame, where the configuration asks for it and a topic has
    /// subscribers. `message` is scratch memory.
    ///
    /// # Errors
    /// `Middleware` when it could not be published, and those of drawing.
    pub fn publish(
        &mut self,
        frame: &ChannelFrame<'_>,
        inputs: &[Option<FrameInput<'_>>],
        message: &mut Vec<u8>,
    ) -> Result<()> {
        match &mut self.0 {
            Some(publishers) if frame.config.live.publishes_debug_image => {
                publishers.publish(frame, inputs, message)
            }
            _ => Ok(()),
        }
    }
}

mod drawn {
    use super::Publishers;
    use crate::detectors::{FrameInput, FrameSet};
    use crate::draw;
    use crate::runtime::channel::ChannelFrame;
    use det_post_eval::draw::Canvas;
    use det_post_ros::messages::{CompressedImage, Image};
    use det_post_types::{Header, Result};

    /// Quality of compressed debug images, 1 to 100.
    const JPEG_QUALITY: u8 = 85;

    impl Publishers {
        /// Draws a frame once and publishes it on the topics that have subscribers.
        pub(super) fn publish(
            &mut self,
            frame: &ChannelFrame<'_>,
            inputs: &[Option<FrameInput<'_>>],
            message: &mut Vec<u8>,
        ) -> Result<()> {
            let wants_raw = self.raw.num_subscribers() > 0;
            let wants_compressed = self.compressed.num_subscribers() > 0;
            if !wants_raw && !wants_compressed {
                return Ok(());
            }
            let ChannelFrame { config, header, detections, .. } = frame;
            let frame = FrameSet { stamp: header.stamp, inputs, target_pose: frame.target_pose };
            let canvas = draw::draw(&frame, config.sync.reference, *detections, config)?;
            if wants_raw {
                encode_raw(header, &canvas, message)?;
                self.raw.publish(message)?;
            }
            if wants_compressed {
                canvas.encode_jpeg(JPEG_QUALITY, &mut self.jpeg)?;
                // The format as image_transport writes it.
                let format = "rgb8; jpeg compressed bgr8";
                CompressedImage { header: *header, format, data: &self.jpeg }.encode(message)?;
                self.compressed.publish(message)?;
            }
            Ok(())
        }
    }

    fn encode_raw(header: &Header<'_>, canvas: &Canvas, message: &mut Vec<u8>) -> Result<()> {
        let image = Image {
            header: *header,
            height: canvas.size().height,
            width: canvas.size().width,
            encoding: "rgb8",
            is_bigendian: false,
            step: 3 * canvas.size().width,
            data: canvas.pixels(),
        };
        image.encode(message)
    }
}
