//! The topics of the node and their quality of service, which parameters
//! `qos_overrides.*` may override, as in rclcpp.

use crate::config::{
    ChannelConfig, ChannelKind, Config, DeclaredParameter, InputConfig, QosOverrides, motions_of,
};
use crate::draw::{KEYPOINTS, LabelImage};
use det_post_ros::middleware::{
    Durability, Handler, InputKind, MessageBuffers, Middleware, Publisher, Qos, Receiver,
    Reliability, ServiceKind, Subscription, Watcher,
};
use det_post_ros::{
    DebugTimesType, Direction, OutputType, ParameterDescriptor, ParameterValue, is_topic,
};
use det_post_types::{Error, ErrorKind, Result};

/// Topic of diagnostics.
pub const DIAGNOSTICS_TOPIC: &str = "/diagnostics";
/// Topic of changes of parameters.
pub const PARAMETER_EVENTS_TOPIC: &str = "/parameter_events";
/// Topic of transitions.
pub const TRANSITION_EVENT_TOPIC: &str = "~/transition_event";

/// Transforms as tf2 subscribes to them.
pub(super) const TF_QOS: Qos = Qos { depth: 100, ..Qos::DEFAULT };
pub(super) const TF_STATIC_QOS: Qos = Qos { depth: 100, ..Qos::LATCHED };
/// The vehicle's motion, reliable or not.
pub(super) const MOTION_QOS: Qos =
    Qos { reliability: Reliability::BestEffort, depth: 100, ..Qos::DEFAULT };
pub(super) const CLOCK_QOS: Qos =
    Qos { reliability: Reliability::BestEffort, depth: 1, ..Qos::DEFAULT };
pub(super) const PARAMETER_EVENTS_QOS: Qos = Qos { depth: 1000, ..Qos::DEFAULT };

/// RViz asks for reliable markers; each array takes the place of the one before.
pub(super) const MARKERS_QOS: Qos = Qos { depth: 1, ..Qos::DEFAULT };
/// Images are large: one that is lost is not sent again.
pub(super) const DEBUG_IMAGE_QOS: Qos =
    Qos { reliability: Reliability::BestEffort, durability: Durability::Volatile, depth: 1 };

/// Times for debugging, as Autoware's nodes publish them.
pub(super) const DEBUG_TIMES_QOS: Qos = Qos { depth: 1, ..Qos::DEFAULT };

/// Topic of the class table of a channel, below its detections.
pub(super) const LABELS: &str = "label_info";
/// Topic of the markers of a lidar channel, below its detections.
pub(super) const MARKERS: &str = "markers";
/// Topic of the annotations of a camera channel, below its detections.
pub(super) const ANNOTATIONS: &str = "annotations";
/// Topic of the debug image of a channel, below its detections.
pub(super) const DEBUG_IMAGE: &str = "debug_image";
/// Topic of the compressed debug image, below the debug image.
pub(super) const COMPRESSED: &str = "compressed";

/// Topics of the times for debugging, below the one that is configured.
const DEBUG_TIMES: [&str; 3] =
    ["debug/cyclic_time_ms", "debug/processing_time_ms", "debug/pipeline_latency_ms"];
/// Topic of the times of publication, below the detections.
pub(super) const PUBLISHED_TIME: &str = "debug/published_time";

/// A topic of the node.
pub(super) struct Endpoint {
    /// Its full name, remapped.
    topic: String,
    direction: Direction,
    qos: Qos,
}

/// The topics of a configured node, with the quality of service that holds.
/// `resolve` expands and remaps a topic.
pub(super) fn endpoints(config: &Config, resolve: impl Fn(&str) -> String) -> Vec<Endpoint> {
    use Direction::{Publisher, Subscription};
    let mut found = vec![
        (DIAGNOSTICS_TOPIC.to_owned(), Publisher, Qos::DEFAULT),
        (PARAMETER_EVENTS_TOPIC.to_owned(), Publisher, PARAMETER_EVENTS_QOS),
    ];
    if config.use_sim_time {
        found.push(("/clock".to_owned(), Subscription, CLOCK_QOS));
    }
    if config.channels.iter().any(wants_transforms) {
        found.push(("/tf".to_owned(), Subscription, TF_QOS));
        found.push(("/tf_static".to_owned(), Subscription, TF_STATIC_QOS));
    }
    for motion in motions_of(&config.channels) {
        found.push((motion.topic.clone(), Subscription, MOTION_QOS));
    }
    for channel in &config.channels {
        for input in &channel.inputs {
            let topics = [Some(&input.topic), input.camera_info.as_ref()];
            let topics = topics.into_iter().flatten();
            found.extend(topics.map(|topic| (topic.clone(), Subscription, channel.live.qos)));
        }
        let topics = OutputTopics::of(channel, &resolve);
        let detections = topics.detections.into_iter();
        found.extend(detections.map(|(topic, _)| (topic, Publisher, Qos::DEFAULT)));
        found.extend(topics.labels.map(|topic| (topic, Publisher, Qos::LATCHED)));
        let shown = topics.markers.into_iter().chain(topics.annotations);
        found.extend(shown.map(|topic| (topic, Publisher, MARKERS_QOS)));
        let label_images = topics.label_images.into_iter().flatten();
        found.extend(label_images.map(|topic| (topic, Publisher, DEBUG_IMAGE_QOS)));
        found.extend(topics.keypoints.map(|topic| (topic, Publisher, Qos::DEFAULT)));
        found.push((topics.debug_image, Publisher, DEBUG_IMAGE_QOS));
        found.push((topics.compressed_debug_image, Publisher, DEBUG_IMAGE_QOS));
        let times = topics.debug_times.into_iter().flatten().chain(topics.published_time);
        found.extend(times.map(|topic| (topic, Publisher, DEBUG_TIMES_QOS)));
    }
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for (topic, direction, qos) in found {
        let topic = resolve(&topic);
        // Two channels may subscribe to one topic.
        if !endpoints.iter().any(|known| known.topic == topic && known.direction == direction) {
            let qos = config.qos_overrides.apply(&topic, direction, qos);
            endpoints.push(Endpoint { topic, direction, qos });
        }
    }
    endpoints
}

