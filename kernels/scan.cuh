// Sums over the tiles before, within one kernel.
//
// Blocks take turns, a tile a turn, in the order in which they come. For each
// they publish a number and then read those of all turns before: these belong
// to blocks that already run and that publish before they wait for anybody. A
// number carries the tag of its launch, so that nothing has to be cleared
// between launches.
#pragma once

#include "slice.cuh"

namespace scan {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

struct Turn {
    uint32_t number;
    uint32_t tag;
};

// For all threads of a block: `work(turn)` for each of the block's turns, all in
// all `num_turns` of the grid, the same for all. `turns` is one word, zero at
// first.
template <typename Work>
__device__ void for_each_turn(uint64_t* turns, uint32_t num_turns, const Work& work) {
    __shared__ uint64_t taken;
    // With as many blocks as turns a block has one, and need not ask for more.
    const bool has_enough = num_turns <= gridDim.x;
    if (has_enough && blockIdx.x >= num_turns) return;
    const uint32_t num_asked = has_enough ? num_turns : num_turns + gridDim.x;
    for (;;) {
        if (threadIdx.x == 0) {
            auto* word = reinterpret_cast<unsigned long long*>(turns);
            taken = atomicAdd(word, 1);
            // Who asks last begins the next launch.
            if (static_cast<uint32_t>(taken) == num_asked - 1) {
                atomicAdd(word, (1ull << 32) - num_asked);
            }
        }
        __syncthreads();
        const Turn turn = {static_cast<uint32_t>(taken), static_cast<uint32_t>(taken >> 32) + 1};
        if (turn.number < num_turns) work(turn);
        if (has_enough || turn.number >= num_turns) return;
        __syncthreads();
    }
}

// For one thread: the number of a turn, for those after it.
__device__ inline void publish(uint64_t* numbers, Turn turn, uint32_t number) {
    const uint64_t word = static_cast<uint64_t>(turn.tag) << 32 | number;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(numbers + turn.number), "l"(word)
                 : "memory");
}

// The number of an earlier turn, as soon as it is there.
__device__ inline uint32_t await(const uint64_t* numbers, uint32_t other, uint32_t tag) {
    uint64_t word;
    do {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
                     : "=l"(word)
                     : "l"(numbers + other)
                     : "memory");
    } while (static_cast<uint32_t>(word >> 32) != tag);
    return static_cast<uint32_t>(word);
}

// For all threads: `add(number)` once for each number of the turns before.
template <typename Add>
__device__ void for_each_before(const uint64_t* numbers, Turn turn, const Add& add) {
    for (uint32_t i = threadIdx.x; i < turn.number; i += blockDim.x) {
        add(await(numbers, i, turn.tag));
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

// Where the threads of a block that were counted stand among each other.
struct Places {
    uint32_t before;
    uint32_t total;
};

// For all threads: how many threads before this one are counted, and how many
// in the block.
template <uint32_t kThreads>
__device__ Places places(bool is_counted) {
    __shared__ uint32_t sums[kThreads / kLanes];
    const uint32_t votes = __ballot_sync(kAllLanes, is_counted);
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    if (lane == 0) sums[warp] = __popc(votes);
    __syncthreads();
    Places places = {static_cast<uint32_t>(__popc(votes & ((1u << lane) - 1))), 0};
    for (uint32_t i = 0; i < kThreads / kLanes; ++i) {
        places.before += i < warp ? sums[i] : 0;
        places.total += sums[i];
    }
    __syncthreads();
    return places;
}

}  // namespace scan
