//! det_post: images and point clouds in, detection arrays out.

pub mod cli;
pub mod config;
pub mod device;
pub mod error;
pub mod heads;
pub mod infer;
pub mod ops;
pub mod pipeline;
pub mod telemetry;
pub mod transport;
pub mod types;

pub use error::{Error, ErrorKind, Result};
