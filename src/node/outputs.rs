//! The topics of a live channel: detections and labels always; markers, annotations, debug
//! images and times while they have a subscriber.

use std::time::Duration;

use super::autoware_status::VoxelStatus;
use super::debug_image::DebugImage;
use super::debug_times::DebugTimes;
use super::endpoints::{DEBUG_IMAGE_QOS, DIAGNOSTICS_TOPIC, MARKERS_QOS, OutputTopics};
use super::publisher::{GatedPublisher, OutputGate};
use crate::config::ChannelConfig;
use crate::detectors::FrameInput;
use crate::draw::{LabelImage, encode_detections, encode_keypoints, encode_markers};
use crate::runtime::channel::{Channel, ChannelFrame};
use det_post_ros::messages::{
    DiagnosticArray, Image, ImageAnnotations, LabelInfo, MarkerArray, PointCloud2,
};
use det_post_ros::middleware::{Middleware, Qos};
use det_post_ros::{NodeName, OutputType};
use det_post_types::{Detections, Header, Result, Stamp};

/// The publishers of a channel.
pub struct ChannelOutputs {
    /// Full names of the topics of the detections, with their types.
    detection_topics: Vec<String>,
    /// By message.
    detections: Vec<(OutputType, GatedPublisher)>,
    /// Of channels that publish messages of `vision_msgs`.
    labels: Option<GatedPublisher>,
    /// Of channels whose detections are boxes in space.
    markers: Option<GatedPublisher>,
    /// Of channels whose detections are boxes in an image, where the middleware has the type.
    annotations: Option<GatedPublisher>,
    /// Whether markers were published that still may show.
    shows_markers: bool,
    /// Of channels that publish masks: [`LabelImage::ALL`].
    label_images: Vec<(LabelImage, GatedPublisher)>,
    /// Of heads with keypoints.
    keypoints: Option<GatedPublisher>,
    debug_image: DebugImage,
    debug_times: DebugTimes,
    voxel_status: Option<VoxelStatus>,
    gate: OutputGate,
    message: Vec<u8>,
    /// The pixels of a label image, or keypoints.
    pixels: Vec<u8>,
}

impl ChannelOutputs {
    /// Announces the topics of a channel.
    ///
    /// # Errors
    /// `Middleware` when the graph refuses.
    pub fn open(
        channel: &Channel,
        node: &NodeName,
        middleware: &mut dyn Middleware,
    ) -> Result<Self> {
        let config = channel.config();
        let gate = OutputGate::new();
        let topics = OutputTopics::of(config, |topic| middleware.resolve(topic));
        let detection_topics = topics.detections.iter().map(|(topic, output_type)| {
            format!("{} ({})", middleware.resolve(topic), output_type.type_name())
        });
        let detection_topics = detection_topics.collect();
        let mut advertise = |topic: &str, type_name, qos| {
            Ok(GatedPublisher::new(middleware.advertise(topic, type_name, qos)?, &gate))
        };
        let mut detections = Vec::new();
        for (topic, output_type) in &topics.detections {
            let publisher = advertise(topic, output_type.type_name(), Qos::DEFAULT)?;
            detections.push((*output_type, publisher));
        }
        let labels = match &topics.labels {
            Some(topic) => Some(advertise(topic, LabelInfo::TYPE, Qos::LATCHED)?),
            None => None,
        };
        let markers = match &topics.markers {
            Some(topic) => Some(advertise(topic, MarkerArray::TYPE, MARKERS_QOS)?),
            None => None,
        };
        let annotations = topics.annotations.as_deref().and_then(|topic| {
            let advertised = advertise(topic, ImageAnnotations::TYPE, MARKERS_QOS);
            // A ROS 2 without foxglove_msgs has no viewer of them either.
            advertised.inspect_err(|error| tracing::info!("no annotations: {error}")).ok()
        });
        let mut label_images = Vec::new();
        for (image, topic) in LabelImage::ALL.into_iter().zip(topics.label_images.iter().flatten())
        {
            label_images.push((image, advertise(topic, Image::TYPE, DEBUG_IMAGE_QOS)?));
        }
        let keypoints = match &topics.keypoints {
            Some(topic) => Some(advertise(topic, PointCloud2::TYPE, Qos::DEFAULT)?),
            None => None,
        };
        let debug_image = DebugImage::open(&topics, &mut advertise)?;
        let debug_times = DebugTimes::open(&topics, &mut advertise);
        let voxel_status = match &config.live.voxel_status {
            Some(name) => Some(VoxelStatus {
                publisher: advertise(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, Qos::DEFAULT)?,
                node: node.name().to_owned(),
                name: name.clone(),
            }),
            None => None,
        };
        Ok(Self {
            detection_topics,
            detections,
            labels,
            markers,
            annotations,
            shows_markers: false,
            label_images,
            keypoints,
            debug_image,
            debug_times,
            voxel_status,
            gate,
            message: Vec::new(),
            pixels: Vec::new(),
        })
    }

