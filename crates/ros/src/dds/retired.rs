//! Writers that are no longer written with.
//!
//! Messages that a reader has not confirmed are lost when their writer is
//! dropped: the response to `shutdown`, the last detections. A retired writer
//! is therefore kept until every reader has confirmed everything, or for
//! [`DRAIN_TIMEOUT`]. Only a middleware that closes waits for it.

use std::time::{Duration, Instant};

use rustdds::{GUID, RTPSEntity};

use super::payload::RawWriter;

/// How long a writer waits for readers that do not confirm: what the frame in
/// flight leaves of the second in which the program is to end.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// A writer that is dropped once it is drained.
pub(super) struct RetiredWriter {
    writer: RawWriter,
    deadline: Instant,
}

impl RetiredWriter {
    pub(super) fn new(writer: RawWriter) -> Self {
        Self { writer, deadline: Instant::now() + DRAIN_TIMEOUT }
    }

    /// Whether every reader has confirmed everything, or the time is over.
    pub(super) fn is_drained(&self, now: Instant) -> bool {
        let is_confirmed = self.writer.wait_for_acknowledgments(Duration::ZERO);
        !matches!(is_confirmed, Ok(false)) || now >= self.deadline
    }

    pub(super) fn guid(&self) -> GUID {
        self.writer.guid()
    }
}
