//! Frames of a channel between submission and collection.

use std::collections::VecDeque;
use std::time::Instant;

use nalgebra::Isometry3;
use tracing::Span;

use super::stamps::StampOrder;
use det_post_types::{Error, FrameReport, Header, Result, Stamp};

/// The frames between submission and collection, earliest first. Nothing is allocated once
/// there was the largest number of them.
#[derive(Debug, Default)]
pub struct FramesInFlight {
    frames: VecDeque<FrameInFlight>,
    /// Frames that are over, to be used again.
    spare: Vec<FrameInFlight>,
}

/// What a frame in flight keeps of its message and its work.
#[derive(Debug)]
pub struct FrameInFlight {
    /// Its stamp.
    pub stamp: Stamp,
    /// The coordinate frame of its detections.
    pub frame_id: String,
    /// The order of its stamp and the one before.
    pub order: StampOrder,
    /// The pose of the target frame, where its detector asks for it.
    pub target_pose: Option<Result<Isometry3<f64>>>,
    /// Why the pose of its sensor is unknown, where its detector asks for it.
    pub degraded: Option<Error>,
    /// When it began.
    pub start: Instant,
    /// Durations and counters so far.
    pub report: FrameReport,
    /// Its span, [`FRAME_SPANS`](det_post_types::FRAME_SPANS).
    pub span: Span,
}

impl FramesInFlight {
    /// The number of frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Begins a frame, which is not in flight yet.
    pub fn begin(&mut self, header: &Header<'_>, order: StampOrder) -> FrameInFlight {
        let mut frame = self.spare.pop().unwrap_or_else(|| FrameInFlight {
            stamp: header.stamp,
            frame_id: String::new(),
            order,
            target_pose: None,
            degraded: None,
            start: Instant::now(),
            report: FrameReport::new(),
            span: Span::none(),
        });
        (frame.stamp, frame.order, frame.start) = (header.stamp, order, Instant::now());
        (frame.target_pose, frame.degraded, frame.report) = (None, None, FrameReport::new());
        frame.frame_id.clear();
        frame.frame_id.push_str(header.frame_id);
        frame
    }

    /// Adds a frame that was submitted.
    pub fn push(&mut self, frame: FrameInFlight) {
        self.frames.push_back(frame);
    }

    /// The frame that was added last.
    pub fn last_mut(&mut self) -> Option<&mut FrameInFlight> {
        self.frames.back_mut()
    }

    /// Takes the earliest frame; it is given back by [`FramesInFlight::reuse`].
    pub fn pop(&mut self) -> Option<FrameInFlight> {
        self.frames.pop_front()
    }

    /// Takes back a frame that is over.
    pub fn reuse(&mut self, mut frame: FrameInFlight) {
        frame.span = Span::none();
        self.spare.push(frame);
    }
}
