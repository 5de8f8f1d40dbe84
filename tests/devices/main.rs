//! Channels on GPUs and in processes of their own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

#[path = "../common/mod.rs"]
mod common;

mod gpu;
mod isolated;
mod replay;
