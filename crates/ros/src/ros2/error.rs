//! Errors of this middleware.

use crate::error::{Error, ErrorKind};

/// A failure of the middleware.
pub(super) fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Middleware, "ros2", message)
}
