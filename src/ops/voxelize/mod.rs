//! voxelize
