// The grid of a lidar head: crates/types/src/grid.rs.
#pragma once

#include <cstdint>

// In Rust: `GridArgs` in crates/ops/src/cloud/voxelize/kernels.rs.
struct VoxelGrid {
    float min[3];
    float voxel_size[3];
    uint32_t size[3];
    float max[3];
    uint32_t both_ends_outside;  // 0: a point is inside where its cell is one of the grid

    // The linear index of a point's cell, x fastest; false outside the grid and for NaN.
    __device__ bool cell_of(const float* point, uint32_t* cell) const {
        uint32_t index[3];
        bool is_inside = true;
#pragma unroll
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const float at = __fdiv_rn(point[axis] - min[axis], voxel_size[axis]);
            if (both_ends_outside != 0) {
                is_inside &= point[axis] > min[axis] && point[axis] < max[axis];
            } else {
                is_inside &= at >= 0.0f && at < static_cast<float>(size[axis]);
            }
            index[axis] = is_inside ? ::min(static_cast<uint32_t>(at), size[axis] - 1) : 0;
        }
        *cell = (index[2] * size[1] + index[1]) * size[0] + index[0];
        return is_inside;
    }

    // The centre of a cell along an axis, in metres.
    __device__ float center_of(uint32_t cell, uint32_t axis) const {
        const uint32_t row = cell / size[0];
        const uint32_t index = axis == 0   ? cell - row * size[0]
                               : axis == 1 ? row % size[1]
                                           : row / size[1];
        return (static_cast<float>(index) + 0.5f) * voxel_size[axis] + min[axis];
    }
};
