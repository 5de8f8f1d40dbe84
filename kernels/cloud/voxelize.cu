// Groups points into the voxels of a grid: crates/ops/src/cloud/voxelize/mod.rs.
//
// Steps, a kernel each; the number of points is read on the device:
//   claim    a thread per point finds the entry of its cell and updates the cell's
//            first point, the one with the lowest index, and its number of points
//   number   a thread per point, in tiles (shared/scan.cuh): a voxel's index is the number
//            of first points before its own; every voxel gets a bucket for all its
//            points
//   fill     a thread per point writes it to the bucket of its voxel, in any order
//   order    a thread per point counts the lower points in its bucket, which is its
//            position in the voxel; a warp per large bucket selects the lowest, or,
//            without a limit on the points of a voxel, a block orders all of them;
//            entries are cleared for the next frame
//
// Atomics compute minima, sums and free positions: no result depends on their
// order. An entry belongs to one cell or, on large grids, is found by hashing.

#include "cloud/bucket_order.cuh"
#include "cloud/grid.cuh"
#include "cloud/voxel_bucket.cuh"
#include "shared/counters.cuh"
#include "shared/scan.cuh"

namespace voxelize {

constexpr uint32_t kNumberThreads = 512;
// The voxels of a tile and, above these bits, their points in one aggregate.
constexpr uint32_t kVoxelBits = 10;
constexpr uint32_t kVoxelMask = (1u << kVoxelBits) - 1;

// A cell of the frame; all zero when empty.
struct alignas(16) Entry {
    uint32_t key;    // hashed: the cell, plus 1
    uint32_t first;  // the complement of the lowest point index
    uint32_t num;    // points
    uint32_t voxel;  // set by the step `number`; kNone over the capacity
};

// Dropped points of the voxels whose first point is in a tile: over
// `max_points_per_voxel`, and of voxels over the capacity.
struct DroppedPoints {
    uint32_t over_voxel;
    uint32_t over_capacity;
};

// In Rust: `VoxelizeArgs` in crates/ops/src/cloud/voxelize/kernels.rs.
struct Args {
    Slice<const float> points;
    Slice<const uint32_t> num_points;
    Slice<uint32_t> cells;                 // by voxel
    Slice<uint32_t> num_points_per_voxel;  // by voxel
    // By voxel, max_points_per_voxel each; without a limit as buckets.
    Slice<uint32_t> point_indices;
    Slice<uint32_t> num_voxels;
    Counters counters;
    Slice<Entry> entries;
    Slice<uint32_t> point_entries;    // by point
    Slice<uint32_t> point_positions;  // by point: its position in the bucket
    Slice<uint32_t> bucket_points;
    Slice<VoxelBucket> buckets;     // by voxel
    Slice<uint32_t> large_buckets;  // voxels with large buckets, in any order
    Slice<uint32_t> num_large_buckets;
    Slice<uint64_t> ticket;
    Slice<uint64_t> aggregates;    // by tile
    Slice<DroppedPoints> dropped;  // by tile
    VoxelGrid grid;
    uint32_t num_channels;
    uint32_t point_capacity;
    uint32_t max_points_per_voxel;  // all ones: no limit
    uint32_t voxel_capacity;
    uint32_t hash_shift;        // 0: an entry per cell
    uint32_t num_large_blocks;  // of the step `order`: blocks for large buckets, the first ones
    uint32_t reserved;
};

__device__ inline uint32_t num_points(const Args& args) {
    return min(args.num_points[0], args.point_capacity);
}

__device__ inline void read_position(const Args& args, uint32_t point, float (&position)[3]) {
    const float* values = args.points.data + static_cast<uint64_t>(point) * args.num_channels;
#pragma unroll
    for (uint32_t axis = 0; axis < 3; ++axis) position[axis] = values[axis];
}

// The entry of a cell; a hash table has at least twice as many entries as points.
__device__ inline uint32_t find_entry(const Args& args, uint32_t cell) {
    if (args.hash_shift == 0) return cell;
    const uint32_t num = static_cast<uint32_t>(args.entries.len);
    uint32_t entry = cell * 0x9e3779b9u >> args.hash_shift;
    for (;;) {
        const uint32_t found = atomicCAS(&args.entries[entry].key, 0, cell + 1);
        if (found == 0 || found == cell + 1) return entry;
        entry = entry + 1 == num ? 0 : entry + 1;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    voxelize_claim(const __grid_constant__ Args args) {
    const uint32_t first = blockIdx.x * kThreads + threadIdx.x;
    if (first == 0) args.num_large_buckets[0] = 0;
    // Loaded before the number of points is known.
    float position[3] = {};
    if (first < args.point_capacity) read_position(args, first, position);
    const uint32_t n = num_points(args);
    for (uint32_t own = first; own < n; own += gridDim.x * kThreads) {
        if (own != first) read_position(args, own, position);
        uint32_t cell;
        uint32_t entry = kNone;
        if (args.grid.cell_of(position, &cell)) {
            entry = find_entry(args, cell);
            args.point_positions[own] = atomicAdd(&args.entries[entry].num, 1);
            atomicMax(&args.entries[entry].first, ~own);
        }
        args.point_entries[own] = entry;
    }
}

// The counters of the step `number`.
struct Dropped {
    Counter out_of_range;
    Counter voxels_over_capacity;

    __device__ explicit Dropped(const Counters& counters)
        : out_of_range(counters, kPointsOutOfRange),
          voxels_over_capacity(counters, kVoxelsOverCapacity) {}
};

__device__ inline void number_tile(const Args& args, const scan::Tile& tile, uint32_t n,
                                   uint32_t num_tiles, const Dropped& dropped) {
    constexpr uint32_t kNumberWarps = kNumberThreads / kLanes;
    __shared__ uint32_t sums[kNumberWarps];
    __shared__ DroppedPoints dropped_points;
    if (threadIdx.x == 0) dropped_points = {};
    const uint32_t own = tile.index * kNumberThreads + threadIdx.x;
    const uint32_t own_entry = own < n ? args.point_entries[own] : kNone;
    Entry entry = {};
    if (own_entry != kNone) entry = args.entries[own_entry];
    const bool is_first = own_entry != kNone && entry.first == ~own;
    // Voxels whose first point this is, and all their points, in one word.
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    const uint32_t num_own = is_first ? entry.num : 0;
    const uint32_t counted = is_first ? num_own << kVoxelBits | 1 : 0;
    uint32_t end = counted;
    for (uint32_t step = 1; step < kLanes; step *= 2) {
        const uint32_t other = __shfl_up_sync(kAllLanes, end, step);
        if (lane >= step) end += other;
    }
    if (lane == kLanes - 1) sums[warp] = end;
    __syncthreads();
    uint32_t before = end - counted;
    uint32_t total = 0;
    for (uint32_t i = 0; i < kNumberWarps; ++i) {
        before += i < warp ? sums[i] : 0;
        total += sums[i];
    }
    if (threadIdx.x == 0) scan::publish(args.aggregates.data, tile, total);
    uint32_t num_voxels_before = 0;
    uint32_t num_points_before = 0;
    scan::for_each_predecessor(args.aggregates.data, tile, [&](uint32_t aggregate, uint32_t) {
        num_voxels_before += aggregate & kVoxelMask;
        num_points_before += aggregate >> kVoxelBits;
    });
    const uint32_t base = scan::block_sum<kNumberThreads>(num_voxels_before);
    const uint32_t start = scan::block_sum<kNumberThreads>(num_points_before);
    const uint32_t voxel = base + (before & kVoxelMask);
    const bool is_kept = is_first && voxel < args.voxel_capacity;
    const uint32_t num_kept = min(num_own, args.max_points_per_voxel);
    const uint32_t over_voxel = __reduce_add_sync(kAllLanes, is_kept ? num_own - num_kept : 0);
    const uint32_t over_capacity = __reduce_add_sync(kAllLanes, is_kept ? 0 : num_own);
    if (lane == 0) {
        if (over_voxel != 0) atomicAdd(&dropped_points.over_voxel, over_voxel);
        if (over_capacity != 0) atomicAdd(&dropped_points.over_capacity, over_capacity);
    }
    if (is_first) {
        args.entries[own_entry].voxel = is_kept ? voxel : kNone;
        if (is_kept) {
            args.cells[voxel] = args.hash_shift == 0 ? own_entry : entry.key - 1;
            args.num_points_per_voxel[voxel] = num_kept;
            args.buckets[voxel] = {start + (before >> kVoxelBits), num_own};
            if (num_own > kMaxSmallBucket) {
                const uint32_t position = atomicAdd(&args.num_large_buckets[0], 1);
                if (position < args.large_buckets.len) args.large_buckets[position] = voxel;
            }
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) args.dropped[tile.index] = dropped_points;
    if (threadIdx.x == 0 && tile.index == num_tiles - 1) {
        const uint32_t num_found = base + (total & kVoxelMask);
        const uint32_t num = min(num_found, args.voxel_capacity);
        const uint32_t num_in_range = start + (total >> kVoxelBits);
        args.num_voxels[0] = num;
        dropped.out_of_range.add(n - num_in_range);
        dropped.voxels_over_capacity.add(num_found - num);
    }
}

extern "C" __global__ void __launch_bounds__(kNumberThreads, 4)
    voxelize_number(const __grid_constant__ Args args) {
    const Dropped dropped(args.counters);
    const uint32_t n = num_points(args);
    // Without points one tile remains, which writes the number of voxels.
    const uint32_t num_tiles = max((n + kNumberThreads - 1) / kNumberThreads, 1u);
    scan::for_each_tile(args.ticket.data, num_tiles, [&](const scan::Tile& tile) {
        number_tile(args, tile, n, num_tiles, dropped);
    });
}

// For all threads of one block: adds the dropped points of all tiles.
__device__ inline void sum_dropped(const Args& args, uint32_t n) {
    const Counter points_over_voxel(args.counters, kPointsOverVoxel);
    const Counter points_over_capacity(args.counters, kPointsOverVoxelCapacity);
    uint32_t over_voxel = 0;
    uint32_t over_capacity = 0;
    const uint32_t num_tiles = (n + kNumberThreads - 1) / kNumberThreads;
    for (uint32_t i = threadIdx.x; i < num_tiles; i += kThreads) {
        over_voxel += args.dropped[i].over_voxel;
        over_capacity += args.dropped[i].over_capacity;
    }
    over_voxel = scan::block_sum<kThreads>(over_voxel);
    over_capacity = scan::block_sum<kThreads>(over_capacity);
    if (threadIdx.x == 0) {
        points_over_voxel.add(over_voxel);
        points_over_capacity.add(over_capacity);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    voxelize_fill(const __grid_constant__ Args args) {
    const uint32_t first = blockIdx.x * kThreads + threadIdx.x;
    // Loaded before the number of points is known.
    uint32_t own_entry = first < args.point_capacity ? args.point_entries[first] : kNone;
    uint32_t slot = first < args.point_capacity ? args.point_positions[first] : 0;
    const uint32_t n = num_points(args);
    for (uint32_t own = first; own < n; own += gridDim.x * kThreads) {
        if (own != first) {
            own_entry = args.point_entries[own];
            slot = args.point_positions[own];
        }
        if (own_entry == kNone) continue;
        const uint32_t voxel = args.entries[own_entry].voxel;
        if (voxel == kNone) continue;
        const uint32_t position = args.buckets[voxel].offset + slot;
        if (position < args.bucket_points.len) args.bucket_points[position] = own;
    }
    if (blockIdx.x == 0) sum_dropped(args, n);
}

// For a thread: writes a point to its position in the voxel and, once per cell,
// clears the entry.
template <bool kHasLimit>
__device__ inline void order_point(const Args& args, uint32_t own) {
    const uint32_t own_entry = args.point_entries[own];
    if (own_entry == kNone) return;
    Entry& entry = args.entries[own_entry];
    const uint32_t voxel = entry.voxel;
    // Other threads of the cell also read `first`: it is another point or 0.
    volatile uint32_t* first = &entry.first;
    if (*first == ~own) {
        *first = 0;
        entry.key = 0;
        entry.num = 0;
    }
    if (voxel == kNone) return;
    const VoxelBucket bucket = args.buckets[voxel];
    if (bucket.count > kMaxSmallBucket) return;
    const uint32_t* points = args.bucket_points.data + bucket.offset;
    uint32_t rank = 0;
#pragma unroll 4
    for (uint32_t i = 0; i < bucket.count; ++i) rank += points[i] < own;
    if constexpr (kHasLimit) {
        if (rank >= args.max_points_per_voxel) return;
        args.point_indices[static_cast<uint64_t>(voxel) * args.max_points_per_voxel + rank] = own;
    } else {
        args.point_indices[bucket.offset + rank] = own;
    }
}

// For the blocks after those for large buckets.
template <bool kHasLimit>
__device__ inline void order_points(const Args& args) {
    const uint32_t n = num_points(args);
    const uint32_t num_threads = (gridDim.x - args.num_large_blocks) * kThreads;
    const uint32_t first = (blockIdx.x - args.num_large_blocks) * kThreads + threadIdx.x;
    for (uint32_t own = first; own < n; own += num_threads) order_point<kHasLimit>(args, own);
}

__device__ inline uint32_t num_large_buckets(const Args& args) {
    return min(args.num_large_buckets[0], static_cast<uint32_t>(args.large_buckets.len));
}

extern "C" __global__ void __launch_bounds__(kThreads)
    voxelize_order(const __grid_constant__ Args args) {
    __shared__ uint32_t held[kWarps][kMaxHeld];
    if (blockIdx.x < args.num_large_blocks) {
        const uint32_t num_buckets = num_large_buckets(args);
        uint32_t* values = held[threadIdx.x / kLanes];
        for (uint32_t i = threadIdx.x / kLanes * args.num_large_blocks + blockIdx.x;
             i < num_buckets; i += args.num_large_blocks * kWarps) {
            const uint32_t voxel = args.large_buckets[i];
            const VoxelBucket bucket = args.buckets[voxel];
            const uint32_t limit = args.max_points_per_voxel;
            const uint32_t top_bit = 1u << (31 - __clz(args.point_capacity | 1));
            const uint32_t num = gather_lowest(args.bucket_points.data + bucket.offset,
                                               bucket.count, limit, top_bit, values);
            write_in_order(values, num,
                           args.point_indices.data + static_cast<uint64_t>(voxel) * limit);
        }
        return;
    }
    order_points<true>(args);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    voxelize_order_all(const __grid_constant__ Args args) {
    __shared__ uint32_t bitmap[kWindowWords];
    if (blockIdx.x < args.num_large_blocks) {
        const uint32_t num = num_large_buckets(args);
        for (uint32_t i = blockIdx.x; i < num; i += args.num_large_blocks) {
            const VoxelBucket bucket = args.buckets[args.large_buckets[i]];
            order_all(args.bucket_points.data + bucket.offset, bucket.count, bitmap,
                      args.point_indices.data + bucket.offset);
        }
        return;
    }
    order_points<false>(args);
}

}  // namespace voxelize
