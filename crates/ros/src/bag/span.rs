//! The log times of the messages that are read.

use det_post_types::Stamp;

/// The log times of the messages that a reader delivers; without bounds, all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSpan {
    /// The earliest log time.
    pub from: Option<Stamp>,
    /// The end, exclusive.
    pub to: Option<Stamp>,
}

impl LogSpan {
    /// Whether a message of this log time is delivered.
    pub fn contains(self, log_time: Stamp) -> bool {
        self.meets(log_time, log_time)
    }

    /// Whether messages of these log times, first to last, may be among those delivered.
    pub(super) fn meets(self, first: Stamp, last: Stamp) -> bool {
        self.from.is_none_or(|from| last >= from) && self.to.is_none_or(|to| first < to)
    }

    /// Whether there are no bounds.
    pub(super) fn is_unbounded(self) -> bool {
        self == Self::default()
    }
}
