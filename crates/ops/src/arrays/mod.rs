//! Arrays of other libraries to the inputs of operations, and operations that only arrays need.

pub mod candidates;
pub mod overlaps;
pub mod sparse;
pub mod voxels;
