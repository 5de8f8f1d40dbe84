//! The inputs of a channel, and how their messages become frames.

use std::time::Duration;

use super::table::Values;
use crate::types::NodeName;

/// One input of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputConfig {
    /// Topic of the sensor's messages, absolute.
    pub topic: String,
    /// Whether live images come as `sensor_msgs/CompressedImage`. A recording
    /// says it itself.
    pub is_compressed: bool,
    /// Topic of the camera's `sensor_msgs/CameraInfo`, absolute; `None`: not
    /// asked for.
    pub camera_info: Option<String>,
}

impl InputConfig {
    pub(super) fn new(values: &Values, node: &NodeName) -> Self {
        Self {
            topic: node.expand(values.text("input")),
            is_compressed: match values.text("input_transport") {
                "compressed" => true,
                "raw" => false,
                // As image_transport names its topics.
                _ => values.text("input").ends_with("/compressed"),
            },
            camera_info: values.optional_text("camera_info").map(|topic| node.expand(&topic)),
        }
    }
}

/// Which messages of several inputs belong to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Of each input the message nearest to the reference in time, used once.
    Nearest,
    /// Of each input the newest message when the reference arrives.
    Latest,
}

/// How messages of several inputs become frames. With one input every message
/// is a frame, and nothing here has an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncConfig {
    /// Which messages belong together.
    pub policy: SyncPolicy,
    /// The input whose messages open frames and give them their stamps.
    pub reference: usize,
    /// The largest difference of stamps: to the reference (`Nearest`), or within
    /// the frame (`Latest`).
    pub max_skew: Duration,
    /// How long after the arrival of its reference a frame closes at the latest
    /// (`Nearest`).
    pub deadline: Duration,
    /// The shortest time between two stamps of an input; zero where that is not
    /// known. With it a frame need not wait for a message that cannot be nearer
    /// (`Nearest`).
    pub min_period: Duration,
    /// Messages that are kept of each input.
    pub depth: usize,
    /// The fewest inputs of a frame, the reference included; `None`: all.
    pub min_inputs: Option<usize>,
}

impl Default for SyncConfig {
    fn default() -> Self {
        Self {
            policy: SyncPolicy::Nearest,
            reference: 0,
            max_skew: Duration::from_millis(50),
            deadline: Duration::from_millis(60),
            min_period: Duration::ZERO,
            depth: 4,
            min_inputs: None,
        }
    }
}
