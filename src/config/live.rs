//! The parameters of a channel in the live node: quality of service and limits of
//! diagnostics.

use std::time::Duration;

use super::declaration::Change::{Fixed, Live};
use super::reader::Reader;
use super::value::{above, flag, integer, number, one_of, seconds, text, topic};
use det_post_ros::{Durability, Qos, Reliability};

/// The parameters of a channel in the live node.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveConfig {
    /// Quality of service of the inputs.
    pub qos: Qos,
    /// The maximum size of a message in bytes; larger ones are refused.
    pub max_payload_bytes: usize,
    /// Frames that are older than this when the channel takes them are dropped; `None`: never.
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
    /// The most frames in progress at once: 1 or 2.
    pub frames_in_flight: usize,
    /// Whether markers are published while there is a subscriber.
    pub publishes_markers: bool,
    /// Whether a debug image is published while there is a subscriber.
    pub publishes_debug_image: bool,
    /// Whether frames are skipped while no output has a subscriber.
    pub is_idle_without_subscribers: bool,
    /// Whether frames are processed.
    pub is_enabled: bool,
    /// Name of a service that sets `is_enabled`.
    pub enable_service: Option<String>,
    /// Diagnostics of Autoware's nodes about the time per frame.
    pub processing_time: Option<ProcessingTimeLimits>,
    /// Name of a status of Autoware's nodes about the number of voxels, after that of the node.
    pub voxel_status: Option<String>,
}

/// Limits of the time per frame, as Autoware's nodes check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessingTimeLimits {
    /// A frame that takes longer is a warning.
    pub max: Duration,
    /// Frames that take longer for this time are an error.
    pub max_delay: Duration,
    /// Time from one check to the next.
    pub interval: Duration,
}

/// The use of transforms by a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transforms {
    /// Nothing.
    Unused,
    /// Past sweeps; without them a sweep is processed by itself.
    OfSweeps,
    /// Every frame; without them it is dropped.
    OfFrames,
}

const RELIABILITY: &[(&str, Reliability)] =
    &[("best_effort", Reliability::BestEffort), ("reliable", Reliability::Reliable)];
const DURABILITY: &[(&str, Durability)] =
    &[("volatile", Durability::Volatile), ("transient_local", Durability::TransientLocal)];

impl LiveConfig {
    /// Reads the parameters.
    pub(super) fn read(p: &mut Reader<'_>, transforms: Transforms) -> Self {
        let transform_wait = transform_wait(p, transforms);
        // Boxes in space have markers.
        let publishes_markers = transforms != Transforms::Unused && publishes_markers(p);
        Self {
            qos: qos(p),
            max_payload_bytes: max_payload_bytes(p),
            max_age: max_age(p),
            gap_warn: gap(
                p,
                "gap_warn_s",
                1.0,
                "Diagnostics warn without live input for this long.",
            ),
            gap_error: gap(
                p,
                "gap_error_s",
                5.0,
                "Diagnostics report an error without live input for this long.",
            ),
            min_rate_hz: min_rate_hz(p),
            latency_budget: latency_budget(p),
            transform_wait,
            frames_in_flight: frames_in_flight(p),
            publishes_markers,
            publishes_debug_image: publishes_debug_image(p),
            is_idle_without_subscribers: p.value(
                "idle_without_subscribers",
                Live,
                flag(),
                false,
                "Whether frames are skipped while no output has a subscriber.",
            ),
            is_enabled: p.value("enabled", Live, flag(), true, "Whether frames are processed."),
            enable_service: p.optional(
                "enable_service",
                Fixed,
                topic(),
                "none",
                "Service (std_srvs/SetBool) for `enabled`.",
            ),
            processing_time: processing_time(p),
            voxel_status: match transforms {
                Transforms::OfSweeps => voxel_status(p),
                Transforms::Unused | Transforms::OfFrames => None,
            },
        }
    }
}

/// A duration that sets a limit; 0 sets none.
fn limit(duration: Duration) -> Option<Duration> {
    Some(duration).filter(|limit| !limit.is_zero())
}

