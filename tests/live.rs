//! The live node behind a door in memory: what it publishes, what it counts,
//! what it answers, and how it starts and stops.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they saw")]

#[path = "../examples/make_sample/camera_net.rs"]
mod camera_net;
#[path = "common/counting_pillars.rs"]
mod counting_pillars;
#[path = "../examples/make_sample/drive.rs"]
mod drive;
#[path = "../examples/make_sample/lidar_nets.rs"]
mod lidar_nets;
#[path = "common/onnx.rs"]
mod onnx;
#[path = "../examples/make_sample/parameters.rs"]
mod parameters;
#[path = "../examples/make_sample/recording.rs"]
mod recording;
#[path = "common/replay.rs"]
mod replay;
#[path = "common/require.rs"]
mod require;

#[path = "live/calibration.rs"]
mod calibration;
#[path = "live/diagnostics.rs"]
mod diagnostics;
#[path = "live/frames.rs"]
mod frames;
#[path = "live/hostile.rs"]
mod hostile;
#[path = "live/process.rs"]
mod process;
#[path = "live/services.rs"]
mod services;
#[path = "live/session.rs"]
mod session;
#[path = "live/time.rs"]
mod time;
#[path = "live/views.rs"]
mod views;
