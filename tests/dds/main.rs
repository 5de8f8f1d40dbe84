//! The DDS middleware against an independent implementation: CycloneDDS, by its
//! Python package, in a process of its own on the loopback interface.
//!
//! `DET_POST_PEER_PYTHON` names a Python that has `cyclonedds`; without it the
//! tests say that they were skipped. They run one after the other, each in a
//! domain of its own.

#![cfg(feature = "dds")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

#[path = "../common/mod.rs"]
mod common;

use common::{
    drive, memory, one_input_slot, recording, replay, require, session, shared_data, surround_rig,
};

mod calibration;
mod flood;
mod graph;
mod hostile;
mod load;
mod messages;
mod node;
mod other_stacks;
mod peer;
mod robustness;
mod rtps;
mod services;
mod soak;
mod surround;
mod third_party;
