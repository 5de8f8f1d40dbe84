//! The topics of a live channel: detections and labels always, markers and
//! debug images while they have a subscriber.

use super::debug_image::DebugImage;
use super::endpoints::{MARKERS_QOS, OutputTopics};
use super::markers::encode_markers;
use super::publisher::{GatedPublisher, OutputGate};
use crate::config::ChannelConfig;
use crate::detectors::FrameInput;
use crate::error::Result;
use crate::runtime::channel::{Channel, Served};
use crate::transport::messages::{LabelInfo, MarkerArray};
use crate::transport::middleware::{Middleware, Qos};
use crate::types::{Detections, Header, Stamp};

/// The publishers of a channel.
pub struct ChannelOutputs {
    detections: GatedPublisher,
    labels: GatedPublisher,
    /// Of channels whose detections are boxes in space.
    markers: Option<GatedPublisher>,
    /// Whether markers were published that still may show.
    shows_markers: bool,
    debug_image: DebugImage,
    gate: OutputGate,
    message: Vec<u8>,
}

impl ChannelOutputs {
    /// Announces the topics of a channel.
    ///
    /// # Errors
    /// `Middleware` when the graph refuses.
    pub fn open(channel: &Channel, middleware: &mut dyn Middleware) -> Result<Self> {
        let config = channel.config();
        let gate = OutputGate::new();
        let topics = OutputTopics::of(config, |topic| middleware.resolve(topic));
        let mut advertise = |topic: &str, type_name, qos| {
            Ok(GatedPublisher::new(middleware.advertise(topic, type_name, qos)?, &gate))
        };
        let detections =
            advertise(&topics.detections, config.output_type.type_name(), Qos::DEFAULT)?;
        let labels = advertise(&topics.labels, LabelInfo::TYPE, Qos::LATCHED)?;
        let markers = match &topics.markers {
            Some(topic) => Some(advertise(topic, MarkerArray::TYPE, MARKERS_QOS)?),
            None => None,
        };
        let debug_image = DebugImage::open(&topics, advertise)?;
        Ok(Self {
            detections,
            labels,
            markers,
            shows_markers: false,
            debug_image,
            gate,
            message: Vec::new(),
        })
    }

    /// Closes all publishers of the channel, from any thread.
    pub fn gate(&self) -> OutputGate {
        self.gate.clone()
    }

    /// Publishes the class table; later subscribers receive it as well.
    ///
    /// # Errors
    /// `Middleware` when it could not be handed over.
    pub fn publish_labels(&mut self, config: &ChannelConfig, now: Stamp) -> Result<()> {
        let class_names = config.kind.class_names();
        let threshold = config.kind.lowest_score_threshold();
        let header = Header { stamp: now, frame_id: "" };
        LabelInfo { header, class_names, threshold }.encode(&mut self.message)?;
        self.labels.publish(&self.message)
    }

    /// Publishes the detections of a frame, with the stamp and the frame of its
    /// reference input.
    ///
    /// # Errors
    /// `Middleware` when it could not be handed over.
    pub fn publish(&mut self, served: &Served<'_>) -> Result<()> {
        let Served { config, header, detections, .. } = served;
        config.output_type.encode(header, *detections, &config.class_ids, &mut self.message)?;
        self.detections.publish(&self.message)
    }

    /// Publishes markers and debug images that have a subscriber.
    ///
    /// # Errors
    /// `Middleware` when something could not be handed over; why a picture cannot be
    /// drawn.
    pub fn show(&mut self, served: &Served<'_>, inputs: &[Option<FrameInput<'_>>]) -> Result<()> {
        let Served { config, header, detections, .. } = served;
        if let (Some(markers), Detections::Boxes3d(objects)) = (&mut self.markers, detections) {
            if config.live.publishes_markers && markers.num_subscribers() > 0 {
                let class_names = config.kind.class_names();
                encode_markers(header, objects, class_names, &mut self.message)?;
                markers.publish(&self.message)?;
                self.shows_markers = true;
            } else if self.shows_markers {
                self.remove_markers(header)?;
            }
        }
        self.debug_image.publish(served, inputs, &mut self.message)
    }

    /// Removes the markers that may still show.
    ///
    /// # Errors
    /// `Middleware` when it could not be handed over.
    pub fn remove_markers(&mut self, header: &Header<'_>) -> Result<()> {
        if let Some(markers) = self.markers.as_mut().filter(|_| self.shows_markers) {
            self.shows_markers = false;
            encode_markers(header, &[], &[], &mut self.message)?;
            markers.publish(&self.message)?;
        }
        Ok(())
    }
}
