//! What several test programs share; each uses its part.
#![allow(dead_code, reason = "each program uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

#[allow(unused_imports, reason = "each program uses its part")]
pub use det_post_testing::{
    bounds, encoders, jpeg, npz, onnx, require, shared_data, sparse_onnx, sparse4d_reference,
    view_cases, view_networks,
};

pub mod agreement;
#[path = "../../examples/make_sample/camera_net.rs"]
pub mod camera_net;
pub mod counting_pillars;
pub mod counting_voxels;
pub mod cpu_time;
pub mod detect;
pub mod domain;
#[path = "../../examples/make_sample/drive.rs"]
pub mod drive;
pub mod drop_in;
pub mod fused_rig;
#[path = "../../examples/make_sample/lidar_nets.rs"]
pub mod lidar_nets;
pub mod memory;
pub mod memory_middleware;
pub mod messages;
pub mod network;
pub mod one_input_slot;
pub mod packed_clouds;
#[path = "../../examples/make_sample/parameters.rs"]
pub mod parameters;
pub mod pipelined;
pub mod point_cloud;
#[path = "../../examples/make_sample/recording.rs"]
pub mod recording;
pub mod recordings;
pub mod replay;
pub mod safetensors;
pub mod session;
pub mod several_lidars;
pub mod stand_in;
pub mod streampetr;
pub mod surround_frames;
pub mod surround_rig;
pub mod tables;
#[cfg(feature = "video")]
pub mod video;
pub mod view_rig;
pub mod vocabulary;
pub mod yolov8_tensor;
