//! Point clouds to the inputs of a network.

pub mod densify;
pub mod pillar_features;
pub mod scatter;
pub mod unpack;
pub mod voxelize;
