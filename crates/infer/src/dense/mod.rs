//! Networks of dense layers of our own: the engine `cuda`.
//!
//! An ONNX file becomes a [`graph`] of typed operations between values whose shapes are known; [`passes`] fold
//! constants and fuse what follows and precedes a convolution; a [`plan`] gives every value a window of a buffer and
//! lists the steps, each one launch. The same plan runs on the CPU, by the references of the operations, and on a GPU.

mod function;
mod graph;
mod passes;
mod program;

use det_post_types::{Error, ErrorKind, Result};

/// The stage of errors.
const STAGE: &str = "dense";

fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Model, STAGE, message)
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(error(message))
}
