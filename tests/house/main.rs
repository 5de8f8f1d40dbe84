//! The rules of the house, and the build script.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

#[path = "../common/mod.rs"]
mod common;

mod architecture;
mod build_script;
