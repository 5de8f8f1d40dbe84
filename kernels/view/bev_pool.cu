// Pools features of cameras to a map seen from above: crates/ops/src/view/bev_pool/mod.rs.
//
// Blocks of one launch:
//   parts   a warp sums a part of a long cell and stores it; the warp that finishes the last part
//           of a cell adds all of them in order and writes the cell
//   tiles   a block has 8 by 4 cells, heaviest tiles first: its warps take cells until none is
//           left, then the block writes the tile, plane by plane
//
// A warp reads 32 points and their depths at once, a lane each. Then each group of 8 lanes has one
// of the four sums of the contract: it takes every fourth point, a lane four neighbouring channels
// of its feature at a time.
//
// Reads: the table, depth and features. Writes: every value of the map.

#include <cuda_fp16.h>

#include "shared/slice.cuh"
#include "shared/warp.cuh"

namespace bev_pool {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kLanes;
// Points of a part.
constexpr uint32_t kPart = 128;
// Cells of a tile.
constexpr uint32_t kTileColumns = 8;
constexpr uint32_t kTileRows = 4;
constexpr uint32_t kTile = kTileColumns * kTileRows;
// The most channels of a block.
constexpr uint32_t kSlab = 96;
// Sums of a part, and lanes of each.
constexpr uint32_t kSums = 4;
constexpr uint32_t kGroup = kLanes / kSums;
// Channels of a load, and loads of a lane for a point.
constexpr uint32_t kWide = 4;
constexpr uint32_t kLoads = kSlab / (kGroup * kWide);
// Points of a group in flight, where features are loaded by kWide.
constexpr uint32_t kAhead = 2;
// No point; a cell that a tile does not write.
constexpr uint32_t kNone = 0xffffffffu;

// The struct in Rust: crates/ops/src/view/bev_pool/kernels.rs.
template <typename From, typename To>
struct Args {
    Slice<const From> depth;            // [cameras, depths, pixels]
    Slice<const From> features;         // [cameras, pixels, channels]
    Slice<const uint32_t> present;      // one word: a bit per camera
    Slice<const uint32_t> points;       // camera, depth, pixel; by cell
    Slice<const uint32_t> starts;       // by cell: its first point; one more
    Slice<const uint32_t> tiles;        // heaviest first
    Slice<const uint32_t> parts;        // by part: the number of its long cell
    Slice<const uint32_t> long_cells;   // cells of more than one part
    Slice<const uint32_t> long_starts;  // by long cell: its first part; one more
    Slice<float> sums;                  // [parts, channels]
    Slice<uint32_t> tickets;            // [slabs, long cells]; zero between launches
    Slice<To> map;                      // [levels, channels, rows, columns]
    uint32_t num_cameras;
    uint32_t num_depths;
    uint32_t num_pixels;
    uint32_t num_channels;
    uint32_t slab;  // channels of a block
    uint32_t depth_bits;
    uint32_t pixel_bits;
    uint32_t num_rows;  // of all levels
    uint32_t level_rows;
    uint32_t num_columns;
};

// Channels of a block.
struct Slab {
    uint32_t first;
    uint32_t end;
};

// The tile of a block.
struct Tile {
    float totals[kSlab][kTile + 1];
    uint32_t firsts[kTile];
    uint32_t nums[kTile];  // kNone for a cell that is not written
    uint32_t next;         // the cell that no warp has yet
};

// A row of the features, kNone for a point that is not added, and its depth.
struct Point {
    uint32_t row;
    float depth;
};

// The sums of a lane.
struct Sums {
    float of[kLoads][kWide];
};

__device__ inline float widened(float value) { return value; }
__device__ inline float widened(__half value) { return __half2float(value); }

__device__ inline void store(float value, float* to) { *to = value; }
__device__ inline void store(float value, __half* to) { *to = __float2half_rn(value); }

__device__ inline void load_wide(const float* from, float (&to)[kWide]) {
    const float4 wide = __ldg(reinterpret_cast<const float4*>(from));
    to[0] = wide.x, to[1] = wide.y, to[2] = wide.z, to[3] = wide.w;
}

__device__ inline void load_wide(const __half* from, float (&to)[kWide]) {
    const uint2 wide = __ldg(reinterpret_cast<const uint2*>(from));
    const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&wide.x));
    const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&wide.y));
    to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
}

