//! Channels of several inputs: which messages form a frame, and detectors of two
//! cameras and of a camera and a lidar, replayed, isolated and over DDS.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

#[path = "common/require.rs"]
mod require;
#[path = "common/shared_data.rs"]
mod shared_data;

#[cfg(feature = "dds")]
#[path = "several_inputs/live.rs"]
mod live;
#[path = "several_inputs/replay.rs"]
mod replay;
#[path = "several_inputs/rig.rs"]
mod rig;
#[path = "several_inputs/stub.rs"]
mod stub;
#[path = "several_inputs/sync_tables.rs"]
mod sync_tables;
