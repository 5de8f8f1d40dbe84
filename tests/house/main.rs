//! The rules of the house, the build script and the budget of the kernels.
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
