// Writes the points of voxels as networks take them: crates/ops/src/cloud/voxel_points/mod.rs.
//
// Thread mapping: a thread per place of a point in a voxel, of all voxels that there may be.
// Reads: the points of the voxels. Writes: the rows of the voxels that there are, no others.

#include "cloud/grid.cuh"
#include "shared/slice.cuh"

namespace voxel_points {

constexpr uint32_t kThreads = 256;

// In Rust: `VoxelPointArgs` in crates/ops/src/cloud/voxel_points/kernels.rs.
struct Args {
    Slice<const float> points;
    Slice<const uint32_t> cells;                 // by voxel
    Slice<const uint32_t> num_points_per_voxel;  // by voxel
    Slice<const uint32_t> point_indices;         // by voxel, max_points_per_voxel each
    Slice<const uint32_t> num_voxels;
    Slice<float> values;  // by voxel, max_points_per_voxel rows of num_channels
    Slice<int32_t> numbers;
    Slice<int32_t> coordinates;  // by voxel, num_columns each
    VoxelGrid grid;
    uint32_t voxel_capacity;
    uint32_t max_points_per_voxel;
    uint32_t num_channels;
    uint32_t num_columns;  // 3: z y x; 4: 0 z y x
    uint32_t point_capacity;
};

__device__ inline void write_voxel(const Args& args, uint32_t voxel, uint32_t num) {
    args.numbers[voxel] = static_cast<int32_t>(num);
    const uint32_t cell = args.cells[voxel];
    const uint32_t row = cell / args.grid.size[0];
    const uint32_t zyx[3] = {row / args.grid.size[1], row % args.grid.size[1],
                             cell - row * args.grid.size[0]};
    const uint64_t first = static_cast<uint64_t>(voxel) * args.num_columns;
    const uint32_t num_leading = args.num_columns - 3;
    for (uint32_t i = 0; i < num_leading; ++i) args.coordinates[first + i] = 0;
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        args.coordinates[first + num_leading + i] = static_cast<int32_t>(zyx[i]);
    }
}

}  // namespace voxel_points

extern "C" __global__ void __launch_bounds__(voxel_points::kThreads)
    voxel_points_write(const __grid_constant__ voxel_points::Args args) {
    using namespace voxel_points;
    const uint64_t own = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
    const uint32_t voxel = static_cast<uint32_t>(own / args.max_points_per_voxel);
    const uint32_t slot = static_cast<uint32_t>(own % args.max_points_per_voxel);
    if (voxel >= min(args.num_voxels[0], args.voxel_capacity)) return;
    const uint32_t num = min(args.num_points_per_voxel[voxel], args.max_points_per_voxel);
    if (slot == 0) write_voxel(args, voxel, num);
    float* out = args.values.data + own * args.num_channels;
    if (slot >= num) {
        for (uint32_t c = 0; c < args.num_channels; ++c) out[c] = 0.0f;
        return;
    }
    const uint32_t point = min(args.point_indices[own], args.point_capacity - 1);
    const float* in = args.points.data + static_cast<uint64_t>(point) * args.num_channels;
    for (uint32_t c = 0; c < args.num_channels; ++c) out[c] = in[c];
}
