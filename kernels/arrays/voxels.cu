// Voxels as arrays without gaps: crates/ops/src/arrays/voxels/mod.rs.
//
// Steps, a kernel each; the number of voxels is read on the device:
//   starts   a thread per voxel, in tiles (shared/scan.cuh): the number of points of the voxels
//            before; both totals go to memory that the host reads
//   write    a thread per voxel and per point, once the host has arrays of these sizes

#include "shared/scan.cuh"

namespace voxel_arrays {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / scan::kLanes;

// The structs in Rust: crates/ops/src/arrays/voxels/kernels.rs.
struct StartArgs {
    Slice<const uint32_t> num_points_per_voxel;
    Slice<const uint32_t> num_voxels;
    Slice<uint32_t> starts;  // by voxel
    Slice<uint64_t> ticket;
    Slice<uint64_t> aggregates;  // by tile
    Slice<uint32_t> sizes;       // voxels, points; in mapped host memory
};

template <typename Index>
struct WriteArgs {
    Slice<const uint32_t> linear_cells;  // by voxel, x fastest
    Slice<const uint32_t> num_points_per_voxel;
    Slice<const uint32_t> point_indices;
    Slice<const uint32_t> starts;
    Slice<uint32_t> cells;  // x, y, z by voxel
    Slice<uint32_t> num_points;
    Slice<Index> indices;
    uint32_t size[2];  // cells along x and y
    uint32_t stride;   // indices from one voxel to the next; 0: without gaps
    uint32_t reserved;
};

extern "C" __global__ void __launch_bounds__(kThreads)
    voxel_arrays_starts(const __grid_constant__ StartArgs args) {
    __shared__ uint32_t sums[kWarps];
    const uint32_t num_voxels =
        min(args.num_voxels[0], static_cast<uint32_t>(args.num_points_per_voxel.len));
    // Without voxels one tile remains, which writes the sizes.
    const uint32_t num_tiles = max((num_voxels + kThreads - 1) / kThreads, 1u);
    scan::for_each_tile(args.ticket.data, num_tiles, [&](const scan::Tile& tile) {
        const uint32_t own = tile.index * kThreads + threadIdx.x;
        const uint32_t num_own = own < num_voxels ? args.num_points_per_voxel[own] : 0;
        const uint32_t lane = threadIdx.x % scan::kLanes;
        const uint32_t warp = threadIdx.x / scan::kLanes;
        uint32_t end = num_own;
        for (uint32_t step = 1; step < scan::kLanes; step *= 2) {
            const uint32_t other = __shfl_up_sync(scan::kAllLanes, end, step);
            if (lane >= step) end += other;
        }
        if (lane == scan::kLanes - 1) sums[warp] = end;
        __syncthreads();
        uint32_t total = 0;
        for (uint32_t i = 0; i < kWarps; ++i) {
            end += i < warp ? sums[i] : 0;
            total += sums[i];
        }
        if (threadIdx.x == 0) scan::publish(args.aggregates.data, tile, total);
        uint32_t num_before = 0;
        scan::for_each_predecessor(args.aggregates.data, tile,
                                   [&](uint32_t aggregate, uint32_t) { num_before += aggregate; });
        const uint32_t base = scan::block_sum<kThreads>(num_before);
        if (own < num_voxels) args.starts[own] = base + end - num_own;
        if (threadIdx.x == 0 && tile.index == num_tiles - 1) {
            args.sizes[0] = num_voxels;
            args.sizes[1] = base + total;
        }
    });
}

// The voxel of a point: the last that starts at or before it. Every voxel has points.
__device__ inline uint32_t voxel_of(const Slice<const uint32_t>& starts, uint32_t num_voxels,
                                    uint32_t place) {
    uint32_t low = 0;
    uint32_t high = num_voxels;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (starts[middle] <= place) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

template <typename Index>
__device__ inline void write(const WriteArgs<Index>& args) {
    const uint32_t own = blockIdx.x * kThreads + threadIdx.x;
    const auto num_voxels = static_cast<uint32_t>(args.num_points.len);
    if (own < num_voxels) {
        const uint32_t cell = args.linear_cells[own];
        const uint32_t row = cell / args.size[0];
        args.cells[3ull * own] = cell - row * args.size[0];
        args.cells[3ull * own + 1] = row % args.size[1];
        args.cells[3ull * own + 2] = row / args.size[1];
        args.num_points[own] = args.num_points_per_voxel[own];
    }
    if (own >= args.indices.len || num_voxels == 0) return;
    uint64_t from = own;
    if (args.stride != 0) {
        const uint32_t voxel = voxel_of(args.starts, num_voxels, own);
        from = static_cast<uint64_t>(voxel) * args.stride + (own - args.starts[voxel]);
    }
    if (from < args.point_indices.len) args.indices[own] = args.point_indices[from];
}

extern "C" __global__ void __launch_bounds__(kThreads)
    voxel_arrays_write_u32(const __grid_constant__ WriteArgs<uint32_t> args) {
    write(args);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    voxel_arrays_write_i64(const __grid_constant__ WriteArgs<int64_t> args) {
    write(args);
}

}  // namespace voxel_arrays
