//! The debug image of a channel: its detections on its inputs, drawn while it has
//! subscribers.

use crate::detectors::FrameInput;
use crate::error::Result;
use crate::runtime::channel::Served;
use crate::transport::messages::Image;
use crate::transport::middleware::{Durability, Middleware, Publisher, Qos, Reliability};

/// Name of the topic below the detections.
pub const DEBUG_IMAGE: &str = "debug_image";

/// Images are large: one that is lost is not sent again.
pub const DEBUG_IMAGE_QOS: Qos =
    Qos { reliability: Reliability::BestEffort, durability: Durability::Volatile, depth: 1 };

/// The publisher of a debug image; none in a build that draws nothing.
pub struct DebugImage(Option<Box<dyn Publisher>>);

impl DebugImage {
    /// Announces the topic.
    ///
    /// # Errors
    /// `Middleware` when the graph refuses.
    pub fn open(topic: &str, middleware: &mut dyn Middleware) -> Result<Self> {
        let draws = cfg!(feature = "pictures");
        let publisher = draws.then(|| middleware.advertise(topic, Image::TYPE, DEBUG_IMAGE_QOS));
        Ok(Self(publisher.transpose()?))
    }

    /// Draws and publishes a frame, where the configuration asks for it and the topic has
    /// subscribers. `message` is scratch memory.
    ///
    /// # Errors
    /// `Middleware` when it could not be published, and those of drawing.
    pub fn publish(
        &mut self,
        served: &Served<'_>,
        inputs: &[Option<FrameInput<'_>>],
        message: &mut Vec<u8>,
    ) -> Result<()> {
        match &mut self.0 {
            Some(publisher)
                if served.config.live.publishes_debug_image && publisher.num_subscribers() > 0 =>
            {
                encode(served, inputs, message)?;
                publisher.publish(message)
            }
            _ => Ok(()),
        }
    }
}

/// Draws a frame as a message.
#[cfg(feature = "pictures")]
fn encode(
    served: &Served<'_>,
    inputs: &[Option<FrameInput<'_>>],
    message: &mut Vec<u8>,
) -> Result<()> {
    let Served { config, header, detections, .. } = served;
    let frame = crate::detectors::FrameSet { stamp: header.stamp, inputs };
    let canvas = crate::draw::draw(&frame, config.sync.reference, *detections, config)?;
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

/// Never called: there is no publisher.
#[cfg(not(feature = "pictures"))]
fn encode(_: &Served<'_>, _: &[Option<FrameInput<'_>>], _: &mut Vec<u8>) -> Result<()> {
    Ok(())
}
