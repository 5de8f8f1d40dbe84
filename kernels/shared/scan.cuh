// Prefix sums over the tiles of a launch, in one pass.
//
// Blocks take tiles by ticket, in ascending order. For each tile a block first
// publishes an aggregate and then reads those of all tiles before it: these were
// taken by blocks that already run and that publish before they wait, so that
// every wait ends. An aggregate carries the epoch of its launch; nothing has to be
// cleared between launches.
#pragma once

#include "shared/slice.cuh"

namespace scan {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

struct Tile {
    uint32_t index;
    uint32_t epoch;
};

// For all threads of a block: `work(tile)` for each tile that the block takes; the
// grid takes `num_tiles`, the same number in all blocks. `ticket` is one word, zero
// before the first launch.
template <typename Work>
__device__ void for_each_tile(uint64_t* ticket, uint32_t num_tiles, const Work& work) {
    __shared__ uint64_t taken;
    // A grid of as many blocks as tiles takes one tile per block.
    const bool has_enough = num_tiles <= gridDim.x;
    if (has_enough && blockIdx.x >= num_tiles) return;
    const uint32_t num_tickets = has_enough ? num_tiles : num_tiles + gridDim.x;
    for (;;) {
        if (threadIdx.x == 0) {
            auto* word = reinterpret_cast<unsigned long long*>(ticket);
            taken = atomicAdd(word, 1);
            // The last ticket of a launch begins the next epoch.
            if (static_cast<uint32_t>(taken) == num_tickets - 1) {
                atomicAdd(word, (1ull << 32) - num_tickets);
            }
        }
        __syncthreads();
        const Tile tile = {static_cast<uint32_t>(taken), static_cast<uint32_t>(taken >> 32) + 1};
        if (tile.index < num_tiles) work(tile);
        if (has_enough || tile.index >= num_tiles) return;
        __syncthreads();
    }
}

// For one thread: publishes the aggregate of a tile to the tiles after it.
__device__ inline void publish(uint64_t* aggregates, Tile tile, uint32_t aggregate) {
    const uint64_t word = static_cast<uint64_t>(tile.epoch) << 32 | aggregate;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(aggregates + tile.index), "l"(word)
                 : "memory");
}

// The aggregate of an earlier tile, once it is published.
__device__ inline uint32_t wait_for(const uint64_t* aggregates, uint32_t index, uint32_t epoch) {
    uint64_t word;
    do {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
                     : "=l"(word)
                     : "l"(aggregates + index)
                     : "memory");
    } while (static_cast<uint32_t>(word >> 32) != epoch);
    return static_cast<uint32_t>(word);
}

// For all threads: `add(aggregate, index)` once for each tile before this one, by some
// thread.
template <typename Add>
__device__ void for_each_predecessor(const uint64_t* aggregates, Tile tile, const Add& add) {
    for (uint32_t i = threadIdx.x; i < tile.index; i += blockDim.x) {
        add(wait_for(aggregates, i, tile.epoch), i);
    }
}

// For all threads: the sum of a value over the block.
template <uint32_t kThreads>
__device__ uint32_t block_sum(uint32_t value) {
    __shared__ uint32_t sums[kThreads / kLanes];
    const uint32_t of_warp = __reduce_add_sync(kAllLanes, value);
    if (threadIdx.x % kLanes == 0) sums[threadIdx.x / kLanes] = of_warp;
    __syncthreads();
    uint32_t total = 0;
    for (uint32_t i = 0; i < kThreads / kLanes; ++i) total += sums[i];
    __syncthreads();
    return total;
}

// The position of a thread among the selected threads of its block.
struct Selected {
    uint32_t before;
    uint32_t total;
};

// For all threads: how many selected threads precede this one, and how many the
// block has.
template <uint32_t kThreads>
__device__ Selected count_selected(bool is_selected) {
    __shared__ uint32_t sums[kThreads / kLanes];
    const uint32_t votes = __ballot_sync(kAllLanes, is_selected);
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    if (lane == 0) sums[warp] = __popc(votes);
    __syncthreads();
    Selected selected = {static_cast<uint32_t>(__popc(votes & ((1u << lane) - 1))), 0};
    for (uint32_t i = 0; i < kThreads / kLanes; ++i) {
        selected.before += i < warp ? sums[i] : 0;
        selected.total += sums[i];
    }
    __syncthreads();
    return selected;
}

}  // namespace scan
