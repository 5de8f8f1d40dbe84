//! Operations on the CPU against references: OpenCV, mmcv, spconv, loops in f64.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

mod cameras;
mod fuzz_images;
mod jpeg_pixels;
mod keypoints;
mod letterbox;
mod mask_maps;
mod masks;
mod nms_tables;
mod proposals;
mod sparse;
