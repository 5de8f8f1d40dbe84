//! Images to the inputs of a network.

pub mod decompress;
pub mod letterbox;
pub mod resample;
#[cfg(feature = "cuda")]
mod kernels;
mod planes;
mod wire;
#[cfg(feature = "cuda")]
mod wire_layout;
