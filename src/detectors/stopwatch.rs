//! Durations of the stages of a frame on a device.

use std::time::Duration;

use crate::device::cuda::{Event, Stream};
use crate::error::Result;
use crate::types::{FrameReport, Stage};

/// Events between the stages of a frame on a stream. Recording one neither waits nor
/// allocates; the duration of a stage is the time between the event before and after it.
pub(super) struct Stopwatch {
    stream: Stream,
    /// The queue of the first stage, the upload.
    uploads: Stream,
    start: Event,
    /// The begin of the work after the upload, where that is in another queue and waits for
    /// the frame before.
    begin: Option<Event>,
    laps: Vec<(Stage, Event)>,
}

impl Stopwatch {
    /// Events after these stages, in this order. The first is queued on `uploads`, the others
    /// on `stream`.
    pub(super) fn new(stream: &Stream, uploads: &Stream, stages: &[Stage]) -> Result<Self> {
        let lap = |&stage: &Stage| Ok((stage, Event::new(stream)?));
        let laps = stages.iter().map(lap).collect::<Result<_>>()?;
        let is_beside = !stream.is_same_queue(uploads);
        Ok(Self {
            stream: stream.clone(),
            uploads: uploads.clone(),
            start: Event::new(stream)?,
            begin: is_beside.then(|| Event::new(stream)).transpose()?,
            laps,
        })
    }

    /// Marks the start of the first stage.
    pub(super) fn start(&self) -> Result<()> {
        self.start.record(&self.uploads)
    }

    /// Marks the end of the upload, after which the work of the other stages may begin.
    pub(super) fn end_of_upload(&self) -> Result<()> {
        let Some((_, uploaded)) = self.laps.first() else { return Ok(()) };
        uploaded.record(&self.uploads)?;
        let Some(begin) = &self.begin else { return Ok(()) };
        self.stream.wait_for(uploaded)?;
        begin.record(&self.stream)
    }

    /// Marks the end of a stage; ignores a stage that is not one of [`Stopwatch::new`].
    pub(super) fn end_of(&self, stage: Stage) -> Result<()> {
        let lap = self.laps.iter().find(|(marked, _)| *marked == stage);
        lap.map_or(Ok(()), |(_, event)| event.record(&self.stream))
    }

    /// Waits for the end of the last stage.
    pub(super) fn wait(&self) -> Result<()> {
        self.laps.last().map_or(Ok(()), |(_, event)| event.wait())
    }

    /// Adds the durations of a frame whose events were all recorded and are complete.
    pub(super) fn add_to(&self, report: &mut FrameReport) -> Result<()> {
        let mut before = &self.start;
        for (index, (stage, event)) in self.laps.iter().enumerate() {
            let micros = before.micros_until(event)?;
            report.add_duration(*stage, Duration::from_secs_f32(micros.max(0.0) * 1e-6));
            before = self.begin.as_ref().filter(|_| index == 0).unwrap_or(event);
        }
        Ok(())
    }
}
