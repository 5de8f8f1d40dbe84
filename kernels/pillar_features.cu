// Pillar features: voxels become the input of a pillar encoder:
// src/ops/pillar_features/mod.rs.
//
// Thread mapping: a warp a voxel. A lane makes the features of a point in the
// block's memory; then the lanes write the row, 16 bytes at once where rows are
// a multiple of that.
// Reads: the kept points of the voxels. Writes: every value of every row, zero
// where there is no point or no voxel.

#include <cuda_fp16.h>

#include "grid.cuh"
#include "slice.cuh"

namespace pillar_features {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarps = kThreads / kLanes;
// Values of a row that a warp holds.
constexpr uint32_t kFew = 512;
constexpr uint32_t kMany = 2816;

// The mirror of `FeatureArgs` in src/device/cuda/abi/pillar_features.rs.
template <typename T>
struct Args {
    Slice<const float> points;
    Slice<const uint32_t> cells;
    Slice<const uint32_t> num_points_per_voxel;
    Slice<const uint32_t> point_indices;
    Slice<const uint32_t> num_voxels;
    Slice<T> out;
    VoxelGrid grid;
    uint32_t num_rows;
    uint32_t max_points_per_voxel;
    uint32_t num_channels;
    uint32_t num_features;
    uint32_t point_capacity;
};

__device__ inline float narrowed(float value, float) { return value; }
__device__ inline __half narrowed(float value, __half) { return __float2half_rn(value); }

// A point as a lane reads it: x, y, z and where the rest is.
struct Point {
    const float* values;
    float position[3];
};

template <typename T>
__device__ Point point_at(const Args<T>& args, uint32_t index) {
    index = min(index, args.point_capacity - 1);
    const float* values = args.points.data + static_cast<uint64_t>(index) * args.num_channels;
    return {values, {values[0], values[1], values[2]}};
}

// For a warp: adds the points of the lanes below `num` to a sum, in order.
__device__ inline void add_in_order(float (&sum)[3], const Point& point, uint32_t num) {
    for (uint32_t i = 0; i < num; ++i) {
#pragma unroll
        for (uint32_t axis = 0; axis < 3; ++axis) {
            sum[axis] += __shfl_sync(kAllLanes, point.position[axis], i);
        }
    }
}

// For a warp: the features of a voxel's points, one after another, into `row`.
// Returns how many values there are.
template <typename T>
__device__ uint32_t make_features(const Args<T>& args, uint32_t voxel, T* row) {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t max_points = args.max_points_per_voxel;
    const uint32_t* indices = args.point_indices.data + static_cast<uint64_t>(voxel) * max_points;
    // Read without waiting for the number of voxels.
    const uint32_t first_index = lane < max_points ? indices[lane] : 0;
    const uint32_t cell = args.cells[voxel];
    uint32_t num = min(args.num_points_per_voxel[voxel], max_points);
    if (voxel >= args.num_voxels[0]) return 0;
    const Point first = point_at(args, lane < num ? first_index : 0);
    float mean[3] = {};
    add_in_order(mean, first, min(num, kLanes));
    for (uint32_t start = kLanes; start < num; start += kLanes) {
        const uint32_t i = start + lane;
        add_in_order(mean, point_at(args, i < num ? indices[i] : 0), min(num - start, kLanes));
    }
    float center[3];
#pragma unroll
    for (uint32_t axis = 0; axis < 3; ++axis) {
        mean[axis] = __fdiv_rn(mean[axis], static_cast<float>(num));
        center[axis] = args.grid.center_of(cell, axis);
    }
    const uint32_t num_channels = args.num_channels;
    for (uint32_t i = lane; i < num; i += kLanes) {
        const Point point = i < kLanes ? first : point_at(args, indices[i]);
        T* out = row + i * args.num_features;
        for (uint32_t c = 0; c < num_channels; ++c) out[c] = narrowed(point.values[c], T{});
        out += num_channels;
#pragma unroll
        for (uint32_t axis = 0; axis < 3; ++axis) {
            out[axis] = narrowed(point.position[axis] - mean[axis], T{});
            // What there is no feature for is the offset from the centre in z.
            if (num_channels + 3 + axis < args.num_features) {
                out[3 + axis] = narrowed(point.position[axis] - center[axis], T{});
            }
        }
    }
    return num * args.num_features;
}

template <typename T, uint32_t kMaxValues>
__device__ void write_row(const Args<T>& args) {
    constexpr uint32_t kWide = 16 / sizeof(T);
    __shared__ __align__(16) T rows[kWarps][kMaxValues];
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    const uint32_t voxel = blockIdx.x * kWarps + warp;
    if (voxel >= args.num_rows) return;
    T* row = rows[warp];
    uint32_t num_values = 0;
    if (voxel < args.cells.len) num_values = make_features(args, voxel, row);
    const uint32_t row_len = args.max_points_per_voxel * args.num_features;
    // Up to a whole number of wide words.
    const uint32_t end = min((num_values + kWide - 1) / kWide * kWide, kMaxValues);
    if (num_values + lane < end) row[num_values + lane] = narrowed(0.0f, T{});
    __syncwarp();
    T* out = args.out.data + static_cast<uint64_t>(voxel) * row_len;
    if (row_len % kWide == 0) {
        for (uint32_t at = lane * kWide; at < row_len; at += kLanes * kWide) {
            uint4 word = {};
            if (at < num_values) word = *reinterpret_cast<const uint4*>(row + at);
            *reinterpret_cast<uint4*>(out + at) = word;
        }
    } else {
        for (uint32_t at = lane; at < row_len; at += kLanes) {
            out[at] = at < num_values ? row[at] : narrowed(0.0f, T{});
        }
    }
}

}  // namespace pillar_features

#define PILLAR_FEATURES_KERNELS(T, suffix)                                             \
    extern "C" __global__ void __launch_bounds__(pillar_features::kThreads)            \
        pillar_features_##suffix(const __grid_constant__ pillar_features::Args<T> args) { \
        pillar_features::write_row<T, pillar_features::kFew>(args);                    \
    }                                                                                  \
    extern "C" __global__ void __launch_bounds__(pillar_features::kThreads)            \
        pillar_features_many_##suffix(                                                 \
            const __grid_constant__ pillar_features::Args<T> args) {                   \
        pillar_features::write_row<T, pillar_features::kMany>(args);                   \
    }

PILLAR_FEATURES_KERNELS(float, f32)
PILLAR_FEATURES_KERNELS(__half, f16)
