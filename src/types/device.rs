//! Where a channel is to run.

use std::fmt;

/// The device a channel asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first GPU when one is usable, else the CPU; which, is logged.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of this number, or an error.
    Cuda(u32),
}

impl fmt::Display for DeviceChoice {
    /// `auto`, `cpu`, `cuda:0`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}
