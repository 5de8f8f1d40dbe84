//! The DDS door against an independent implementation: CycloneDDS, by its
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

#[path = "dds/graph.rs"]
mod graph;
#[path = "dds/load.rs"]
mod load;
#[path = "dds/messages.rs"]
mod messages;
#[path = "dds/peer.rs"]
mod peer;
#[path = "dds/robustness.rs"]
mod robustness;
#[path = "dds/services.rs"]
mod services;
