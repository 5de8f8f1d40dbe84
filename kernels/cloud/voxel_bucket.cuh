// The points of a voxel as `voxelize` groups them.
#pragma once

#include <cstdint>

// All points of a voxel: a range of the points, bucket by bucket, in the order of the voxels.
// In Rust: crates/ops/src/cloud/voxelize/kernels.rs.
struct VoxelBucket {
    uint32_t offset;
    uint32_t count;
};

// The maximum number of points of a bucket that is not large: a thread per point orders it,
// a thread per channel sums it.
constexpr uint32_t kMaxSmallBucket = 64;
