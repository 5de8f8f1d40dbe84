//! How long a device takes for the stages of a frame.

use std::time::Duration;

use crate::device::cuda::{Event, Stream};
use crate::error::Result;
use crate::types::{FrameReport, Stage};

/// Marks between the stages of a frame in a stream's work. Setting one costs
/// neither a wait nor memory; a stage lasts from the mark before it to its own.
pub(super) struct Stopwatch {
    stream: Stream,
    start: Event,
    laps: Vec<(Stage, Event)>,
}

impl Stopwatch {
    /// Marks behind these stages, in this order.
    pub(super) fn new(stream: &Stream, stages: &[Stage]) -> Result<Self> {
        let lap = |&stage: &Stage| Ok((stage, Event::new(stream)?));
        let laps = stages.iter().map(lap).collect::<Result<_>>()?;
        Ok(Self { stream: stream.clone(), start: Event::new(stream)?, laps })
    }

    /// Marks the start of the first stage.
    pub(super) fn start(&self) -> Result<()> {
        self.start.record(&self.stream)
    }

    /// Marks the end of a stage; one that was not named at first has no mark.
    pub(super) fn end_of(&self, stage: Stage) -> Result<()> {
        let lap = self.laps.iter().find(|(marked, _)| *marked == stage);
        lap.map_or(Ok(()), |(_, event)| event.record(&self.stream))
    }

    /// Adds the times of a frame in which every mark was set and waited for.
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