/// Checks that the inputs have names of ROS, after the remaps that `resolve` applies: a
/// recording may have others.
///
/// # Errors
/// `Config` for another name.
pub(super) fn check_names(config: &Config, resolve: impl Fn(&str) -> String) -> Result<()> {
    let topics = config.channels.iter().flat_map(|channel| {
        let of_input = |input: &InputConfig| [Some(input.topic.clone()), input.camera_info.clone()];
        let topics = channel.inputs.iter().flat_map(of_input).flatten();
        topics.map(|topic| (channel.name.as_str(), topic))
    });
    for (channel, topic) in topics {
        if !is_topic(&resolve(&topic)) {
            let message = format!(
                "{channel}: the input {topic:?} is no name of a topic of ROS, which has letters, digits, `_` and `/`: \
                 only a recording can have it (det_post replay)"
            );
            return Err(Error::new(ErrorKind::Config, "node", message));
        }
    }
    Ok(())
}

/// The topics of a channel's outputs, as they are advertised. A topic below
/// another follows a remap of that one, unless a remap names it itself.
pub(super) struct OutputTopics {
    /// The detections and their messages.
    pub(super) detections: Vec<(String, OutputType)>,
    /// Where a message of `vision_msgs` has a class table.
    pub(super) labels: Option<String>,
    /// Of boxes in space.
    pub(super) markers: Option<String>,
    /// Of boxes in an image.
    pub(super) annotations: Option<String>,
    /// Of masks.
    pub(super) label_images: Option<[String; 2]>,
    /// Of heads with keypoints.
    pub(super) keypoints: Option<String>,
    pub(super) debug_image: String,
    pub(super) compressed_debug_image: String,
    /// Cyclic time, processing time, latency.
    pub(super) debug_times: Option<[String; 3]>,
    pub(super) debug_times_type: DebugTimesType,
    pub(super) published_time: Option<String>,
}

impl OutputTopics {
    /// The topics of a channel; `resolve` expands and remaps a topic.
    pub(super) fn of(config: &ChannelConfig, resolve: impl Fn(&str) -> String) -> Self {
        let below = |topic: &str, name: &str| {
            let own = format!("{topic}/{name}");
            if resolve(&own) == own { format!("{}/{name}", resolve(topic)) } else { own }
        };
        let output = &config.output;
        let has_labels = config.detection_topics().any(|(_, output_type)| output_type.is_vision());
        let has_markers = config.publish.format.output_type.is_3d();
        let debug_image = config.publish.debug_image_topic.clone();
        let debug_image = debug_image.unwrap_or_else(|| below(output, DEBUG_IMAGE));
        let topics = config.detection_topics().map(|(topic, output_type)| {
            let own_or_below = topic.strip_prefix(output).and_then(|end| end.strip_prefix('/'));
            let topic = own_or_below.map_or(topic.to_owned(), |name| below(output, name));
            (topic, output_type)
        });
        let debug_times = config.publish.debug_times.as_ref();
        let has_keypoints =
            matches!(&config.kind, ChannelKind::Camera(camera) if camera.has_keypoints());
        Self {
            detections: topics.collect(),
            labels: has_labels.then(|| below(output, LABELS)),
            markers: has_markers.then(|| below(output, MARKERS)),
            annotations: (!has_markers).then(|| below(output, ANNOTATIONS)),
            label_images: config
                .publish
                .has_label_images
                .then(|| LabelImage::ALL.map(|image| below(output, image.topic()))),
            keypoints: has_keypoints.then(|| below(output, KEYPOINTS)),
            debug_times: debug_times.map(|topic| DEBUG_TIMES.map(|name| below(topic, name))),
            debug_times_type: config.publish.debug_times_type,
            published_time: config
                .publish
                .has_published_time
                .then(|| below(output, PUBLISHED_TIME)),
            compressed_debug_image: below(&debug_image, COMPRESSED),
            debug_image,
        }
    }
}

