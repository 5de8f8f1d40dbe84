//! Durations of the stages of a frame on a device.

use std::time::Duration;

use crate::device::cuda::{Event, Stream};
use crate::error::Result;
use crate::types::{FrameReport, Stage};

/// Events between the stages of a frame on a stream. Recording one neither waits nor
/// allocates; the duration of a stage is the time between the event before and after it.
pub(super) struct Stopwatch {
    stream: Stream,
    start: Event,
    laps: Vec<(Stage, Event)>,
}

impl Stopwatch {
    /// Events after these stages, in this order.
    pub(super) fn new(stream: &Stream, stages: &[Stage]) -> Result<Self> {
        let lap = |&stage: &Stage| Ok((stage, Event::new(stream)?));
        let laps = stages.iter().map(lap).collect::<Result<_>>()?;
        Ok(Self { stream: stream.clone(), start: Event::new(stream)?, laps })
    }

    /// Marks the start of the first stage.
    pub(super) fn start(&self) -> Result<()> {
        self.start.record(&self.stream)
    }

    /// Marks the end of a stage; ignores a stage that is not one of [`Stopwatch::new`].
    pub(super) fn end_of(&self, stage: Stage) -> Result<()> {
        let lap = self.laps.iter().find(|(marked, _)| *marked == stage);
        lap.map_or(Ok(()), |(_, event)| event.record(&self.stream))
    }

    /// Adds the durations of a frame whose events were all recorded and are complete.
    pub(super) fn add_to(&self, report: &mut FrameReport) -> Result<()> {
        let mut before = &self.start;
        for (stage, event) in &self.laps {
            let micros = before.micros_until(event)?;
            report.add_duration(*stage, Duration::from_secs_f32(micros.max(0.0) * 1e-6));
            before = event;
        }
        Ok(())
    }
}