    /// Full names of the topics of the detections, with their types.
    pub fn detection_topics(&self) -> &[String] {
        &self.detection_topics
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
        let Some(labels) = &mut self.labels else { return Ok(()) };
        LabelInfo { header, class_names, threshold }.encode(&mut self.message)?;
        labels.publish(&self.message)
    }

    /// Whether the detections or what shows them have a subscriber.
    pub fn have_subscribers(&self) -> bool {
        let detections = self.detections.iter().map(|(_, publisher)| publisher);
        let have = |publisher: &GatedPublisher| publisher.num_subscribers() > 0;
        let label_images = self.label_images.iter().map(|(_, publisher)| publisher);
        let shown = self.markers.iter().chain(&self.annotations).chain(label_images);
        let shown = shown.chain(&self.keypoints);
        detections.chain(shown).any(have) || self.debug_image.has_subscribers()
    }

    /// Publishes the detections of a frame, with the stamp and the frame of its
    /// reference input.
    ///
    /// # Errors
    /// `Middleware` when it could not be handed over.
    pub fn publish(&mut self, frame: &ChannelFrame<'_>) -> Result<()> {
        let ChannelFrame { config, header, detections, .. } = frame;
        for (output_type, publisher) in &mut self.detections {
            let format = &config.publish.format;
            format.encode(*output_type, header, *detections, &mut self.message)?;
            publisher.publish(&self.message)?;
        }
        if let (Some(keypoints), Some(publisher)) = (detections.keypoints(), &mut self.keypoints) {
            let Self { pixels, message, .. } = self;
            encode_keypoints(header, detections.len(), &keypoints, pixels, message)?;
            publisher.publish(message)?;
        }
        Ok(())
    }

    /// Publishes the times and the status of a frame whose detections were published `now`,
    /// where they are configured.
    ///
    /// # Errors
    /// `Middleware` when something could not be handed over.
    pub fn report(
        &mut self,
        frame: &ChannelFrame<'_>,
        processing: Duration,
        now: Option<Stamp>,
    ) -> Result<()> {
        let Self { debug_times, voxel_status, message, .. } = self;
        debug_times.publish(&frame.header, processing, now, message)?;
        match voxel_status {
            Some(status) => status.publish(&frame.header, frame.report, message),
            None => Ok(()),
        }
    }

    /// Publishes markers, annotations, label images and debug images that have a subscriber.
    ///
    /// # Errors
    /// `Middleware` when something could not be handed over; why an image cannot be
    /// drawn.
    pub fn show(
        &mut self,
        frame: &ChannelFrame<'_>,
        inputs: &[Option<FrameInput<'_>>],
    ) -> Result<()> {
        let ChannelFrame { config, header, detections, .. } = frame;
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
        let annotations = self.annotations.as_mut();
        if let Some(annotations) = annotations.filter(|topic| topic.num_subscribers() > 0) {
            let shown = (config.kind.class_names(), config.publish.format.keypoint_threshold);
            encode_detections(header.stamp, detections, shown, &mut self.message)?;
            annotations.publish(&self.message)?;
        }
        if let Detections::Masked2d(found, masks) = detections {
            let Self { label_images, message, pixels, .. } = self;
            for (image, publisher) in label_images {
                if publisher.num_subscribers() > 0 {
                    image.encode(header, found, masks, pixels, message)?;
                    publisher.publish(message)?;
                }
            }
        }
        self.debug_image.publish(frame, inputs, &mut self.message)
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
