//! What follows from what a reader hears.

use super::ask::Ask;

/// Counters of writers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Past {
    pub renumbered: u64,
    pub dropped: u64,
}

/// What follows from a submessage or from time.
#[derive(Default)]
pub(crate) struct Effects {
    pub lost: u64,
    pub is_ready: bool,
    pub ask: Option<Ask>,
    /// The writer started a new numbering.
    pub is_renumbered: bool,
    /// Bytes that were copied from the datagram.
    pub copied: usize,
}

impl Effects {
    /// Whether anything is to be done. For most datagrams of a long sample, nothing is.
    pub fn is_something(&self) -> bool {
        self.lost > 0 || self.is_ready || self.ask.is_some() || self.is_renumbered
    }
}
