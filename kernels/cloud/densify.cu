// Merges past sweeps into the current one: crates/ops/src/cloud/densify/mod.rs.
//
// Thread mapping: a thread per point, a tile of up to kThreads consecutive points
// of one sweep per block (shared/scan.cuh), the tiles of the current sweep first. A
// point's row is the number of kept points before it.
// Reads: the points of all sweeps. Writes: the kept points up to the capacity,
// their number, and the counters of the others.

#include "shared/counters.cuh"
#include "shared/scan.cuh"

namespace densify {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kMaxSweeps = 65;
// Two counts of a tile in one aggregate.
constexpr uint32_t kCountBits = 16;

// The structs in Rust: crates/ops/src/cloud/densify/kernels.rs.
struct Sweep {
    Slice<const float> values;
    Slice<const uint32_t> num;
    float rows[3][4];  // transform from the sweep's frame to the current frame
    float age_s;
    uint32_t is_current;
};

struct Args {
    Slice<float> points;
    Slice<uint32_t> num;
    Counters counters;
    Slice<uint64_t> ticket;
    Slice<uint64_t> aggregates;  // by tile
    uint32_t num_channels;
    uint32_t time_lag_channel;  // num_channels for none
    uint32_t sweep_capacity;
    uint32_t capacity;
    uint32_t num_sweeps;
    uint32_t reserved;
    Sweep sweeps[kMaxSweeps];
};

// The counters of merging.
struct Dropped {
    Counter not_finite;
    Counter over_capacity;

    __device__ explicit Dropped(const Counters& counters)
        : not_finite(counters, kPointsNotFinite), over_capacity(counters, kPointsOverCapacity) {}
};

// The first tile of every sweep, followed by the number of tiles.
struct Tiles {
    uint32_t begin[kMaxSweeps + 1];
};

__device__ inline uint32_t num_points(const Args& args, uint32_t sweep) {
    return min(args.sweeps[sweep].num[0], args.sweep_capacity);
}

// For all threads of a block.
__device__ inline void find_tiles(const Args& args, Tiles& tiles) {
    if (threadIdx.x < args.num_sweeps) {
        tiles.begin[threadIdx.x] = (num_points(args, threadIdx.x) + kThreads - 1) / kThreads;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t begin = 0;
        for (uint32_t i = 0; i <= args.num_sweeps; ++i) {
            const uint32_t num = i < args.num_sweeps ? tiles.begin[i] : 0;
            tiles.begin[i] = begin;
            begin += num;
        }
    }
    __syncthreads();
}

__device__ inline void densify_tile(const Args& args, const Tiles& tiles, const scan::Tile& tile,
                                    uint32_t num_tiles, const Dropped& dropped) {
    // The sweep of the tile is the last whose first tile is not behind it.
    uint32_t index = 0;
    for (uint32_t i = 1; i < args.num_sweeps; ++i) index += tiles.begin[i] <= tile.index;
    const Sweep& sweep = args.sweeps[index];
    const uint32_t own = (tile.index - tiles.begin[index]) * kThreads + threadIdx.x;
    const bool is_point = own < num_points(args, index);
    const uint32_t num_channels = args.num_channels;
    const float* point = sweep.values.data + static_cast<uint64_t>(own) * num_channels;
    float moved[3] = {};
    bool is_kept = is_point;
    if (is_point) {
        const float x = point[0];
        const float y = point[1];
        const float z = point[2];
        moved[0] = x;
        moved[1] = y;
        moved[2] = z;
        if (sweep.is_current == 0) {
#pragma unroll
            for (uint32_t i = 0; i < 3; ++i) {
                const float* row = sweep.rows[i];
                moved[i] = row[0] * x + row[1] * y + row[2] * z + row[3];
                is_kept &= isfinite(moved[i]);
            }
        }
    }
    const scan::Selected kept = scan::count_selected<kThreads>(is_kept);
    const uint32_t num_not_finite = __syncthreads_count(is_point && !is_kept);
    if (threadIdx.x == 0) {
        scan::publish(args.aggregates.data, tile, kept.total | num_not_finite << kCountBits);
    }
    uint32_t num_before = 0;
    uint32_t num_not_finite_before = 0;
    scan::for_each_predecessor(args.aggregates.data, tile, [&](uint32_t aggregate, uint32_t) {
        num_before += aggregate & ((1u << kCountBits) - 1);
        num_not_finite_before += aggregate >> kCountBits;
    });
    const uint32_t base = scan::block_sum<kThreads>(num_before);
    const uint32_t row_index = base + kept.before;
    if (is_kept && row_index < args.capacity) {
        float* out = args.points.data + static_cast<uint64_t>(row_index) * num_channels;
        for (uint32_t c = 0; c < num_channels; ++c) {
            const float value = c < 3 ? moved[c] : point[c];
            out[c] = c == args.time_lag_channel ? sweep.age_s : value;
        }
    }
    if (tile.index != num_tiles - 1) return;
    const uint32_t total = scan::block_sum<kThreads>(num_not_finite_before) + num_not_finite;
    if (threadIdx.x == 0) {
        const uint32_t num_kept = base + kept.total;
        const uint32_t num = min(num_kept, args.capacity);
        args.num[0] = num;
        dropped.not_finite.add(total);
        dropped.over_capacity.add(num_kept - num);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    densify_points(const __grid_constant__ Args args) {
    __shared__ Tiles tiles;
    const Dropped dropped(args.counters);
    find_tiles(args, tiles);
    // Without points one tile remains, which writes their number.
    const uint32_t num_tiles = max(tiles.begin[args.num_sweeps], 1u);
    scan::for_each_tile(args.ticket.data, num_tiles, [&](const scan::Tile& tile) {
        densify_tile(args, tiles, tile, num_tiles, dropped);
    });
}

}  // namespace densify
