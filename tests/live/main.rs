//! The live node behind a middleware in memory: what it publishes, what it counts,
//! what it answers, and how it starts and stops.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they saw")]

#[path = "../common/mod.rs"]
mod common;

use common::{
    camera_net, counting_pillars, drive, memory_middleware, packed_clouds as packed, pipelined,
    recording, replay, require, session, stand_in,
};

#[cfg(feature = "video")]
use common::video as encoded;

mod calibration;
mod diagnostics;
mod frames;
#[cfg(feature = "dds")]
mod fused;
mod hostile;
mod in_flight;
#[cfg(feature = "dds")]
mod inputs_over_dds;
mod observed;
mod other_stacks;
mod outputs;
mod packed_clouds;
mod process;
mod proposals;
#[cfg(feature = "dds")]
mod sensors_over_dds;
mod services;
mod several_inputs;
mod several_lidars;
mod surround;
mod surround_prepared;
mod time;
#[cfg(feature = "video")]
mod video;
mod views;
