//! Errors of networks between kernels.

use crate::STAGE;
use det_post_types::{Error, ErrorKind};

pub(super) fn model_error(message: String) -> Error {
    Error::new(ErrorKind::Model, STAGE, message)
}

pub(super) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Inference, STAGE, message)
}
