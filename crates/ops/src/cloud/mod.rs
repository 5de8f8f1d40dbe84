//! Point clouds to the inputs of a network.

pub mod densify;
#[cfg(feature = "cuda")]
mod device_cloud;
#[cfg(feature = "cuda")]
mod device_points;
pub mod pillar_features;
pub mod scatter;
pub mod unpack;
pub mod voxel_points;
pub mod voxelize;

#[cfg(feature = "cuda")]
pub use device_cloud::{CloudLayout, DeviceCloud, num_bytes};
#[cfg(feature = "cuda")]
pub use device_points::{DevicePoints, PointSlices};
