//! Errors of the participant.

use std::fmt;

/// Why a call of the participant failed.
#[derive(Debug)]
pub enum Error {
    /// The operating system refused what `action` names.
    Io {
        /// What was tried, with addresses and ports.
        action: String,
        /// What the system answered.
        source: std::io::Error,
    },
    /// A value of the settings is not allowed: what, and what is.
    Settings(String),
    /// A limit of the participant is reached.
    Limit {
        /// What is limited.
        what: &'static str,
        /// How many, or how many bytes, are allowed.
        limit: usize,
    },
    /// A writer that keeps all holds as much as it may, unconfirmed by its readers.
    Full {
        /// Samples held.
        samples: usize,
        /// Their bytes.
        bytes: usize,
    },
    /// The participant has left its domain.
    Closed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, source } => write!(f, "cannot {action}: {source}"),
            Self::Settings(message) => f.write_str(message),
            Self::Limit { what, limit } => write!(f, "{what}: at most {limit} are allowed"),
            Self::Full { samples, bytes } => write!(
                f,
                "readers have not confirmed {samples} samples of {bytes} bytes, as many as the \
                 writer keeps"
            ),
            Self::Closed => f.write_str("the participant has left its domain"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
