//! What a replay passes on.

use crate::config::ChannelConfig;
use crate::detectors::FrameSet;
use det_post_types::{Detections, Error, FrameReport, Header, Stamp};

/// One frame of a replay.
pub struct ReplayFrame<'a> {
    /// Index of its channel in [`Replay::channels`](super::Replay::channels).
    pub channel: usize,
    /// Configuration of its channel.
    pub config: &'a ChannelConfig,
    /// Number of the frame in its channel, from 0; dropped frames count.
    pub number: u64,
    /// Messages of all channels read so far, by the thread of its channel.
    pub num_messages_read: u64,
    /// The detections, or why the frame is dropped.
    pub result: std::result::Result<ReplayDetections<'a>, &'a Error>,
}

/// The detections of a frame and what they were found in.
pub struct ReplayDetections<'a> {
    /// Stamp and coordinate frame of the reference input.
    pub header: Header<'a>,
    /// Detections in the total order: score descending, then class, then source index.
    pub detections: Detections<'a>,
    /// Durations, losses and moved bytes of the frame.
    pub report: &'a FrameReport,
    /// Why the pose of a sensor is unknown; the frame was processed without it.
    pub degraded: Option<&'a Error>,
    /// The inputs of the frame, with any number of frames in flight.
    pub inputs: FrameSet<'a>,
    /// Time of the detections on the clock of the recording: the log time of the message
    /// that completes the frame or, at a [`Rate::Factor`](super::Rate::Factor), the time at which they are found.
    pub log_time: Stamp,
}
