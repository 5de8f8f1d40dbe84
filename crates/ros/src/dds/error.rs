//! Errors of this middleware.

use det_post_types::{Error, ErrorKind};

/// A failure of the middleware.
pub(super) fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Middleware, "dds", message)
}

/// The participant refused an endpoint on a topic.
pub(super) fn cannot_join(topic: &str, cause: det_post_rtps::Error) -> Error {
    error(format!("cannot join {topic}")).with_source(cause)
}
