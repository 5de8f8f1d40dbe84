//! Images to the inputs of a network.

pub mod decompress;
#[cfg(feature = "cuda")]
mod device_image;
#[cfg(feature = "cuda")]
mod kernels;
pub mod letterbox;
mod planes;
pub mod resample;
mod wire;
#[cfg(feature = "cuda")]
mod wire_layout;

#[cfg(feature = "cuda")]
pub use device_image::{DeviceImage, ImageLayout};
