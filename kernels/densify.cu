// Densify: past sweeps join the current one: src/ops/densify/mod.rs.
//
// Thread mapping: a thread a point, a turn 512 neighbours of one sweep. Blocks
// take turns through the sweeps, the current one first; a point's place is the
// number of points before it that stay.
// Reads: the points of all sweeps. Writes: the first points that the output has
// room for, and what was dropped of the others.

#include "counters.cuh"
#include "scan.cuh"

namespace densify {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kMaxSweeps = 65;
// Counts of a block, two in one published number.
constexpr uint32_t kCountBits = 16;

// The mirrors of these stand in src/ops/densify/kernels.rs.
struct Sweep {
    Slice<const float> values;
    Slice<const uint32_t> num;
    float rows[3][4];  // from the sweep's frame to the current one, row by row
    float age;
    uint32_t is_current;
};
static_assert(sizeof(Sweep) == 88);

struct Args {
    Slice<float> points;
    Slice<uint32_t> num;
    Counters counters;
    Slice<uint64_t> turns;
    Slice<uint64_t> numbers;
    uint32_t num_channels;
    uint32_t time_lag_channel;  // num_channels for none
    uint32_t sweep_capacity;
    uint32_t capacity;
    uint32_t num_sweeps;
    uint32_t reserved;
    Sweep sweeps[kMaxSweeps];
};
static_assert(sizeof(Args) == 5824);

// What joining drops.
struct Dropped {
    Counter not_finite;
    Counter over_capacity;

    __device__ explicit Dropped(const Counters& counters)
        : not_finite(counters, kPointsNotFinite), over_capacity(counters, kPointsOverCapacity) {}
};

// Where the tiles of every sweep begin among those of all.
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

__device__ inline void densify_tile(const Args& args, const Tiles& tiles, const scan::Turn& turn,
                                    uint32_t num_turns, const Dropped& dropped) {
    // Its sweep is the last that does not begin behind it.
    uint32_t index = 0;
    for (uint32_t i = 1; i < args.num_sweeps; ++i) index += tiles.begin[i] <= turn.number;
    const Sweep& sweep = args.sweeps[index];
    const uint32_t own = (turn.number - tiles.begin[index]) * kThreads + threadIdx.x;
    const bool is_point = own < num_points(args, index);
    const uint32_t num_channels = args.num_channels;
    const float* point = sweep.values.data + static_cast<uint64_t>(own) * num_channels;
    float moved[3] = {};
    bool stays = is_point;
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
                stays &= isfinite(moved[i]);
            }
        }
    }
    const scan::Places places = scan::places<kThreads>(stays);
    const uint32_t num_not_finite = __syncthreads_count(is_point && !stays);
    if (threadIdx.x == 0) {
        scan::publish(args.numbers.data, turn, places.total | num_not_finite << kCountBits);
    }
    uint32_t num_before = 0;
    uint32_t num_not_finite_before = 0;
    scan::for_each_before(args.numbers.data, turn, [&](uint32_t number) {
        num_before += number & ((1u << kCountBits) - 1);
        num_not_finite_before += number >> kCountBits;
    });
    const uint32_t base = scan::block_sum<kThreads>(num_before);
    const uint32_t place = base + places.before;
    if (stays && place < args.capacity) {
        float* out = args.points.data + static_cast<uint64_t>(place) * num_channels;
        for (uint32_t c = 0; c < num_channels; ++c) {
            const float kept = c < 3 ? moved[c] : point[c];
            out[c] = c == args.time_lag_channel ? sweep.age : kept;
        }
    }
    if (turn.number != num_turns - 1) return;
    const uint32_t total = scan::block_sum<kThreads>(num_not_finite_before) + num_not_finite;
    if (threadIdx.x == 0) {
        const uint32_t num_staying = base + places.total;
        const uint32_t num = min(num_staying, args.capacity);
        args.num[0] = num;
        dropped.not_finite.add(total);
        dropped.over_capacity.add(num_staying - num);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    densify_points(const __grid_constant__ Args args) {
    __shared__ Tiles tiles;
    const Dropped dropped(args.counters);
    find_tiles(args, tiles);
    // One turn without points, which writes their number.
    const uint32_t num_turns = max(tiles.begin[args.num_sweeps], 1u);
    scan::for_each_turn(args.turns.data, num_turns, [&](const scan::Turn& turn) {
        densify_tile(args, tiles, turn, num_turns, dropped);
    });
}

}  // namespace densify
