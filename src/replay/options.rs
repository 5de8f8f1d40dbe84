//! How a recording is replayed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::slice::Slice;
use super::threads::Threads;
use crate::runtime::{Factory, open_detector};

/// Pace of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rate {
    /// As fast as the channels process: every message is processed, in the order of the
    /// recording.
    #[default]
    Max,
    /// A multiple of the recorded pace, above 0. Channels run in threads and process the
    /// newest message, as live ones do; messages that a newer one overtakes are counted.
    Factor(f64),
}

/// How a recording is replayed.
#[derive(Clone)]
pub struct ReplayOptions {
    /// The pace.
    pub rate: Rate,
    /// Set it to end the replay after the frame in progress.
    pub stop: Arc<AtomicBool>,
    /// The most frames of a channel in progress at once at [`Rate::Max`], from 1 to
    /// [`MAX_FRAMES_IN_FLIGHT`](crate::detectors::MAX_FRAMES_IN_FLIGHT); `None` for 2, or more
    /// where few cameras share a GPU and the whole of a long recording is read. With 2, a channel of one
    /// camera or one pillar network on a GPU uploads a frame while its network runs on the frame
    /// before. With more, a camera's network is loaded once for every two of them, and these
    /// instances run at the same time, which pays where few cameras leave the GPU idle.
    /// What is passed on is the same: frames in the order of their messages, with their inputs.
    /// Inputs of a recording that is compressed or SQLite are copied for it with 2 or more.
    pub frames_in_flight: Option<usize>,
    /// Builds the detector of a channel.
    pub factory: Factory,
    /// The part of the recording that is replayed. At a [`Rate::Factor`] it begins as a node
    /// that is started then, without a warm-up.
    pub slice: Slice,
    /// Ends the replay once each channel has begun this many frames of the slice, dropped ones
    /// included; at [`Rate::Max`] only.
    pub max_frames: Option<u64>,
    /// The threads at [`Rate::Max`].
    pub threads: Threads,
}

impl Default for ReplayOptions {
    /// The whole recording at full speed, one frame after another, nothing that stops it, and
    /// the detectors that the configuration names.
    fn default() -> Self {
        Self {
            rate: Rate::default(),
            stop: Arc::default(),
            frames_in_flight: Some(1),
            factory: Arc::new(open_detector),
            slice: Slice::default(),
            max_frames: None,
            threads: Threads::default(),
        }
    }
}
