//! Errors of this middleware.

use det_post_types::{Error, ErrorKind};

/// A failure of the middleware.
pub(super) fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Middleware, "ros2", message)
}
