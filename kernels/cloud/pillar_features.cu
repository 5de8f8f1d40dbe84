// Computes the input of a pillar encoder from voxels: crates/ops/src/cloud/pillar_features/mod.rs.
//
// Thread mapping: a group of lanes per voxel. Each lane computes the features of
// points in shared memory; then the group writes its row, by 16 bytes where the
// length of a row is a multiple of that.
// Reads: the points of the voxels. Writes: the values of these points, and zeros
// where the previous launch has written beyond them; all other values are zero.

#include <cuda_fp16.h>

#include "cloud/grid.cuh"
#include "shared/slice.cuh"

namespace pillar_features {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarps = kThreads / kLanes;
// The maximum number of values of a row, and the lanes of a group, of the two kernels.
constexpr uint32_t kFew = 384;
constexpr uint32_t kFewLanes = 8;
constexpr uint32_t kMany = 2816;
constexpr uint32_t kManyLanes = 32;

// In Rust: `FeatureArgs` in crates/ops/src/cloud/pillar_features/kernels.rs.
template <typename T>
struct Args {
    Slice<const float> points;
    Slice<const uint32_t> cells;
    Slice<const uint32_t> num_points_per_voxel;
    Slice<const uint32_t> point_indices;
    Slice<const uint32_t> num_voxels;
    Slice<T> out;
    Slice<uint32_t> written;  // by row: the first values that may be nonzero; empty: all
    VoxelGrid grid;
    uint32_t num_rows;
    uint32_t max_points_per_voxel;
    uint32_t num_channels;
    uint32_t num_features;
    uint32_t point_capacity;
};

__device__ inline float narrowed(float value, float) { return value; }
__device__ inline __half narrowed(float value, __half) { return __float2half_rn(value); }

// The voxel of a group of kLanesEach lanes.
template <typename T, uint32_t kLanesEach>
struct Group {
    const Args<T>& args;
    uint32_t lane;  // in the group
    const uint32_t* indices;
    uint32_t num;
    uint32_t cell;

    __device__ Group(const Args<T>& args, uint32_t voxel)
        : args(args), lane(threadIdx.x % kLanesEach), indices(nullptr), num(0), cell(0) {
        if (voxel >= args.cells.len) return;
        indices =
            args.point_indices.data + static_cast<uint64_t>(voxel) * args.max_points_per_voxel;
        // Loaded before the number of voxels is known.
        cell = args.cells[voxel];
        num = min(args.num_points_per_voxel[voxel], args.max_points_per_voxel);
        if (voxel >= args.num_voxels[0]) num = 0;
    }

    // The values of point `i`; of an arbitrary point if there is none.
    __device__ const float* point(uint32_t i) const {
        const uint32_t index = i < num ? min(indices[i], args.point_capacity - 1) : 0;
        return args.points.data + static_cast<uint64_t>(index) * args.num_channels;
    }
};

// For a warp: writes the features of each group's points to the group's row.
template <typename T, uint32_t kLanesEach>
__device__ void make_features(const Group<T, kLanesEach>& group, T* row) {
    const Args<T>& args = group.args;
    const uint32_t most = __reduce_max_sync(kAllLanes, group.num);
    // The mean, summed in the order of the points.
    float mean[3] = {};
    for (uint32_t start = 0; start < most; start += kLanesEach) {
        const float* values = group.point(start + group.lane);
        const float position[3] = {values[0], values[1], values[2]};
        const uint32_t end = min(most - start, kLanesEach);
        for (uint32_t i = 0; i < end; ++i) {
#pragma unroll
            for (uint32_t axis = 0; axis < 3; ++axis) {
                const float value = __shfl_sync(kAllLanes, position[axis], i, kLanesEach);
                if (start + i < group.num) mean[axis] += value;
            }
        }
    }
    float center[3];
#pragma unroll
    for (uint32_t axis = 0; axis < 3; ++axis) {
        mean[axis] = __fdiv_rn(mean[axis], static_cast<float>(group.num));
        center[axis] = args.grid.center_of(group.cell, axis);
    }
    const uint32_t num_channels = args.num_channels;
    for (uint32_t i = group.lane; i < group.num; i += kLanesEach) {
        const float* values = group.point(i);
        T* out = row + i * args.num_features;
        for (uint32_t c = 0; c < num_channels; ++c) out[c] = narrowed(values[c], T{});
        out += num_channels;
#pragma unroll
        for (uint32_t axis = 0; axis < 3; ++axis) {
            out[axis] = narrowed(values[axis] - mean[axis], T{});
            // The offset from the centre in z is optional.
            if (num_channels + 3 + axis < args.num_features) {
                out[3 + axis] = narrowed(values[axis] - center[axis], T{});
            }
        }
    }
}

template <typename T, uint32_t kLanesEach, uint32_t kMaxValues>
__device__ void write_rows(const Args<T>& args) {
    constexpr uint32_t kWide = 16 / sizeof(T);
    constexpr uint32_t kGroups = kLanes / kLanesEach;
    __shared__ __align__(16) T rows[kWarps][kGroups * kMaxValues];
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    const uint32_t first = (blockIdx.x * kWarps + warp) * kGroups;
    if (first >= args.num_rows) return;
    const uint32_t own = lane / kLanesEach;
    const uint32_t voxel = first + own;
    const bool is_row = voxel < args.num_rows;
    const uint32_t row_len = args.max_points_per_voxel * args.num_features;
    const bool has_written = args.written.len != 0;
    const uint32_t before = !is_row ? 0 : has_written ? args.written[voxel] : row_len;
    const Group<T, kLanesEach> group(args, voxel);
    T* row = rows[warp] + own * kMaxValues;
    make_features(group, row);
    const uint32_t num = group.num * args.num_features;
    const uint32_t end = max(num, before);
    // Rounded up to whole words of 16 bytes.
    const uint32_t end_staged = (num + kWide - 1) / kWide * kWide;
    for (uint32_t at = num + group.lane; at < end_staged; at += kLanesEach) {
        row[at] = narrowed(0.0f, T{});
    }
    __syncwarp();
    if (!is_row) return;
    T* out = args.out.data + static_cast<uint64_t>(voxel) * row_len;
    if (row_len % kWide == 0) {
        for (uint32_t at = group.lane * kWide; at < end; at += kLanesEach * kWide) {
            uint4 word = {};
            if (at < num) word = *reinterpret_cast<const uint4*>(row + at);
            *reinterpret_cast<uint4*>(out + at) = word;
        }
    } else {
        for (uint32_t at = group.lane; at < end; at += kLanesEach) {
            out[at] = at < num ? row[at] : narrowed(0.0f, T{});
        }
    }
    if (group.lane == 0 && has_written && num != before) args.written[voxel] = num;
}

}  // namespace pillar_features

// pillar_features_f32, pillar_features_many_f32, pillar_features_f16, pillar_features_many_f16.
#define PILLAR_FEATURES_KERNELS(T, suffix)                                                         \
    extern "C" __global__ void __launch_bounds__(pillar_features::kThreads)                        \
        pillar_features_##suffix(const __grid_constant__ pillar_features::Args<T> args) {          \
        pillar_features::write_rows<T, pillar_features::kFewLanes, pillar_features::kFew>(args);   \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(pillar_features::kThreads)                        \
        pillar_features_many_##suffix(const __grid_constant__ pillar_features::Args<T> args) {     \
        pillar_features::write_rows<T, pillar_features::kManyLanes, pillar_features::kMany>(args); \
    }

PILLAR_FEATURES_KERNELS(float, f32)
PILLAR_FEATURES_KERNELS(__half, f16)
