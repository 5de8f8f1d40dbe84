//! Arrays of other libraries to the inputs of operations.

pub mod candidates;
pub mod sparse;
pub mod voxels;
