//! Memory: what stages allocate, what decoders allocate for hostile lengths, and what a live node holds.
//!
//! These tests share a program for its global allocator.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

#[path = "../common/mod.rs"]
mod common;

mod allocations;
mod allocator;
mod fuzz_bags;
mod fuzz_cameras;
mod fuzz_clouds;
mod fuzz_messages;
mod fuzz_networks;
#[cfg(feature = "video")]
mod fuzz_video;
mod live_memory;
mod surround;
