// Pillar features: voxels become the input of a pillar encoder:
// src/ops/pillar_features/mod.rs.
//
// Thread mapping: a warp a voxel, the lanes its points, then the values of its
// row, 16 bytes at once where a row is a multiple of that.
// Reads: the kept points of the voxels. Writes: every value of every row, zero
// where there is no point or no voxel.

#include <cuda_fp16.h>

#include "grid.cuh"
#include "slice.cuh"

namespace pillar_features {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarps = kThreads / kLanes;
// Values of a voxel's points that a warp holds.
constexpr uint32_t kFew = 512;
constexpr uint32_t kMany = 2560;

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

template <typename T, uint32_t kMaxValues>
__device__ void write_row(const Args<T>& args) {
    constexpr uint32_t kWide = 16 / sizeof(T);
    __shared__ float staged[kWarps][kMaxValues];
    __shared__ float middle[kWarps][6];
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    const uint32_t voxel = blockIdx.x * kWarps + warp;
    if (voxel >= args.num_rows) return;
    const uint32_t num_channels = args.num_channels;
    const uint32_t max_points = args.max_points_per_voxel;
    const uint32_t capacity = static_cast<uint32_t>(args.cells.len);
    float* values = staged[warp];
    uint32_t num = 0;
    if (voxel < capacity) {
        const uint32_t* indices =
            args.point_indices.data + static_cast<uint64_t>(voxel) * max_points;
        // Read without waiting for the number of voxels.
        uint32_t index = lane < max_points ? indices[lane] : 0;
        const uint32_t cell = args.cells[voxel];
        num = min(args.num_points_per_voxel[voxel], max_points);
        if (voxel >= args.num_voxels[0]) num = 0;
        for (uint32_t i = lane; i < num; i += kLanes) {
            if (i >= kLanes) index = indices[i];
            index = min(index, args.point_capacity - 1);
            const float* point = args.points.data + static_cast<uint64_t>(index) * num_channels;
            for (uint32_t c = 0; c < num_channels; ++c) values[i * num_channels + c] = point[c];
        }
        __syncwarp();
        // The mean, its sum in the order of the points, and the centre.
        if (lane < 3) {
            float sum = 0.0f;
            for (uint32_t i = 0; i < num; ++i) sum += values[i * num_channels + lane];
            middle[warp][lane] = __fdiv_rn(sum, static_cast<float>(num));
            middle[warp][3 + lane] = args.grid.center_of(cell, lane);
        }
        __syncwarp();
    }
    const uint32_t num_features = args.num_features;
    const uint32_t row_len = max_points * num_features;
    const auto value_at = [&](uint32_t slot, uint32_t feature) {
        if (slot >= num) return 0.0f;
        const float* point = values + slot * num_channels;
        if (feature < num_channels) return point[feature];
        // From the mean, then from the centre: x, y, z each.
        const uint32_t offset = feature - num_channels;
        return point[offset < 3 ? offset : offset - 3] - middle[warp][offset];
    };
    T* row = args.out.data + static_cast<uint64_t>(voxel) * row_len;
    if (row_len % kWide == 0) {
        for (uint32_t at = lane * kWide; at < row_len; at += kLanes * kWide) {
            uint32_t slot = at / num_features;
            uint32_t feature = at - slot * num_features;
            alignas(16) T wide[kWide];
#pragma unroll
            for (uint32_t i = 0; i < kWide; ++i) {
                wide[i] = narrowed(value_at(slot, feature), T{});
                if (++feature == num_features) {
                    feature = 0;
                    ++slot;
                }
            }
            *reinterpret_cast<uint4*>(row + at) = *reinterpret_cast<const uint4*>(wide);
        }
    } else {
        for (uint32_t at = lane; at < row_len; at += kLanes) {
            const uint32_t slot = at / num_features;
            row[at] = narrowed(value_at(slot, at - slot * num_features), T{});
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
