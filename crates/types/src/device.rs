//! The device of a channel.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// The configured device of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first GPU when one is usable, else the CPU; the choice is logged. On a machine with
    /// several GPUs, channels are placed on all of them before.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of this number, or an error.
    Cuda(u32),
}

/// Whether a technique is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    /// Where it is available and of advantage, as the option says.
    #[default]
    Auto,
    /// Always, or an error.
    Always,
    /// Never.
    Never,
}

/// How payloads reach a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadOptions {
    /// Threads that copy a large payload into memory from which a GPU reads; 0 follows the
    /// number of cores.
    pub copy_threads: usize,
    /// The most bytes of mapped recordings that are registered for uploads at a time; 0
    /// registers none.
    pub mapped_bytes: usize,
}

impl UploadOptions {
    /// The largest number of threads that copy one payload.
    pub const MAX_COPY_THREADS: usize = 16;
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

impl FromStr for DeviceChoice {
    type Err = Error;

    /// Parses the format of [`Display`](fmt::Display).
    ///
    /// # Errors
    /// `Config` for any other text.
    fn from_str(text: &str) -> Result<Self, Error> {
        let ordinal = text.strip_prefix("cuda:").and_then(|ordinal| ordinal.parse().ok());
        match (text, ordinal) {
            ("auto", _) => Ok(Self::Auto),
            ("cpu", _) => Ok(Self::Cpu),
            (_, Some(ordinal)) => Ok(Self::Cuda(ordinal)),
            _ => {
                let meant = matches!(text, "cuda" | "gpu" | "cuda0" | "0");
                let meant = if meant { "; did you mean cuda:0?" } else { "" };
                let message = format!("found {text:?}; allowed: auto, cpu, cuda:N{meant}");
                Err(Error::new(ErrorKind::Config, "device", message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for choice in [DeviceChoice::Auto, DeviceChoice::Cpu, DeviceChoice::Cuda(11)] {
            assert_eq!(choice.to_string().parse::<DeviceChoice>().unwrap(), choice);
        }
        for text in ["", "gpu", "cuda", "cuda:", "cuda:-1", "cuda:1x", "CPU"] {
            assert!(text.parse::<DeviceChoice>().is_err(), "{text}");
        }
    }
}
