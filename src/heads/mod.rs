//! Which ops in which order, with which tensors: what a network's answers mean.
//!
//! A head is made once, at start, from the facts of its model and the tensors
//! the loaded network has. It refuses a network that does not fit, naming what
//! was expected and what was found; after that, decoding only reads.

mod lidar;
mod yolo;

#[cfg(feature = "cuda")]
pub use lidar::LidarDecoder;
pub use lidar::{CenterOutputs, LidarHead, PillarEncoder};
pub use yolo::YoloHead;
