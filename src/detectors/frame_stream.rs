//! What the frames of every detector have in common on a GPU: they follow each
//! other on a stream, with one upload and one wait each, until which their
//! payloads are lent to them.

use crate::detectors::stopwatch::Stopwatch;
use crate::device::cuda::{DeviceCounters, Stream, UploadScope};
use crate::error::Result;
use crate::infer::device::{DeviceEngine, NumBytes};
use crate::types::{FrameReport, Stage, Transfer};

/// A stream on which frames run, one at a time.
pub(super) struct FrameStream {
    stream: Stream,
    stopwatch: Stopwatch,
    counters: DeviceCounters,
}

/// A frame in progress; what lives for `'env` may be lent to its upload.
pub(super) struct Running<'a, 'env> {
    stopwatch: &'a Stopwatch,
    scope: &'a UploadScope<'a, 'env>,
    /// What the frame drops on the device.
    pub(super) counters: &'a mut DeviceCounters,
    pub(super) report: &'a mut FrameReport,
}

impl FrameStream {
    /// For frames of these stages, in this order.
    pub(super) fn new(stream: &Stream, stages: &[Stage]) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            stopwatch: Stopwatch::new(stream, stages)?,
            counters: DeviceCounters::new(stream)?,
        })
    }

    /// The stream itself.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// What the frames drop on the device, for work that is recorded.
    pub(super) fn counters(&mut self) -> &mut DeviceCounters {
        &mut self.counters
    }

    /// Begins a frame, whose stages mark their ends and whose last call is
    /// [`Running::finish`].
    pub(super) fn begin<'a, 'env>(
        &'a mut self,
        scope: &'a UploadScope<'a, 'env>,
        report: &'a mut FrameReport,
    ) -> Running<'a, 'env> {
        let Self { stopwatch, counters, .. } = self;
        Running { stopwatch, scope, counters, report }
    }

    /// Ends a frame: after an error, whatever it queued ends before the next
    /// frame, which starts with clear counters.
    pub(super) fn settle(&mut self, ran: Result<()>) -> Result<()> {
        if ran.is_err() {
            // A second error would be about the same work as the first.
            let _ = self.counters.enqueue_clear();
            let _ = self.stream.synchronize();
        }
        ran
    }
}

impl<'env> Running<'_, 'env> {
    /// Uploads a payload by `enqueue`, which gives the number of bytes that it
    /// copied on the host: the first stage.
    pub(super) fn upload(
        &mut self,
        num_bytes: usize,
        enqueue: impl FnOnce(&UploadScope<'_, 'env>) -> Result<usize>,
    ) -> Result<()> {
        self.stopwatch.start()?;
        let num_copied = enqueue(self.scope)?;
        self.report.add_bytes(Stage::Upload, Transfer::HostCopy, num_copied);
        self.report.add_bytes(Stage::Upload, Transfer::Upload, num_bytes);
        self.end_of(Stage::Upload)
    }

    /// Adds the durations of the stages, whose last was waited for.
    pub(super) fn finish(self) -> Result<()> {
        self.stopwatch.add_to(self.report)
    }

    /// Marks the end of a stage.
    pub(super) fn end_of(&self, stage: Stage) -> Result<()> {
        self.stopwatch.end_of(stage)
    }

    /// Reports what the frame dropped on the device, after the wait for its last
    /// kernel, and gives the bytes that were read for it.
    pub(super) fn add_counters(&mut self) -> usize {
        self.counters.add_to(self.report);
        self.counters.num_bytes()
    }

    /// Reports what a network's run copied, if it ran on the host.
    pub(super) fn add_copies(&mut self, stage: Stage, engine: &DeviceEngine) {
        let NumBytes { to_host, to_device } = engine.copies();
        self.report.add_bytes(stage, Transfer::Download, to_host);
        self.report.add_bytes(stage, Transfer::HostCopy, to_device);
        self.report.add_bytes(stage, Transfer::Upload, to_device);
    }
}

/// Room for a payload: taken by powers of two.
pub(super) fn room_for(num: usize) -> usize {
    num.checked_next_power_of_two().unwrap_or(num)
}
