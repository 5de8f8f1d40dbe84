//! The topics of a live channel: detections and labels always, markers and a
//! debug image while someone listens.

use super::debug_image::{DEBUG_IMAGE, DebugImage};
use super::markers::encode_markers;
use crate::config::ChannelConfig;
use crate::detectors::FrameInput;
use crate::error::Result;
use crate::runtime::channel::{Channel, Served};
use crate::transport::messages::{LabelInfo, MarkerArray};
use crate::transport::middleware::{Middleware, Publisher, Qos};
use crate::types::{Detections, Header, OutputType, Stamp};

/// RViz asks for reliable markers; each array takes the place of the one before.
pub const MARKERS_QOS: Qos = Qos { depth: 1, ..Qos::DEFAULT };

/// The publishers of a channel.
pub struct ChannelOutputs {
    detections: Box<dyn Publisher>,
    labels: Box<dyn Publisher>,
    /// Of channels whose detections are boxes in space.
    markers: Option<Box<dyn Publisher>>,
    /// Whether markers were published that still may show.
    shows_markers: bool,
    debug_image: DebugImage,
    message: Vec<u8>,
}

/// Where the class table of a channel stands, below its detections.
pub const LABELS: &str = "label_info";
/// Where the markers of a lidar channel stand, below its detections.
pub const MARKERS: &str = "markers";

impl ChannelOutputs {
    /// Announces the topics of a channel.
    ///
    /// # Errors
    /// `Middleware` when the graph refuses.
    pub fn open(channel: &Channel, middleware: &mut dyn Middleware) -> Result<Self> {
        let config = channel.config();
        let detections =
            middleware.advertise(&config.output, config.output_type.type_name(), Qos::DEFAULT)?;
        let below = |name: &str| format!("{}/{name}", config.output);
        let labels = middleware.advertise(&below(LABELS), LabelInfo::TYPE, Qos::LATCHED)?;
        let markers = match config.output_type == OutputType::Detection3dArray {
            true => Some(middleware.advertise(&below(MARKERS), MarkerArray::TYPE, MARKERS_QOS)?),
            false => None,
        };
        Ok(Self {
            detections,
            labels,
            markers,
            shows_markers: false,
            debug_image: DebugImage::open(&below(DEBUG_IMAGE), middleware)?,
            message: Vec::new(),
        })
    }

    /// Publishes the class table; those who come later get it too.
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

    /// Publishes what was found in a message, with the message's stamp and
    /// frame.
    ///
    /// # Errors
    /// `Middleware` when it could not be handed over.
    pub fn publish(&mut self, served: &Served<'_>) -> Result<()> {
        let class_names = served.config.kind.class_names();
        let Served { config, header, detections, .. } = served;
        config.output_type.encode(header, *detections, class_names, &mut self.message)?;
        self.detections.publish(&self.message)
    }

    /// Publishes what people look at, while they do.
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
