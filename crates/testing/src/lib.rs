//! What the tests of several crates share: generated problems, references, the
//! comparison of results, and the tests that a machine cannot run.
#![allow(missing_docs, reason = "the names say what tests need to know")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

pub mod bounds;
pub mod clouds;
mod compare;
#[cfg(feature = "networks")]
pub mod encoders;
pub mod five_onnx;
pub mod fused_onnx;
mod gpu;
pub mod heads;
pub mod images;
pub mod jpeg;
pub mod npz;
pub mod onnx;
pub mod precision_networks;
pub mod proposal_onnx;
pub mod random;
pub mod require;
pub mod shared_data;
#[cfg(feature = "networks")]
pub mod sparse4d_reference;
pub mod sparse_onnx;
pub mod sparse_scenes;
pub mod tensors;
#[cfg(feature = "networks")]
pub mod view_cases;
pub mod view_layouts;
#[cfg(feature = "networks")]
pub mod view_networks;
pub mod voxelnext;

pub use compare::{Bounds, assert_close, assert_near, check_near, share};
pub use gpu::{assert_same_kept, counted, gpu};

use std::path::PathBuf;

/// The folder of the workspace.
pub fn workspace() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
