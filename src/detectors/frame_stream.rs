//! The frames of a detector on a GPU: one after another on a stream, with one upload and
//! one wait per frame, until which the frame borrows its payload.

use crate::detectors::stopwatch::Stopwatch;
use det_post_infer::device::{DeviceEngine, NumBytes};
use det_post_ops::device::cuda::{Stream, UploadScope};
use det_post_ops::shared::DeviceCounters;
use det_post_types::{FrameReport, Result, Stage, Transfer};

/// A stream on which frames run, in order.
pub(super) struct FrameStream {
    stream: Stream,
    /// One for each frame that may be in flight.
    stopwatches: Vec<Stopwatch>,
    /// The frame that is begun or ended next.
    selected: usize,
    counters: DeviceCounters,
}

/// Where work is recorded that counts what it drops.
pub(super) struct RecordedOn<'a> {
    /// The stream on which it runs.
    pub(super) stream: &'a Stream,
    /// The counters of its frame.
    pub(super) counters: &'a mut DeviceCounters,
}

/// A frame in progress, whose upload may borrow memory for `'env`.
pub struct FrameInProgress<'a, 'env> {
    stopwatch: &'a Stopwatch,
    scope: &'a UploadScope<'a, 'env>,
    /// Counters of what the frame drops on the device.
    pub(super) counters: &'a mut DeviceCounters,
    pub(super) report: &'a mut FrameReport,
    has_uploaded: bool,
}

impl FrameStream {
    /// A stream for frames with these stages, in this order.
    pub(super) fn new(stream: &Stream, stages: &[Stage]) -> Result<Self> {
        Self::with_queues(stream, stages, |_| stream.clone())
    }

    /// As [`FrameStream::new`], with each stage in its queue of the stream, beside those of other
    /// frames.
    pub(super) fn with_queues(
        stream: &Stream,
        stages: &[Stage],
        queue_of: impl Fn(Stage) -> Stream,
    ) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            stopwatches: vec![Stopwatch::new(stream, stages, queue_of)?],
            selected: 0,
            counters: DeviceCounters::new(stream)?,
        })
    }

    /// Prepares for `num` frames in flight with these stages and with uploads in another queue
    /// of the stream. No frame is in flight.
    pub(super) fn pipeline(
        &mut self,
        num: usize,
        uploads: &Stream,
        stages: &[Stage],
    ) -> Result<()> {
        let stream = &self.stream;
        let queue_of = |stage| match stage {
            Stage::Upload => uploads.clone(),
            _ => stream.clone(),
        };
        let stopwatch = |_| Stopwatch::new(stream, stages, queue_of);
        let stopwatches = (0..num).map(stopwatch).collect::<Result<_>>()?;
        (0..num).rev().try_for_each(|frame| self.counters.select(frame))?;
        (self.stopwatches, self.selected) = (stopwatches, 0);
        Ok(())
    }

    /// Selects one of the frames that may be in flight, to begin or to end it, or to record work
    /// that publishes its counters.
    pub(super) fn select(&mut self, frame: usize) -> Result<()> {
        self.counters.select(frame)?;
        self.selected = frame;
        Ok(())
    }

    /// The stream.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Counters of what the frames drop on the device, for work that is recorded.
    pub(super) fn counters(&mut self) -> &mut DeviceCounters {
        &mut self.counters
    }

    /// Begins a frame. Each stage marks its end; the last call is [`FrameInProgress::finish`], or
    /// [`FrameStream::end`] for the selected frame.
    pub(super) fn begin<'a, 'env>(
        &'a mut self,
        scope: &'a UploadScope<'a, 'env>,
        report: &'a mut FrameReport,
    ) -> FrameInProgress<'a, 'env> {
        let Self { stopwatches, selected, counters, .. } = self;
        FrameInProgress {
            stopwatch: &stopwatches[*selected],
            scope,
            counters,
            report,
            has_uploaded: false,
        }
    }

    /// Waits for the last stage of the frame that was begun.
    pub(super) fn wait(&self) -> Result<()> {
        self.stopwatches[self.selected].wait()
    }

    /// Waits, if the frame that was begun has not ended, and adds its durations and counters to
    /// the report. Returns the number of bytes that the counters have.
    pub(super) fn end(&mut self, report: &mut FrameReport) -> Result<usize> {
        self.wait()?;
        self.stopwatches[self.selected].add_to(report)?;
        self.counters.add_to(report);
        Ok(self.counters.num_bytes())
    }

    /// Passes the result of a frame on. After an error, waits for the work that it queued and
    /// clears the counters.
    pub(super) fn drain_on_error(&mut self, ran: Result<()>) -> Result<()> {
        if ran.is_err() {
            // These report the error of `ran` again.
            let _ = self.counters.enqueue_clear();
            let _ = self.stream.synchronize();
        }
        ran
    }
}

impl<'env> FrameInProgress<'_, 'env> {
    /// The first stage: uploads payloads by `enqueue`, which adds their bytes to the report. What is
    /// uploaded later is part of the stage in which it is.
    pub(super) fn upload_by(
        &mut self,
        enqueue: impl FnOnce(&UploadScope<'_, 'env>, &mut FrameReport) -> Result<()>,
    ) -> Result<()> {
        if self.has_uploaded {
            return enqueue(self.scope, self.report);
        }
        self.has_uploaded = true;
        self.stopwatch.start()?;
        enqueue(self.scope, self.report)?;
        self.stopwatch.end_of(Stage::Upload)
    }

    /// Adds the durations of the stages to the report, after the wait for the last one.
    pub(super) fn finish(self) -> Result<()> {
        self.stopwatch.add_to(self.report)
    }

    /// Marks the end of a stage.
    pub(super) fn end_of(&self, stage: Stage) -> Result<()> {
        self.stopwatch.end_of(stage)
    }

    /// Adds the copies of a network that runs on the host to the report.
    pub(super) fn add_copies(&mut self, stage: Stage, engine: &DeviceEngine) {
        add_copies(self.report, stage, engine);
    }
}

/// Adds the copies of a network that runs on the host to a report.
pub(super) fn add_copies(report: &mut FrameReport, stage: Stage, engine: &DeviceEngine) {
    let NumBytes { to_host, to_device } = engine.copies();
    report.add_bytes(stage, Transfer::Download, to_host);
    report.add_bytes(stage, Transfer::HostCopy, to_device);
    report.add_bytes(stage, Transfer::Upload, to_device);
}

/// The capacity of memory for a payload: a power of two.
pub(super) fn capacity_for(num: usize) -> usize {
    num.checked_next_power_of_two().unwrap_or(num)
}
