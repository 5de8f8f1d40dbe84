//! What only the live node reads of a channel: how its messages come in, and
//! what is to be said about them.

use std::time::Duration;

use super::parameters::{fixed, live};
use super::table::Default::{Unset, Yaml};
use super::table::{Kind, Parameter, Range, Values};
use crate::types::{Durability, Qos, Reliability};

/// How a channel takes part in the live graph.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveConfig {
    /// Quality of service of the inputs.
    pub qos: Qos,
    /// The most bytes that a message may hold; larger ones are refused.
    pub max_payload_bytes: usize,
    /// Frames that are older than this on arrival are dropped; `None`: never.
    pub max_age: Option<Duration>,
    /// Without input for this long there is a warning.
    pub gap_warn: Duration,
    /// Without input for this long there is an error.
    pub gap_error: Duration,
    /// Below this rate of the input there is a warning.
    pub min_rate_hz: f64,
    /// Above this time per frame (99th percentile) there is a warning;
    /// `None`: never.
    pub latency_budget: Option<Duration>,
    /// How long a sweep waits for its transform before it is served alone.
    pub transform_wait: Duration,
    /// Whether markers are published while someone listens.
    pub publishes_markers: bool,
    /// Whether a debug image is published while someone listens.
    pub publishes_debug_image: bool,
}

impl LiveConfig {
    pub(super) fn new(values: &Values) -> Self {
        let duration = |key| Duration::from_secs_f32(values.number(key).max(0.0));
        let limit = |duration: Duration| Some(duration).filter(|limit| !limit.is_zero());
        Self {
            qos: Qos {
                reliability: match values.text("qos.reliability") {
                    "reliable" => Reliability::Reliable,
                    _ => Reliability::BestEffort,
                },
                durability: match values.text("qos.durability") {
                    "transient_local" => Durability::TransientLocal,
                    _ => Durability::Volatile,
                },
                depth: values.count("qos.depth"),
            },
            max_payload_bytes: values.count("max_payload_bytes"),
            max_age: limit(duration("max_age_s")),
            gap_warn: duration("gap_warn_s"),
            gap_error: duration("gap_error_s"),
            min_rate_hz: values.number("min_rate_hz").into(),
            latency_budget: limit(duration("latency_budget_ms") / 1000),
            transform_wait: duration("densification.transform_wait_s"),
            publishes_markers: values.flag("publish.markers"),
            publishes_debug_image: values.flag("publish.debug_image"),
        }
    }
}

const SECONDS: Range = Range::new(0.0, 86_400.0);

pub(super) const INPUT_TRANSPORT: Parameter = fixed(
    "input_transport",
    Kind::Choice(&["auto", "raw", "compressed"]),
    Yaml("auto"),
    "",
    "Type of the live input: `raw` is sensor_msgs/Image, `compressed` is \
     sensor_msgs/CompressedImage, `auto` is `compressed` for topics that end in `/compressed`. A \
     recording says it itself.",
);
pub(super) const CAMERA_INFO: Parameter = fixed(
    "camera_info",
    Kind::Topic,
    Unset("not asked for"),
    "",
    "Topic of the camera's sensor_msgs/CameraInfo. Live, diagnostics warn when it does not come, or \
     does not belong to the pictures; detections do not depend on it.",
);
pub(super) const QOS_RELIABILITY: Parameter = fixed(
    "qos.reliability",
    Kind::Choice(&["best_effort", "reliable"]),
    Yaml("best_effort"),
    "",
    "Reliability of the live input. `best_effort` hears every publisher.",
);
pub(super) const QOS_DURABILITY: Parameter = fixed(
    "qos.durability",
    Kind::Choice(&["volatile", "transient_local"]),
    Yaml("volatile"),
    "",
    "Durability of the live input. `volatile` hears every publisher.",
);
pub(super) const QOS_DEPTH: Parameter = fixed(
    "qos.depth",
    Kind::Integer { min: 1, max: 1000 },
    Yaml("5"),
    "",
    "Messages that the middleware keeps of the live input. The node itself keeps the newest.",
);
pub(super) const MAX_PAYLOAD_BYTES: Parameter = fixed(
    "max_payload_bytes",
    Kind::Integer { min: 1, max: 1 << 30 },
    Yaml("67108864"),
    "bytes",
    "The most data a live message may hold; larger ones are refused and counted. A channel keeps \
     three messages at most.",
);
pub(super) const MAX_AGE_S: Parameter = live(
    "max_age_s",
    Kind::Number(SECONDS),
    Yaml("0.0"),
    "s",
    "Live frames whose stamp is older than this on arrival are dropped and counted; 0 takes any age.",
);
pub(super) const GAP_WARN_S: Parameter = live(
    "gap_warn_s",
    Kind::Number(Range::above(0.0, 86_400.0)),
    Yaml("1.0"),
    "s",
    "Without live input for this long, diagnostics warn.",
);
pub(super) const GAP_ERROR_S: Parameter = live(
    "gap_error_s",
    Kind::Number(Range::above(0.0, 86_400.0)),
    Yaml("5.0"),
    "s",
    "Without live input for this long, diagnostics report an error.",
);
pub(super) const MIN_RATE_HZ: Parameter = live(
    "min_rate_hz",
    Kind::Number(Range::new(0.0, 1e4)),
    Yaml("0.0"),
    "Hz",
    "Below this rate of the live input, diagnostics warn.",
);
pub(super) const LATENCY_BUDGET_MS: Parameter = live(
    "latency_budget_ms",
    Kind::Number(Range::new(0.0, 1e6)),
    Yaml("100.0"),
    "ms",
    "When the 99th percentile of the time per frame is above this, diagnostics warn; 0 never warns.",
);
pub(super) const TRANSFORM_WAIT_S: Parameter = live(
    "densification.transform_wait_s",
    Kind::Number(Range::new(0.0, 10.0)),
    Yaml("0.1"),
    "s",
    "How long a live sweep waits for its transform before it is served alone.",
);
pub(super) const PUBLISH_MARKERS: Parameter = live(
    "publish.markers",
    Kind::Flag,
    Yaml("true"),
    "",
    "Whether markers (`OUTPUT/markers`) are published live while someone listens.",
);
pub(super) const PUBLISH_DEBUG_IMAGE: Parameter = live(
    "publish.debug_image",
    Kind::Flag,
    Yaml("true"),
    "",
    "Whether a picture with boxes (`OUTPUT/debug_image`) is published live while someone listens.",
);
