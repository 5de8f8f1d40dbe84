//! Recordings and their messages, and replays of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

#[path = "../common/mod.rs"]
mod common;

mod autoware_messages;
mod bags;
mod class_names;
mod damaged_bags;
mod demo;
mod detections_recording;
mod dropin;
mod frames_in_flight;
mod fused;
mod golden;
mod lidar_replay;
mod message_types;
mod messages;
mod mistaken_messages;
mod nan_scores;
mod packed_clouds;
mod proposals;
mod rotated_boxes;
mod several_lidars;
mod shortened_bags;
mod slices;
mod surround;
mod surround_views;
mod tensor_replay;
mod threads;
mod video;
mod voxel_replay;
