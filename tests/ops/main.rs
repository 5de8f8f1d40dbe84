//! Ops and engines on the CPU against references.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

#[path = "../common/mod.rs"]
mod common;

mod cameras;
mod efficient_nms;
mod engines;
mod fp16;
mod fuzz_images;
mod jpeg_pixels;
mod lidar_reference;
mod nms_tables;
mod onnx_vectors;
mod sparse;
mod streampetr;
mod views;
