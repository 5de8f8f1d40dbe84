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

#[path = "../examples/make_sample/camera_net.rs"]
mod camera_net;
#[path = "../examples/make_sample/drive.rs"]
mod drive;
#[path = "../examples/make_sample/lidar_nets.rs"]
mod lidar_nets;
#[path = "common/memory.rs"]
mod memory;
#[path = "common/one_input_slot.rs"]
mod one_input_slot;
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
#[allow(dead_code, reason = "of a node in memory, only its sample is used here")]
#[path = "live/session.rs"]
mod session;

#[path = "dds/calibration.rs"]
mod calibration;
#[path = "dds/flood.rs"]
mod flood;
#[path = "dds/graph.rs"]
mod graph;
#[path = "dds/hostile.rs"]
mod hostile;
#[path = "dds/load.rs"]
mod load;
#[path = "dds/messages.rs"]
mod messages;
#[path = "dds/node.rs"]
mod node;
#[path = "dds/peer.rs"]
mod peer;
#[path = "dds/robustness.rs"]
mod robustness;
#[path = "dds/rtps.rs"]
mod rtps;
#[path = "dds/services.rs"]
mod services;
#[path = "dds/soak.rs"]
mod soak;
#[path = "dds/third_party.rs"]
mod third_party;
