//! What a channel does about a device that fails.

use std::time::Duration;

/// Where a channel goes when its GPU has failed too often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Nowhere: frames are dropped until the failures lie far enough back.
    #[default]
    None,
    /// To the CPU, for good.
    Cpu,
}

/// How many failures of its device a channel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailurePolicy {
    /// This many failures within the window are too many.
    pub max_failures: usize,
    /// How long a failure counts.
    pub window: Duration,
    /// What then.
    pub fallback: Fallback,
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self { max_failures: 3, window: Duration::from_secs(60), fallback: Fallback::None }
    }
}
