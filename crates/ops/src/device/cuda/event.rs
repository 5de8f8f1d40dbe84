//! Events: points in the work of streams.

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaEvent, result};

use super::{Stream, failed};
use det_post_types::Result;

/// A point in a stream's work, to wait for and to measure times.
#[derive(Debug)]
pub struct Event {
    event: CudaEvent,
    // Dropped after the event, which belongs to the stream's context. Waits for
    // the event count as waits for the stream.
    stream: Stream,
}

impl Event {
    /// An event that is complete until it is recorded.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn new(stream: &Stream) -> Result<Self> {
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let event = stream.device().context().new_event(flags);
        let event = event.map_err(|e| failed("make an event", e))?;
        Ok(Self { event, stream: stream.clone() })
    }

    /// Records the event behind all work queued so far.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.event.record(stream.cuda()).map_err(|e| failed("record an event", e))
    }

    /// Whether the stream has reached the event without a failure.
    pub fn is_complete(&self) -> bool {
        self.event.try_is_complete().unwrap_or(false)
    }

    /// Waits until the stream has reached the event; returns at once if it has.
    ///
    /// # Errors
    /// `Device` when work before the event failed.
    pub fn wait(&self) -> Result<()> {
        let is_reached = self.event.try_is_complete();
        if is_reached.map_err(|e| failed("query an event", e))? {
            return Ok(());
        }
        self.stream.count_wait();
        self.event.synchronize().map_err(|e| failed("wait for an event", e))
    }

    /// Microseconds of GPU time from this event to a later one; both must be
    /// complete.
    ///
    /// # Errors
    /// `Device` when either was never recorded or is not complete, or work failed.
    pub fn micros_until(&self, end: &Self) -> Result<f32> {
        // SAFETY: both events are alive and were created with timing; the driver
        // returns an error for events that were not recorded or are not complete.
        let milliseconds =
            unsafe { result::event::elapsed(self.event.cu_event(), end.event.cu_event()) };
        Ok(1000.0 * milliseconds.map_err(|e| failed("measure between events", e))?)
    }
}

impl Stream {
    /// Lets work that is queued from now on begin after an event. The host does not wait.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.cuda().wait(&event.event).map_err(|e| failed("wait for another queue", e))
    }
}
