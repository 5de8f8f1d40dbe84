//! Engines and networks of our operations on the CPU against references.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

mod dense;
mod engines;
mod fp16;
mod nans;
mod onnx_vectors;
mod quantized_outputs;
mod sparse;
mod views;
