//! Sparse convolution over the sites of a grid.

pub mod conv;
pub mod max_pool;
pub mod merge;
pub mod rulebook;
pub mod to_map;
pub mod voxel_mean;
