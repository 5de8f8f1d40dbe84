//! Channels of several inputs: which messages form a frame, and detectors of two
//! cameras and of a camera and a lidar, replayed, isolated and over DDS.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common::shared_data;

#[cfg(feature = "dds")]
pub mod live;
mod replay;
mod rig;
mod stub;
mod sync_tables;