fn milliseconds(ms: f32) -> Duration {
    seconds(ms) / 1000
}

fn max_payload_bytes(p: &mut Reader<'_>) -> usize {
    p.value(
        "max_payload_bytes",
        Fixed,
        integer(1..=1 << 30).in_unit("bytes"),
        64 << 20,
        "Largest live message. A channel holds up to three.",
    )
}

fn max_age(p: &mut Reader<'_>) -> Option<Duration> {
    limit(seconds(p.value(
        "max_age_s",
        Live,
        number(0.0..=86_400.0).in_unit("s"),
        0.0,
        "Live frames that are older when the channel takes them are dropped; 0: no limit.",
    )))
}

/// A time without input.
fn gap(p: &mut Reader<'_>, key: &str, default: f64, help: &'static str) -> Duration {
    seconds(p.value(key, Live, above(0.0, 86_400.0).in_unit("s"), default, help))
}

fn min_rate_hz(p: &mut Reader<'_>) -> f64 {
    f64::from(p.value(
        "min_rate_hz",
        Live,
        number(0.0..=1e4).in_unit("Hz"),
        0.0,
        "Diagnostics warn when the rate of the live input is below this.",
    ))
}

fn latency_budget(p: &mut Reader<'_>) -> Option<Duration> {
    limit(milliseconds(p.value(
        "latency_budget_ms",
        Live,
        number(0.0..=1e6).in_unit("ms"),
        100.0,
        "Diagnostics warn when the 99th percentile of the time per frame is above this; 0: no limit.",
    )))
}

fn frames_in_flight(p: &mut Reader<'_>) -> usize {
    p.value(
        "frames_in_flight",
        Live,
        integer(1..=2),
        1,
        "Live frames in progress. With 2, a camera or pillar network on a GPU uploads one while the network runs: more frames, each later.",
    )
}

fn publishes_debug_image(p: &mut Reader<'_>) -> bool {
    p.value(
        "publish.debug_image",
        Live,
        flag(),
        true,
        "Whether an image with the boxes (`publish.debug_image_topic`, as JPEG below it on `compressed`) \
         is published live for subscribers.",
    )
}

fn voxel_status(p: &mut Reader<'_>) -> Option<String> {
    p.optional(
        "processing_time_diagnostics.pillars_status",
        Fixed,
        text(),
        "none",
        "Name of a status, after the node's, that tells whether all pillars fit: `centerpoint_trt` in \
         autoware_lidar_centerpoint.",
    )
}

fn processing_time(p: &mut Reader<'_>) -> Option<ProcessingTimeLimits> {
    let max = p.optional(
        "processing_time_diagnostics.max_ms",
        Fixed,
        above(0.0, 1e6).in_unit("ms"),
        "no such status",
        "Time per frame above which Autoware's `processing_time_status` warns.",
    );
    let max_delay = p.value(
        "processing_time_diagnostics.max_delay_ms",
        Fixed,
        number(0.0..=1e6).in_unit("ms"),
        1000.0,
        "It is an error when frames take longer than `max_ms` for this time.",
    );
    let interval = p.value(
        "processing_time_diagnostics.interval_ms",
        Fixed,
        number(10.0..=60_000.0).in_unit("ms"),
        100.0,
        "Time from one such status to the next.",
    );
    max.map(|max| ProcessingTimeLimits {
        max: milliseconds(max),
        max_delay: milliseconds(max_delay),
        interval: milliseconds(interval),
    })
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
            "Messages of the live input that the middleware keeps.",
        ),
    }
}

fn transform_wait(p: &mut Reader<'_>, transforms: Transforms) -> Duration {
    let (key, help) = match transforms {
        Transforms::Unused => return Duration::ZERO,
        Transforms::OfSweeps => (
            "densification.transform_wait_s",
            "Longest wait of a live frame for its transforms; then it is processed without past \
             sweeps and motion.",
        ),
        Transforms::OfFrames => (
            "transform_wait_s",
            "Longest wait of a live frame for its transforms; then it is dropped.",
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