template <typename From, typename To>
__device__ Point point_of(const Args<From, To>& args, uint32_t word) {
    const uint32_t pixel = word & ((1u << args.pixel_bits) - 1);
    const uint32_t depth = word >> args.pixel_bits & ((1u << args.depth_bits) - 1);
    const uint64_t camera = static_cast<uint64_t>(word) >> (args.pixel_bits + args.depth_bits);
    const bool is_added = camera < args.num_cameras && depth < args.num_depths &&
                          pixel < args.num_pixels && (args.present[0] >> camera & 1) != 0;
    if (!is_added) return {kNone, 0.0f};
    const uint64_t plane = camera * args.num_depths + depth;
    const uint32_t row = static_cast<uint32_t>(camera) * args.num_pixels + pixel;
    return {row, widened(args.depth[plane * args.num_pixels + pixel])};
}

// The channels of a lane for a row of the features; what is beyond the slab stays.
template <bool kIsWide, typename From, typename To>
__device__ void load_row(const Args<From, To>& args, uint32_t row, Slab slab,
                         float (&to)[kLoads][kWide]) {
    const From* features = args.features.data + static_cast<uint64_t>(row) * args.num_channels;
    const uint32_t first = slab.first + lane_of() % kGroup * kWide;
#pragma unroll
    for (uint32_t i = 0; i < kLoads; ++i) {
        const uint32_t channel = first + i * kGroup * kWide;
        if (kIsWide) {
            if (channel < slab.end) load_wide(features + channel, to[i]);
            continue;
        }
#pragma unroll
        for (uint32_t e = 0; e < kWide; ++e) {
            if (channel + e < slab.end) to[i][e] = widened(features[channel + e]);
        }
    }
}

