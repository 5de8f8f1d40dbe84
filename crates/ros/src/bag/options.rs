//! Options of reading a recording, and bounds of its declarations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::budget::MemoryBudget;

/// The most bytes of the name of a topic, of its type and of its serialization.
pub(super) const MAX_NAME_BYTES: usize = 1024;
/// The most bytes of text with which a file declares its topics.
pub(super) const MAX_DECLARED_BYTES: usize = 64 << 20;

/// How a recording is read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The memory that readers with this budget may hold together.
    pub memory: &'static MemoryBudget,
    /// Once set, ends opening a recording: a file without an index, or a cut
    /// one, is read through for it.
    pub stop: Arc<AtomicBool>,
}

impl Default for ReadOptions {
    /// The budget of the process, and nothing that stops.
    fn default() -> Self {
        Self { memory: MemoryBudget::process(), stop: Arc::default() }
    }
}

impl ReadOptions {
    /// Whether a stop was requested.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
