//! The policy of a channel for failures of its device.

use std::time::Duration;

/// The fallback of a channel whose GPU has failed too often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// None: frames are dropped until fewer failures are in the window.
    #[default]
    None,
    /// The CPU, until the node ends.
    Cpu,
}

/// The policy for failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailurePolicy {
    /// Number of failures within the window that are too many.
    pub max_failures: usize,
    /// The window.
    pub window: Duration,
    /// The fallback.
    pub fallback: Fallback,
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self { max_failures: 3, window: Duration::from_secs(60), fallback: Fallback::None }
    }
}
