//! Damage of a recording: what is lost of a file, where and why.

use crate::error::{Error, ErrorKind};

/// Where and why a file stops being readable.
#[derive(Debug)]
pub(super) struct Damage {
    pub(super) position: Option<usize>,
    pub(super) what: String,
}

impl Damage {
    pub(super) fn at(position: usize, what: impl Into<String>) -> Self {
        Self { position: Some(position), what: what.into() }
    }

    #[cfg(feature = "db3")]
    pub(super) fn somewhere(what: String) -> Self {
        Self { position: None, what }
    }
}

/// The error of a recording that is not readable as a whole.
pub(super) fn damaged(message: String) -> Error {
    Error::new(ErrorKind::DamagedBag, "bag", message)
}

/// Message and cause as one text.
pub(super) fn full_message(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{}: {source}", error.message()),
        None => error.message().to_owned(),
    }
}
