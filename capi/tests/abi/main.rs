//! The C ABI: the header, and programs in C and C++ that are compiled and run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod documentation;
mod header;
#[path = "../../../crates/testing/src/onnx.rs"]
mod onnx;
mod package;
mod programs;
mod recordings;
#[path = "../../../crates/testing/src/require.rs"]
mod require;
#[path = "../../../tests/common/safetensors.rs"]
mod safetensors;
mod sparse;
#[path = "../../../tests/common/streampetr.rs"]
#[allow(dead_code, reason = "each program uses its part")]
mod streampetr;
#[path = "../../../tests/common/view_files.rs"]
mod view_files;
mod views;
#[path = "../../../tests/common/yolov8_tensor.rs"]
#[allow(dead_code, reason = "each program uses its part")]
mod yolov8_tensor;

use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The folder of the shared data: `DET_POST_SHARED_DATA`, else beside the checkout. `None` when
/// there is none, which skips the calling test.
#[track_caller]
fn shared_data() -> Option<PathBuf> {
    let folder = std::env::var_os("DET_POST_SHARED_DATA");
    let folder = folder.map_or_else(|| root().join("../shared/data"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    require::skip(require::Need::Data, format_args!("{} is no folder", folder.display()));
    None
}

/// The folder of this build, such as `target/debug`.
fn build() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    this.ancestors().nth(2).unwrap().to_owned()
}

/// The folder of the shared library, which Cargo built for these tests.
fn library() -> PathBuf {
    build().join("deps")
}
