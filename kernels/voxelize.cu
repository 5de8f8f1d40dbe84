// Voxelize: points are grouped into the voxels of a grid:
// src/ops/voxelize/mod.rs.
//
// Steps, each a kernel, the number of points read on the device:
//   claim    every point finds its cell's entry: the lowest point of a cell and
//            how many it has
//   number   blocks take turns: a voxel's number is that of the lowest points
//            before its own; each voxel gets room for all its points
//   fill     points go to the room of their voxel, in any order
//   order    a thread a point counts the lower ones in its room, and goes to its
//            place; crowded rooms are left to a warp each, which looks for the
//            lowest; entries are emptied for the next frame
//
// Atomics find lowest points, sums and free places: no result depends on their
// order. A cell is its own entry or, on large grids, hashed.

#include "counters.cuh"
#include "grid.cuh"
#include "scan.cuh"

namespace voxelize {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kLanes;
constexpr uint32_t kNumberThreads = 512;
constexpr uint32_t kNone = 0xffffffffu;
// Points of a room that each count for themselves.
constexpr uint32_t kCrowded = 64;
// Blocks for crowded rooms, and points of one that are looked at together.
constexpr uint32_t kCrowdedBlocks = 132;
constexpr uint32_t kAtOnce = 512;
// Voxels of a block and their points, in one published number.
constexpr uint32_t kVoxelBits = 10;
constexpr uint32_t kVoxelMask = (1u << kVoxelBits) - 1;

// What is known of a cell in this frame; all zero when empty.
struct alignas(16) Entry {
    uint32_t key;    // hashed: the cell, plus 1
    uint32_t first;  // the lowest point, all bits turned over
    uint32_t num;
    uint32_t voxel;  // from the step `number` on; kNone over the capacity
};
static_assert(sizeof(Entry) == 16);

// Points of the voxels that begin in a turn: over `max_points_per_voxel`, and of
// voxels over the capacity.
struct Lost {
    uint32_t over_voxel;
    uint32_t over_capacity;
};
static_assert(sizeof(Lost) == 8);

// Where all points of a voxel lie.
struct Room {
    uint32_t start;
    uint32_t num;
};
static_assert(sizeof(Room) == 8);

// The mirror of `VoxelizeArgs` in src/ops/voxelize/kernels.rs.
struct Args {
    Slice<const float> points;
    Slice<const uint32_t> num_points;
    Slice<uint32_t> cells;                 // by voxel
    Slice<uint32_t> num_points_per_voxel;  // by voxel
    Slice<uint32_t> point_indices;         // by voxel, max_points_per_voxel each
    Slice<uint32_t> num_voxels;
    Counters counters;
    Slice<Entry> entries;
    Slice<uint32_t> entry_of;  // by point
    Slice<uint32_t> place_of;  // by point: its place among those of its cell
    Slice<uint32_t> members;   // points by room
    Slice<Room> rooms;         // by voxel
    Slice<uint32_t> crowded;   // voxels with crowded rooms, in any order
    Slice<uint32_t> num_crowded;
    Slice<uint64_t> turns;
    Slice<uint64_t> numbers;
    Slice<Lost> lost;  // by turn
    VoxelGrid grid;
    uint32_t num_channels;
    uint32_t point_capacity;
    uint32_t max_points_per_voxel;
    uint32_t voxel_capacity;
    uint32_t hash_shift;  // 0: a cell is its own entry
};
static_assert(sizeof(Args) == 328);

__device__ inline uint32_t num_points(const Args& args) {
    return min(args.num_points[0], args.point_capacity);
}

__device__ inline void read_position(const Args& args, uint32_t point, float (&position)[3]) {
    const float* values = args.points.data + static_cast<uint64_t>(point) * args.num_channels;
#pragma unroll
    for (uint32_t axis = 0; axis < 3; ++axis) position[axis] = values[axis];
}

// The entry of a cell; hashed, there are at least twice as many as points.
__device__ inline uint32_t entry_of(const Args& args, uint32_t cell) {
    if (args.hash_shift == 0) return cell;
    const uint32_t num = static_cast<uint32_t>(args.entries.len);
    uint32_t entry = cell * 0x9e3779b9u >> args.hash_shift;
    for (;;) {
        const uint32_t found = atomicCAS(&args.entries[entry].key, 0, cell + 1);
        if (found == 0 || found == cell + 1) return entry;
        entry = entry + 1 == num ? 0 : entry + 1;
    }
}

// For a warp: the `num_wanted` lowest of `n` different values below twice
// `top_bit`, in any order, to the front; there are at least that many.
__device__ void bring_lowest_to_front(uint32_t* values, uint32_t n, uint32_t num_wanted,
                                      uint32_t top_bit) {
    const uint32_t lane = threadIdx.x % kLanes;
    // The highest of them, bit by bit.
    uint32_t highest = 0;
    for (uint32_t bit = top_bit; bit != 0; bit >>= 1) {
        const uint32_t tried = highest | (bit - 1);
        uint32_t num = 0;
        for (uint32_t i = lane; i < n; i += kLanes) num += values[i] <= tried;
        if (__reduce_add_sync(kAllLanes, num) < num_wanted) highest |= bit;
    }
    uint32_t num_taken = 0;
    for (uint32_t start = 0; start < n; start += kLanes) {
        const uint32_t i = start + lane;
        const uint32_t value = i < n ? values[i] : kNone;
        const bool is_taken = i < n && value <= highest;
        const uint32_t votes = __ballot_sync(kAllLanes, is_taken);
        __syncwarp();
        // A place is at or before the value's own, which all lanes have read.
        if (is_taken) values[num_taken + __popc(votes & ((1u << lane) - 1))] = value;
        num_taken += __popc(votes);
        __syncwarp();
    }
}

// For a warp: the first points of a voxel whose room is crowded, in order. The
// lowest so far stay at the front while others come behind them; how many are
// wanted leaves room for these, see `MAX_POINTS_PER_VOXEL`.
__device__ inline void order_crowded(const Args& args, uint32_t voxel, uint32_t* values) {
    const uint32_t lane = threadIdx.x % kLanes;
    const Room room = args.rooms[voxel];
    const uint32_t* members = args.members.data + room.start;
    const uint32_t num_wanted = args.max_points_per_voxel;
    const uint32_t top_bit = 1u << (31 - __clz(args.point_capacity | 1));
    uint32_t num_held = 0;
    for (uint32_t start = 0; start < room.num;) {
        const uint32_t num = min(room.num - start, kAtOnce - num_held);
        for (uint32_t i = lane; i < num; i += kLanes) values[num_held + i] = members[start + i];
        __syncwarp();
        start += num;
        num_held += num;
        if (num_held > num_wanted) {
            bring_lowest_to_front(values, num_held, num_wanted, top_bit);
            num_held = num_wanted;
        }
    }
    uint32_t* out = args.point_indices.data + static_cast<uint64_t>(voxel) * num_wanted;
    for (uint32_t i = lane; i < num_held; i += kLanes) {
        const uint32_t value = values[i];
        uint32_t rank = 0;
        for (uint32_t other = 0; other < num_held; ++other) rank += values[other] < value;
        out[rank] = value;
    }
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(kThreads)
    voxelize_claim(const __grid_constant__ Args args) {
    const uint32_t first = blockIdx.x * kThreads + threadIdx.x;
    if (first == 0) args.num_crowded[0] = 0;
    // Read without waiting for the number of points.
    float position[3] = {};
    if (first < args.point_capacity) read_position(args, first, position);
    const uint32_t n = num_points(args);
    for (uint32_t own = first; own < n; own += gridDim.x * kThreads) {
        if (own != first) read_position(args, own, position);
        uint32_t cell;
        uint32_t entry = kNone;
        if (args.grid.cell_of(position, &cell)) {
            entry = entry_of(args, cell);
            args.place_of[own] = atomicAdd(&args.entries[entry].num, 1);
            atomicMax(&args.entries[entry].first, ~own);
        }
        args.entry_of[own] = entry;
    }
}

// What numbering drops.
struct Dropped {
    Counter out_of_range;
    Counter voxels_over_capacity;

    __device__ explicit Dropped(const Counters& counters)
        : out_of_range(counters, kPointsOutOfRange),
          voxels_over_capacity(counters, kVoxelsOverCapacity) {}
};

__device__ inline void number_tile(const Args& args, const scan::Turn& turn, uint32_t n,
                                   uint32_t num_turns, const Dropped& dropped) {
    constexpr uint32_t kNumberWarps = kNumberThreads / kLanes;
    __shared__ uint32_t sums[kNumberWarps];
    __shared__ Lost lost;
    if (threadIdx.x == 0) lost = {};
    const uint32_t own = turn.number * kNumberThreads + threadIdx.x;
    const uint32_t own_entry = own < n ? args.entry_of[own] : kNone;
    Entry entry = {};
    if (own_entry != kNone) entry = args.entries[own_entry];
    const bool is_first = own_entry != kNone && entry.first == ~own;
    // Voxels that begin here and all their points, counted in one word.
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
    if (threadIdx.x == 0) scan::publish(args.numbers.data, turn, total);
    uint32_t num_voxels_before = 0;
    uint32_t num_points_before = 0;
    scan::for_each_before(args.numbers.data, turn, [&](uint32_t number) {
        num_voxels_before += number & kVoxelMask;
        num_points_before += number >> kVoxelBits;
    });
    const uint32_t base = scan::block_sum<kNumberThreads>(num_voxels_before);
    const uint32_t start = scan::block_sum<kNumberThreads>(num_points_before);
    const uint32_t voxel = base + (before & kVoxelMask);
    const bool is_kept = is_first && voxel < args.voxel_capacity;
    const uint32_t num_kept = min(num_own, args.max_points_per_voxel);
    const uint32_t over_voxel = __reduce_add_sync(kAllLanes, is_kept ? num_own - num_kept : 0);
    const uint32_t over_capacity = __reduce_add_sync(kAllLanes, is_kept ? 0 : num_own);
    if (lane == 0) {
        if (over_voxel != 0) atomicAdd(&lost.over_voxel, over_voxel);
        if (over_capacity != 0) atomicAdd(&lost.over_capacity, over_capacity);
    }
    if (is_first) {
        args.entries[own_entry].voxel = is_kept ? voxel : kNone;
        if (is_kept) {
            args.cells[voxel] = args.hash_shift == 0 ? own_entry : entry.key - 1;
            args.num_points_per_voxel[voxel] = num_kept;
            args.rooms[voxel] = {start + (before >> kVoxelBits), num_own};
            if (num_own > kCrowded) {
                const uint32_t position = atomicAdd(&args.num_crowded[0], 1);
                if (position < args.crowded.len) args.crowded[position] = voxel;
            }
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) args.lost[turn.number] = lost;
    if (threadIdx.x == 0 && turn.number == num_turns - 1) {
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
    // One turn without points, which writes the number of voxels.
    const uint32_t num_turns = max((n + kNumberThreads - 1) / kNumberThreads, 1u);
    scan::for_each_turn(args.turns.data, num_turns, [&](const scan::Turn& turn) {
        number_tile(args, turn, n, num_turns, dropped);
    });
}

// For all threads of one block: what all turns lost.
__device__ inline void sum_lost(const Args& args, uint32_t n) {
    const Counter points_over_voxel(args.counters, kPointsOverVoxel);
    const Counter points_over_capacity(args.counters, kPointsOverVoxelCapacity);
    uint32_t over_voxel = 0;
    uint32_t over_capacity = 0;
    const uint32_t num_turns = (n + kNumberThreads - 1) / kNumberThreads;
    for (uint32_t i = threadIdx.x; i < num_turns; i += kThreads) {
        over_voxel += args.lost[i].over_voxel;
        over_capacity += args.lost[i].over_capacity;
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
    // Read without waiting for the number of points.
    uint32_t own_entry = first < args.point_capacity ? args.entry_of[first] : kNone;
    uint32_t place = first < args.point_capacity ? args.place_of[first] : 0;
    const uint32_t n = num_points(args);
    for (uint32_t own = first; own < n; own += gridDim.x * kThreads) {
        if (own != first) {
            own_entry = args.entry_of[own];
            place = args.place_of[own];
        }
        if (own_entry == kNone) continue;
        const uint32_t voxel = args.entries[own_entry].voxel;
        if (voxel == kNone) continue;
        const uint32_t position = args.rooms[voxel].start + place;
        if (position < args.members.len) args.members[position] = own;
    }
    if (blockIdx.x == 0) sum_lost(args, n);
}

// For a thread: brings a point to its place and, once a cell, empties the entry.
__device__ inline void order_point(const Args& args, uint32_t own) {
    const uint32_t own_entry = args.entry_of[own];
    if (own_entry == kNone) return;
    Entry& entry = args.entries[own_entry];
    const uint32_t voxel = entry.voxel;
    // Others of the cell read `first` too: they find another point or none.
    volatile uint32_t* first = &entry.first;
    if (*first == ~own) {
        *first = 0;
        entry.key = 0;
        entry.num = 0;
    }
    if (voxel == kNone) return;
    const Room room = args.rooms[voxel];
    if (room.num > kCrowded) return;
    const uint32_t* members = args.members.data + room.start;
    uint32_t rank = 0;
#pragma unroll 4
    for (uint32_t i = 0; i < room.num; ++i) rank += members[i] < own;
    if (rank < args.max_points_per_voxel) {
        args.point_indices[static_cast<uint64_t>(voxel) * args.max_points_per_voxel + rank] = own;
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    voxelize_order(const __grid_constant__ Args args) {
    __shared__ uint32_t staged[kWarps][kAtOnce];
    if (blockIdx.x < kCrowdedBlocks) {
        const uint32_t num = min(args.num_crowded[0], static_cast<uint32_t>(args.crowded.len));
        uint32_t* values = staged[threadIdx.x / kLanes];
        for (uint32_t i = threadIdx.x / kLanes * kCrowdedBlocks + blockIdx.x; i < num;
             i += kCrowdedBlocks * kWarps) {
            order_crowded(args, args.crowded[i], values);
        }
        return;
    }
    const uint32_t n = num_points(args);
    const uint32_t num_threads = (gridDim.x - kCrowdedBlocks) * kThreads;
    const uint32_t first = (blockIdx.x - kCrowdedBlocks) * kThreads + threadIdx.x;
    for (uint32_t own = first; own < n; own += num_threads) order_point(args, own);
}

}  // namespace voxelize