fn wants_transforms(channel: &ChannelConfig) -> bool {
    match &channel.kind {
        ChannelKind::Camera(_) => false,
        ChannelKind::Lidar(lidar) => {
            lidar.densification.num_past_sweeps > 0 || lidar.clouds.uses_transforms()
        }
        ChannelKind::Surround(_) => true,
    }
}

/// Warns of overrides of topics that the node does not have.
pub(super) fn warn_of_unused(overrides: &QosOverrides, endpoints: &[Endpoint]) {
    let has = |topic: &str, direction| {
        endpoints.iter().any(|known| known.topic == topic && known.direction == direction)
    };
    for key in overrides.unused(has) {
        tracing::warn!("{key} has no effect: the node has no such topic");
    }
}

/// The topics that the node subscribes to.
pub(super) fn inputs(endpoints: &[Endpoint]) -> impl Iterator<Item = &str> {
    let inputs = endpoints.iter().filter(|known| known.direction == Direction::Subscription);
    inputs.map(|known| &*known.topic)
}

/// The read-only parameters of the endpoints.
pub(super) fn parameters(endpoints: &[Endpoint]) -> Vec<DeclaredParameter> {
    let of_endpoint = |Endpoint { topic, direction, qos }: &Endpoint| {
        let text = |name: &str| ParameterValue::Text(name.to_owned());
        let depth = i64::try_from(qos.depth).unwrap_or(i64::MAX);
        [
            ("depth", ParameterValue::Integer(depth), "1 to 1000"),
            ("durability", text(qos.durability.name()), "volatile, transient_local"),
            ("history", text("keep_last"), "keep_last"),
            ("reliability", text(qos.reliability.name()), "reliable, best_effort"),
        ]
        .map(|(policy, value, allowed)| {
            let direction = direction.name();
            let descriptor = ParameterDescriptor {
                name: format!("qos_overrides.{topic}.{direction}.{policy}"),
                parameter_type: value.parameter_type(),
                description: format!("{policy} of the {direction} of {topic}."),
                additional_constraints: allowed.to_owned(),
                is_read_only: true,
                is_dynamically_typed: false,
                range: None,
            };
            DeclaredParameter { descriptor, value }
        })
    };
    endpoints.iter().flat_map(of_endpoint).collect()
}

/// A middleware whose endpoints have the quality of service that is configured.
pub(super) struct OverridingMiddleware {
    pub(super) middleware: Box<dyn Middleware>,
    pub(super) overrides: QosOverrides,
}

impl Middleware for OverridingMiddleware {
    fn name(&self) -> &'static str {
        self.middleware.name()
    }

    fn resolve(&self, topic: &str) -> String {
        self.middleware.resolve(topic)
    }

    fn subscribe(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
    ) -> Result<Box<dyn Subscription>> {
        let name = self.middleware.resolve(topic);
        let qos = self.overrides.apply(&name, Direction::Subscription, qos);
        self.middleware.subscribe(topic, kind, qos, receiver)
    }

    fn subscribe_into(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
        buffers: Box<dyn MessageBuffers>,
    ) -> Result<Box<dyn Subscription>> {
        let name = self.middleware.resolve(topic);
        let qos = self.overrides.apply(&name, Direction::Subscription, qos);
        self.middleware.subscribe_into(topic, kind, qos, receiver, buffers)
    }

    fn advertise(
        &mut self,
        topic: &str,
        type_name: &'static str,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        let name = self.middleware.resolve(topic);
        let qos = self.overrides.apply(&name, Direction::Publisher, qos);
        self.middleware.advertise(topic, type_name, qos)
    }

    fn serve(&mut self, handler: Handler) -> Result<()> {
        self.middleware.serve(handler)
    }

    fn serve_named(&mut self, kind: ServiceKind, name: &str, handler: Handler) -> Result<()> {
        self.middleware.serve_named(kind, name, handler)
    }

    fn watch(&mut self, watcher: Watcher) {
        self.middleware.watch(watcher);
    }

    fn published_topics(&self, type_name: &str) -> Option<Vec<String>> {
        self.middleware.published_topics(type_name)
    }

    fn counts_losses(&self) -> bool {
        self.middleware.counts_losses()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_input_has_a_name_of_ros() {
        let check = |topic: &str, resolved: &str| {
            let overrides = [&format!("c.input:={topic}"), "c.head:=yolov8", "c.model_path:=m"];
            let config = Config::load(&[], &overrides.map(String::from)).unwrap();
            check_names(&config, |_| resolved.to_owned()).map_err(|error| error.to_string())
        };
        assert_eq!(check("image", "/image"), Ok(()));
        // A remap gives it one.
        assert_eq!(check("front-left", "/front_left"), Ok(()));
        let refusal = check("front-left", "/front-left").unwrap_err();
        assert!(refusal.contains("c: the input \"/front-left\" is no name"), "{refusal}");
    }
}
