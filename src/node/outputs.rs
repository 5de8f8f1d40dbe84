//! The topics of a live channel: detections and labels always, markers and
//! debug images while they have a subscriber.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::markers::encode_markers;
use crate::config::ChannelConfig;
use crate::detectors::{FrameInput, FrameSet};
use crate::draw::{self, Canvas};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::channel::{Channel, Served};
use crate::transport::messages::{CompressedImage, Image, LabelInfo, MarkerArray};
use crate::transport::middleware::{Durability, Middleware, Publisher, Qos, Reliability};
use crate::types::{Detections, Header, OutputType, Stamp};

/// RViz asks for reliable markers; each array takes the place of the one before.
pub const MARKERS_QOS: Qos = Qos { depth: 1, ..Qos::DEFAULT };
/// Pictures are large: one that is lost is not sent again.
pub const DEBUG_IMAGE_QOS: Qos =
    Qos { reliability: Reliability::BestEffort, durability: Durability::Volatile, depth: 1 };

/// Quality of compressed debug images, 1 to 100.
const JPEG_QUALITY: u8 = 85;

/// The publishers of a channel.
pub struct ChannelOutputs {
    detections: GatedPublisher,
    labels: GatedPublisher,
    /// Of channels whose detections are boxes in space.
    markers: Option<GatedPublisher>,
    /// Whether markers were published that still may show.
    shows_markers: bool,
    debug_image: GatedPublisher,
    compressed_debug_image: GatedPublisher,
    gate: OutputGate,
    message: Vec<u8>,
    jpeg: Vec<u8>,
}

/// Topic of the class table of a channel, below its detections.
pub const LABELS: &str = "label_info";
/// Topic of the markers of a lidar channel, below its detections.
pub const MARKERS: &str = "markers";
/// Topic of the debug image of a channel, below its detections.
pub const DEBUG_IMAGE: &str = "debug_image";
/// Topic of the compressed debug image, below the debug image.
pub const COMPRESSED: &str = "compressed";

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
            let publisher = middleware.advertise(topic, type_name, qos)?;
            Ok::<_, Error>(GatedPublisher { publisher, gate: gate.clone() })
        };
        let detections =
            advertise(&topics.detections, config.output_type.type_name(), Qos::DEFAULT)?;
        let labels = advertise(&topics.labels, LabelInfo::TYPE, Qos::LATCHED)?;
        let markers = match &topics.markers {
            Some(topic) => Some(advertise(topic, MarkerArray::TYPE, MARKERS_QOS)?),
            None => None,
        };
        let debug_image = advertise(&topics.debug_image, Image::TYPE, DEBUG_IMAGE_QOS)?;
        let compressed_debug_image =
            advertise(&topics.compressed_debug_image, CompressedImage::TYPE, DEBUG_IMAGE_QOS)?;
        Ok(Self {
            detections,
            labels,
            markers,
            shows_markers: false,
            debug_image,
            compressed_debug_image,
            gate,
            message: Vec::new(),
            jpeg: Vec::new(),
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
        let wants_image = self.debug_image.num_subscribers() > 0;
        let wants_jpeg = self.compressed_debug_image.num_subscribers() > 0;
        if config.live.publishes_debug_image && (wants_image || wants_jpeg) {
            let frame = FrameSet { stamp: header.stamp, inputs };
            let canvas = draw::draw(&frame, config.sync.reference, *detections, config)?;
            if wants_image {
                self.publish_image(header, &canvas)?;
            }
            if wants_jpeg {
                self.publish_jpeg(header, &canvas)?;
            }
        }
        Ok(())
    }

    fn publish_image(&mut self, header: &Header<'_>, canvas: &Canvas) -> Result<()> {
        let image = Image {
            header: *header,
            height: canvas.size().height,
            width: canvas.size().width,
            encoding: "rgb8",
            is_bigendian: false,
            step: 3 * canvas.size().width,
            data: canvas.pixels(),
        };
        image.encode(&mut self.message)?;
        self.debug_image.publish(&self.message)
    }

    fn publish_jpeg(&mut self, header: &Header<'_>, canvas: &Canvas) -> Result<()> {
        let size = canvas.size();
        let refused = || {
            let message = format!("a debug image of {}x{} is no JPEG", size.width, size.height);
            Error::new(ErrorKind::Codec, "debug_image", message)
        };
        let sides = [size.width, size.height].map(u16::try_from);
        let [Ok(width), Ok(height)] = sides else { return Err(refused()) };
        self.jpeg.clear();
        jpeg_encoder::Encoder::new(&mut self.jpeg, JPEG_QUALITY)
            .encode(canvas.pixels(), width, height, jpeg_encoder::ColorType::Rgb)
            .map_err(|cause| refused().with_source(cause))?;
        // The format as image_transport writes it.
        let format = "rgb8; jpeg compressed bgr8";
        CompressedImage { header: *header, format, data: &self.jpeg }.encode(&mut self.message)?;
        self.compressed_debug_image.publish(&self.message)
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

/// The topics of a channel's outputs, as they are advertised. A topic below
/// another follows a remap of that one, unless a remap names it itself.
pub(super) struct OutputTopics {
    pub(super) detections: String,
    pub(super) labels: String,
    pub(super) markers: Option<String>,
    pub(super) debug_image: String,
    pub(super) compressed_debug_image: String,
}

impl OutputTopics {
    /// The topics of a channel; `resolve` expands and remaps a topic.
    pub(super) fn of(config: &ChannelConfig, resolve: impl Fn(&str) -> String) -> Self {
        let below = |topic: &str, name: &str| {
            let own = format!("{topic}/{name}");
            if resolve(&own) == own { format!("{}/{name}", resolve(topic)) } else { own }
        };
        let output = &config.output;
        let has_markers = config.output_type == OutputType::Detection3dArray;
        let debug_image = below(output, DEBUG_IMAGE);
        Self {
            detections: output.clone(),
            labels: below(output, LABELS),
            markers: has_markers.then(|| below(output, MARKERS)),
            compressed_debug_image: below(&debug_image, COMPRESSED),
            debug_image,
        }
    }
}

/// Closes the outputs of a channel whose thread does not end in time: the thread
/// publishes nothing afterwards, whenever its frame is done.
#[derive(Clone)]
pub struct OutputGate(Arc<Mutex<bool>>);

impl OutputGate {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(true)))
    }

    /// Closes them. Waits for a message that is being handed over.
    pub fn close(&self) {
        *self.is_open() = false;
    }

    fn is_open(&self) -> MutexGuard<'_, bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A publisher until its gate is closed. The lock has one user until then.
struct GatedPublisher {
    publisher: Box<dyn Publisher>,
    gate: OutputGate,
}

impl GatedPublisher {
    /// Publishes a message, or nothing once the gate is closed.
    fn publish(&mut self, cdr: &[u8]) -> Result<()> {
        let is_open = self.gate.is_open();
        if *is_open { self.publisher.publish(cdr) } else { Ok(()) }
    }

    fn num_subscribers(&self) -> usize {
        let is_open = self.gate.is_open();
        if *is_open { self.publisher.num_subscribers() } else { 0 }
    }
}
