//! Errors of this middleware.

use rustdds::dds::result::CreateError;

use det_post_types::{Error, ErrorKind};

/// A failure of the middleware.
pub(super) fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Middleware, "dds", message)
}

/// The participant refused an endpoint on a topic.
pub(super) fn cannot_join(topic: &str, cause: CreateError) -> Error {
    error(format!("cannot join {topic}")).with_source(cause)
}