// The sums of up to kPart points; every lane has the sums of its channels.
template <bool kIsWide, typename From, typename To>
__device__ Sums sum_part(const Args<From, To>& args, uint32_t first, uint32_t num, Slab slab) {
    constexpr uint32_t kPoints = kIsWide ? kAhead : 1;
    const uint32_t lane = lane_of(), group = lane / kGroup;
    Sums sums = {};
    for (uint32_t base = 0; base < num; base += kLanes) {
        Point own = {kNone, 0.0f};
        if (base + lane < num) own = point_of(args, args.points[first + base + lane]);
        const uint32_t num_steps = (min(num - base, kLanes) + kSums - 1) / kSums;
        for (uint32_t step = 0; step < num_steps; step += kPoints) {
            float features[kPoints][kLoads][kWide] = {};
            float depths[kPoints];
            bool is_added[kPoints];
#pragma unroll
            for (uint32_t a = 0; a < kPoints; ++a) {
                const uint32_t from = (step + a) * kSums + group;
                const uint32_t row = __shfl_sync(kAllLanes, own.row, from);
                depths[a] = __shfl_sync(kAllLanes, own.depth, from);
                is_added[a] = row != kNone;
                if (is_added[a]) load_row<kIsWide>(args, row, slab, features[a]);
            }
#pragma unroll
            for (uint32_t a = 0; a < kPoints; ++a) {
                if (!is_added[a]) continue;
#pragma unroll
                for (uint32_t i = 0; i < kLoads; ++i) {
#pragma unroll
                    for (uint32_t e = 0; e < kWide; ++e) {
                        sums.of[i][e] += depths[a] * features[a][i][e];
                    }
                }
            }
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < kLoads; ++i) {
#pragma unroll
        for (uint32_t e = 0; e < kWide; ++e) {
            // 0 + 1 and 2 + 3, then both.
            sums.of[i][e] += __shfl_xor_sync(kAllLanes, sums.of[i][e], kGroup);
            sums.of[i][e] += __shfl_xor_sync(kAllLanes, sums.of[i][e], 2 * kGroup);
        }
    }
    return sums;
}

// Of the channels of a lane, the one that its group stores of a load.
__device__ inline float stored(const float (&sums)[kWide]) {
    const uint32_t group = lane_of() / kGroup;
    const float low = group == 0 ? sums[0] : sums[1], high = group == 2 ? sums[2] : sums[3];
    return group < 2 ? low : high;
}

// The channel of `stored`, from the first of the slab on.
__device__ inline uint32_t stored_channel(uint32_t load) {
    const uint32_t group = lane_of() / kGroup;
    return (load * kGroup + lane_of() % kGroup) * kWide + group;
}

// Where the first channel of a cell is in the map.
template <typename From, typename To>
__device__ uint64_t place_of(const Args<From, To>& args, uint32_t row, uint32_t column) {
    const uint64_t plane = static_cast<uint64_t>(args.level_rows) * args.num_columns;
    const uint64_t level = row / args.level_rows, inside = row % args.level_rows;
    return level * args.num_channels * plane + inside * args.num_columns + column;
}

// Adds the parts of a cell in order and writes it.
template <typename From, typename To>
__device__ void write_long(const Args<From, To>& args, uint32_t cell, uint32_t first, uint32_t num,
                           Slab slab) {
    const uint64_t plane = static_cast<uint64_t>(args.level_rows) * args.num_columns;
    const uint64_t place = place_of(args, cell / args.num_columns, cell % args.num_columns);
    for (uint32_t channel = slab.first + lane_of(); channel < slab.end; channel += kLanes) {
        const float* sums =
            args.sums.data + static_cast<uint64_t>(first) * args.num_channels + channel;
        float total = __ldcg(sums);
#pragma unroll 8
        for (uint32_t part = 1; part < num; ++part) {
            total += __ldcg(sums + static_cast<uint64_t>(part) * args.num_channels);
        }
        store(total, args.map.data + place + channel * plane);
    }
}

template <bool kIsWide, typename From, typename To>
__device__ void sum_long(const Args<From, To>& args, uint64_t part, Slab slab) {
    if (part >= args.parts.len) return;
    const uint32_t index = args.parts[part];
    if (index >= args.long_cells.len) return;
    const uint32_t cell = args.long_cells[index];
    const uint32_t first_part = args.long_starts[index], end_part = args.long_starts[index + 1];
    const bool is_of_cell = first_part <= part && part < end_part && end_part <= args.parts.len;
    const uint64_t num_cells = static_cast<uint64_t>(args.num_rows) * args.num_columns;
    if (!is_of_cell || cell >= num_cells) return;
    const uint32_t end = min(static_cast<uint64_t>(args.starts[cell + 1]), args.points.len);
    const uint32_t first = args.starts[cell] + (static_cast<uint32_t>(part) - first_part) * kPart;
    const uint32_t num = first < end ? min(end - first, kPart) : 0;
    const Sums sums = sum_part<kIsWide>(args, first, num, slab);
    float* to = args.sums.data + part * args.num_channels + slab.first;
#pragma unroll
    for (uint32_t i = 0; i < kLoads; ++i) {
        const uint32_t channel = stored_channel(i);
        if (slab.first + channel < slab.end) to[channel] = stored(sums.of[i]);
    }
    // What this warp has stored is visible before its ticket is taken.
    __threadfence();
    __syncwarp();
    uint32_t* ticket = args.tickets.data + blockIdx.y * args.long_cells.len + index;
    uint32_t num_before = 0;
    if (lane_of() == 0) num_before = atomicAdd(ticket, 1);
    num_before = __shfl_sync(kAllLanes, num_before, 0);
    if (num_before + 1 != end_part - first_part) return;
    __threadfence();
    if (lane_of() == 0) *ticket = 0;
    write_long(args, cell, first_part, end_part - first_part, slab);
}

// Reads where the points of a tile's cells are.
template <typename From, typename To>
__device__ void read_tile(const Args<From, To>& args, uint32_t first_row, uint32_t first_column,
                          Tile& tile) {
    const uint32_t row = first_row + threadIdx.x / kTileColumns,
                   column = first_column + threadIdx.x % kTileColumns;
    uint32_t first = 0, num = kNone;
    if (row < args.num_rows && column < args.num_columns) {
        const uint32_t cell = row * args.num_columns + column;
        first = args.starts[cell];
        const uint32_t end = min(static_cast<uint64_t>(args.starts[cell + 1]), args.points.len);
        num = first < end ? end - first : 0;
    }
    tile.firsts[threadIdx.x] = first;
    // A cell of more than one part is written by the warp that finishes it.
    tile.nums[threadIdx.x] = num > kPart ? kNone : num;
}

template <bool kIsWide, typename From, typename To>
__device__ void write_tile(const Args<From, To>& args, uint32_t index, Slab slab, Tile& tile) {
    const uint32_t num_tile_columns = (args.num_columns + kTileColumns - 1) / kTileColumns;
    const uint32_t first_row = args.tiles[index] / num_tile_columns * kTileRows,
                   first_column = args.tiles[index] % num_tile_columns * kTileColumns;
    if (threadIdx.x == 0) tile.next = 0;
    if (threadIdx.x < kTile) read_tile(args, first_row, first_column, tile);
    __syncthreads();
    while (true) {
        uint32_t cell = 0;
        if (lane_of() == 0) cell = atomicAdd(&tile.next, 1);
        cell = __shfl_sync(kAllLanes, cell, 0);
        if (cell >= kTile) break;
        const uint32_t num = tile.nums[cell];
        if (num == kNone) continue;
        const Sums sums = sum_part<kIsWide>(args, tile.firsts[cell], num, slab);
#pragma unroll
        for (uint32_t i = 0; i < kLoads; ++i) {
            tile.totals[stored_channel(i)][cell] = stored(sums.of[i]);
        }
    }
    __syncthreads();
    const uint32_t cell = threadIdx.x % kTile;
    if (tile.nums[cell] == kNone) return;
    const uint64_t plane = static_cast<uint64_t>(args.level_rows) * args.num_columns;
    const uint64_t place =
        place_of(args, first_row + cell / kTileColumns, first_column + cell % kTileColumns);
    for (uint32_t channel = threadIdx.x / kTile; slab.first + channel < slab.end;
         channel += kThreads / kTile) {
        store(tile.totals[channel][cell], args.map.data + place + (slab.first + channel) * plane);
    }
}

template <bool kIsWide, typename From, typename To>
__device__ void pool(const Args<From, To>& args, Tile& tile) {
    const uint32_t first = blockIdx.y * args.slab;
    const Slab slab = {first, min(first + args.slab, args.num_channels)};
    const uint32_t num_part_blocks = (args.parts.len + kWarps - 1) / kWarps;
    if (blockIdx.x < num_part_blocks) {
        sum_long<kIsWide>(args, static_cast<uint64_t>(blockIdx.x) * kWarps + warp_of(), slab);
    } else {
        write_tile<kIsWide>(args, blockIdx.x - num_part_blocks, slab, tile);
    }
}

template <typename From, typename To>
__device__ void pool(const Args<From, To>& args) {
    __shared__ Tile tile;
    if (args.num_channels % kWide == 0) {
        pool<true>(args, tile);
    } else {
        pool<false>(args, tile);
    }
}

}  // namespace bev_pool

// bev_pool_f32, bev_pool_f16, bev_pool_f32_to_f16, bev_pool_f16_to_f32.
#define BEV_POOL(From, To, suffix)                                                 \
    extern "C" __global__ void __launch_bounds__(bev_pool::kThreads, 4)            \
        bev_pool_##suffix(const __grid_constant__ bev_pool::Args<From, To> args) { \
        bev_pool::pool(args);                                                      \
    }

BEV_POOL(float, float, f32)
BEV_POOL(__half, __half, f16)
BEV_POOL(float, __half, f32_to_f16)
BEV_POOL(__half, float, f16_to_f32)
