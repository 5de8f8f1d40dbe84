//! Whole frames through detectors: on the CPU against references, and on a GPU against the CPU.
//!
//! Without a GPU the comparison says so and passes, unless `DET_POST_REQUIRE=cuda` makes that a failure.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

#[path = "../common/mod.rs"]
mod common;

mod detr;
mod efficient_nms;
mod fused;
mod fused_files;
mod keypoints;
mod lidar_reference;
mod mask_maps;
mod masks;
mod rig;
mod streampetr;
mod trained_decoder;
mod vocabulary;
mod voxelnext;
mod whole_detector;

#[cfg(feature = "cuda")]
mod camera_pipeline;
#[cfg(feature = "cuda")]
mod decompress;
#[cfg(feature = "cuda")]
mod final_rows;
#[cfg(feature = "cuda")]
mod int8_maps;
#[cfg(feature = "cuda")]
mod lidar_pipeline;
#[cfg(feature = "cuda")]
mod proposals_pipeline;
#[cfg(feature = "cuda")]
mod rotated_pipeline;
#[cfg(feature = "cuda")]
mod several_lidars;
#[cfg(feature = "cuda")]
mod slot;
#[cfg(feature = "cuda")]
mod surround_pipeline;
#[cfg(feature = "cuda")]
mod two_stages;
#[cfg(feature = "cuda")]
mod voxels_pipeline;
