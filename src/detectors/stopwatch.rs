//! Durations of the stages of a frame on a device.

use std::time::Duration;

use det_post_ops::device::cuda::{Event, Stream};
use det_post_types::{FrameReport, Result, Stage};

/// Events between the stages of a frame, which are in one queue of a stream or in several.
/// Recording one neither waits nor allocates; the duration of a stage is the time between the
/// event before and after it.
pub(super) struct Stopwatch {
    start: Event,
    laps: Vec<Lap>,
}

struct Lap {
    stage: Stage,
    queue: Stream,
    /// Behind the work of other frames, where the stage before is in another queue.
    begin: Option<Event>,
    end: Event,
}

impl Stopwatch {
    /// Events around these stages, in this order, each in its queue of `stream`.
    pub(super) fn new(
        stream: &Stream,
        stages: &[Stage],
        queue_of: impl Fn(Stage) -> Stream,
    ) -> Result<Self> {
        let mut laps: Vec<Lap> = Vec::with_capacity(stages.len());
        for &stage in stages {
            let queue = queue_of(stage);
            let is_crossed = laps.last().is_some_and(|before| !before.queue.is_same_queue(&queue));
            let begin = is_crossed.then(|| Event::new(stream)).transpose()?;
            laps.push(Lap { stage, queue, begin, end: Event::new(stream)? });
        }
        Ok(Self { start: Event::new(stream)?, laps })
    }

    /// Marks the start of the first stage.
    pub(super) fn start(&self) -> Result<()> {
        self.laps.first().map_or(Ok(()), |first| self.start.record(&first.queue))
    }

    /// Marks the end of a stage, after which the work of the next one may begin; ignores a stage
    /// that is not one of [`Stopwatch::new`].
    pub(super) fn end_of(&self, stage: Stage) -> Result<()> {
        let Some(at) = self.laps.iter().position(|lap| lap.stage == stage) else { return Ok(()) };
        let ended = &self.laps[at];
        ended.end.record(&ended.queue)?;
        if let Some(Lap { queue, begin: Some(begin), .. }) = self.laps.get(at + 1) {
            queue.wait_for(&ended.end)?;
            begin.record(queue)?;
        }
        Ok(())
    }

    /// Waits for the end of the last stage.
    pub(super) fn wait(&self) -> Result<()> {
        self.laps.last().map_or(Ok(()), |last| last.end.wait())
    }

    /// Whether the last stage has ended.
    pub(super) fn is_complete(&self) -> bool {
        self.laps.last().is_none_or(|last| last.end.is_complete())
    }

    /// Adds the durations of a frame whose events were all recorded and are complete.
    pub(super) fn add_to(&self, report: &mut FrameReport) -> Result<()> {
        let mut before = &self.start;
        for Lap { stage, begin, end, .. } in &self.laps {
            let micros = begin.as_ref().unwrap_or(before).micros_until(end)?;
            report.add_duration(*stage, Duration::from_secs_f32(micros.max(0.0) * 1e-6));
            before = end;
        }
        Ok(())
    }
}
