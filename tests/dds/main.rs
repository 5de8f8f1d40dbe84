//! The DDS middleware against independent implementations, in processes of their
//! own on the loopback interface: CycloneDDS by its Python package, Fast DDS by a
//! program that is compiled here.
//!
//! `DET_POST_PEER_PYTHON` names a Python that has `cyclonedds`; Fast DDS is that of the
//! system. Without them the tests say that they were skipped. Each runs in a
//! separate domain; those that measure run one after the other.

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

#[path = "../../crates/testing/src/dds_peers.rs"]
mod dds_peers;

use common::{
    drive, memory, one_input_slot, recording, replay, require, session, shared_data, surround_rig,
};

mod calibration;
mod fast_dds;
mod fast_dds_peer;
mod flood;
mod graph;
mod hostile;
mod load;
mod messages;
mod metadata_client;
mod node;
mod other_stacks;
mod pauses;
mod peer;
mod robustness;
mod rtps;
mod services;
mod soak;
mod surround;
mod tshark;
