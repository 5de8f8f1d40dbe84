//! The parameters of a channel in the live node: quality of service and limits of
//! diagnostics.

use std::time::Duration;

use super::declaration::Change::{Fixed, Live};
use super::reader::Reader;
use super::value::{Kind, above, flag, integer, number, one_of, seconds};
use crate::ros::{Durability, Qos, Reliability};

/// The parameters of a channel in the live node.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveConfig {
    /// Quality of service of the inputs.
    pub qos: Qos,
    /// The maximum size of a message in bytes; larger ones are refused.
    pub max_payload_bytes: usize,
    /// Frames that are older than this on arrival are dropped; `None`: never.
    pub max_age: Option<Duration>,
    /// The time without input until a warning.
    pub gap_warn: Duration,
    /// The time without input until an error.
    pub gap_error: Duration,
    /// The rate of the input below which there is a warning.
    pub min_rate_hz: f64,
    /// The time per frame (99th percentile) above which there is a warning; `None`:
    /// never.
    pub latency_budget: Option<Duration>,
    /// How long a frame waits for the transforms that its detector uses.
    pub transform_wait: Duration,
    /// Whether markers are published while there is a subscriber.
    pub publishes_markers: bool,
    /// Whether a debug image is published while there is a subscriber.
    pub publishes_debug_image: bool,
}

/// The use of transforms by a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transforms {
    /// Nothing.
    Unused,
    /// Past sweeps; without them a sweep is processed alone.
    OfSweeps,
    /// Every frame; without them it is dropped.
    OfFrames,
}

const RELIABILITY: &[(&str, Reliability)] =
    &[("best_effort", Reliability::BestEffort), ("reliable", Reliability::Reliable)];
const DURABILITY: &[(&str, Durability)] =
    &[("volatile", Durability::Volatile), ("transient_local", Durability::TransientLocal)];

/// A time from 0 to a day.
fn up_to_a_day() -> Kind<f32> {
    number(0.0..=86_400.0).in_unit("s")
}

impl LiveConfig {
    /// Reads the parameters.
    pub(super) fn read(p: &mut Reader<'_>, transforms: Transforms) -> Self {
        let limit = |duration: Duration| Some(duration).filter(|limit| !limit.is_zero());
        let transform_wait = transform_wait(p, transforms);
        // Boxes in space have markers.
        let publishes_markers = transforms != Transforms::Unused && publishes_markers(p);
        Self {
            qos: qos(p),
            max_payload_bytes: p.value(
                "max_payload_bytes",
                Fixed,
                integer(1..=1 << 30).in_unit("bytes"),
                64 << 20,
                "Most bytes of data of a live message; larger ones are refused and counted. A channel holds up \
                 to three messages.",
            ),
            max_age: limit(seconds(p.value(
                "max_age_s",
                Live,
                up_to_a_day(),
                0.0,
                "Live frames whose stamp is older than this on arrival are dropped and counted; 0 sets no \
                 limit.",
            ))),
            gap_warn: seconds(p.value(
                "gap_warn_s",
                Live,
                above(0.0, 86_400.0).in_unit("s"),
                1.0,
                "Diagnostics warn when there is no live input for this long.",
            )),
            gap_error: seconds(p.value(
                "gap_error_s",
                Live,
                above(0.0, 86_400.0).in_unit("s"),
                5.0,
                "Diagnostics report an error when there is no live input for this long.",
            )),
            min_rate_hz: f64::from(p.value(
                "min_rate_hz",
                Live,
                number(0.0..=1e4).in_unit("Hz"),
                0.0,
                "Diagnostics warn when the rate of the live input is below this.",
            )),
            latency_budget: limit(
                seconds(p.value(
                    "latency_budget_ms",
                    Live,
                    number(0.0..=1e6).in_unit("ms"),
                    100.0,
                    "Diagnostics warn when the 99th percentile of the time per frame is above this; 0 sets no \
                     limit.",
                )) / 1000,
            ),
            transform_wait,
            publishes_markers,
            publishes_debug_image: p.value(
                "publish.debug_image",
                Live,
                flag(),
                true,
                "Whether an image with the boxes drawn (`OUTPUT/debug_image`, and as JPEG below it on `compressed`) \
                 is published live while there is a subscriber.",
            ),
        }
    }
}

fn qos(p: &mut Reader<'_>) -> Qos {
    Qos {
        reliability: p.value(
            "qos.reliability",
            Fixed,
            one_of(RELIABILITY),
            "best_effort",
            "Reliability of the live input. `best_effort` matches every publisher.",
        ),
        durability: p.value(
            "qos.durability",
            Fixed,
            one_of(DURABILITY),
            "volatile",
            "Durability of the live input. `volatile` matches every publisher.",
        ),
        depth: p.value(
            "qos.depth",
            Fixed,
            integer(1..=1000),
            5,
            "Messages of the live input that the middleware keeps. The node itself keeps the newest.",
        ),
    }
}

fn transform_wait(p: &mut Reader<'_>, transforms: Transforms) -> Duration {
    let (key, help) = match transforms {
        Transforms::Unused => return Duration::ZERO,
        Transforms::OfSweeps => (
            "densification.transform_wait_s",
            "How long a live sweep waits for its transform before it is processed alone.",
        ),
        Transforms::OfFrames => (
            "transform_wait_s",
            "How long a live frame waits for its transforms before it is dropped.",
        ),
    };
    seconds(p.value(key, Live, number(0.0..=10.0).in_unit("s"), 0.1, help))
}

fn publishes_markers(p: &mut Reader<'_>) -> bool {
    p.value(
        "publish.markers",
        Live,
        flag(),
        true,
        "Whether markers (`OUTPUT/markers`) are published live while there is a subscriber.",
    )
}
