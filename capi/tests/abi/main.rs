//! The C ABI: the header, and programs in C and C++ that are compiled and run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod header;
mod package;
mod programs;
mod recordings;
#[path = "../../../tests/common/require.rs"]
mod require;

use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
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
