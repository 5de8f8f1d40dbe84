// Orders the points of a large bucket of `voxelize`, which are distinct indices in any order.
#pragma once

#include <cstdint>

namespace voxelize {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kLanes;
constexpr uint32_t kNone = 0xffffffffu;
// The points of a large bucket that a warp holds.
constexpr uint32_t kMaxHeld = 512;
// Words of the bitmap in which a block orders the points of a large bucket: a multiple of
// its threads.
constexpr uint32_t kWindowWords = 4096;
static_assert(kWindowWords % kThreads == 0);

// For a warp: moves the `num_wanted` lowest of `n` distinct values below
// 2 * `top_bit` to the front, in any order; there are at least that many.
__device__ void move_lowest_to_front(uint32_t* values, uint32_t n, uint32_t num_wanted,
                                     uint32_t top_bit) {
    const uint32_t lane = threadIdx.x % kLanes;
    // The highest of them, from its top bit downwards.
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
        // A target is at or before the value's position, which all lanes have read.
        if (is_taken) values[num_taken + __popc(votes & ((1u << lane) - 1))] = value;
        num_taken += __popc(votes);
        __syncwarp();
    }
}

// For a warp: gathers the `num_wanted` lowest points of a bucket, or all if there are fewer, in
// any order; their number. All are below 2 * `top_bit`. The lowest so far are kept at the front
// of `values` while further points are loaded behind them, for which `MAX_POINTS_PER_VOXEL`
// leaves space.
__device__ inline uint32_t gather_lowest(const uint32_t* points, uint32_t count,
                                         uint32_t num_wanted, uint32_t top_bit, uint32_t* values) {
    const uint32_t lane = threadIdx.x % kLanes;
    uint32_t num_held = 0;
    for (uint32_t start = 0; start < count;) {
        const uint32_t num = min(count - start, kMaxHeld - num_held);
        for (uint32_t i = lane; i < num; i += kLanes) values[num_held + i] = points[start + i];
        __syncwarp();
        start += num;
        num_held += num;
        if (num_held > num_wanted) {
            move_lowest_to_front(values, num_held, num_wanted, top_bit);
            num_held = num_wanted;
        }
    }
    return num_held;
}

// For a warp: writes `num` distinct values in order.
__device__ inline void write_in_order(const uint32_t* values, uint32_t num, uint32_t* out) {
    for (uint32_t i = threadIdx.x % kLanes; i < num; i += kLanes) {
        const uint32_t value = values[i];
        uint32_t rank = 0;
        for (uint32_t other = 0; other < num; ++other) rank += values[other] < value;
        out[rank] = value;
    }
    __syncwarp();
}

// For a block: writes all points of a bucket in order. A bitmap holds a window of point indices
// at a time.
__device__ inline void order_all(const uint32_t* points, uint32_t count,
                                 uint32_t (&bitmap)[kWindowWords], uint32_t* out) {
    __shared__ uint32_t range[2];
    __shared__ uint32_t sums[kWarps];
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    if (threadIdx.x == 0) range[0] = kNone, range[1] = 0;
    __syncthreads();
    uint32_t lowest = kNone;
    uint32_t highest = 0;
    for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
        lowest = min(lowest, points[i]);
        highest = max(highest, points[i]);
    }
    atomicMin(&range[0], lowest);
    atomicMax(&range[1], highest);
    __syncthreads();
    highest = range[1];
    for (uint32_t start = range[0]; start <= highest; start += kWindowWords * kLanes) {
        // A warp has as many neighbouring words as any other.
        const uint32_t num_words = min((highest - start) / kLanes + 1, kWindowWords);
        const uint32_t words_per_warp =
            (num_words + kWarps * kLanes - 1) / (kWarps * kLanes) * kLanes;
        const uint32_t first = warp * words_per_warp;
        for (uint32_t i = 0; i < words_per_warp; i += kLanes) bitmap[first + i + lane] = 0;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
            const uint32_t bit = points[i] - start;
            if (bit < num_words * kLanes) atomicOr(&bitmap[bit / kLanes], 1u << bit % kLanes);
        }
        __syncthreads();
        uint32_t num_of_lane = 0;
        for (uint32_t i = 0; i < words_per_warp; i += kLanes)
            num_of_lane += __popc(bitmap[first + i + lane]);
        const uint32_t num_of_warp = __reduce_add_sync(kAllLanes, num_of_lane);
        if (lane == 0) sums[warp] = num_of_warp;
        __syncthreads();
        uint32_t before = 0;
        uint32_t total = 0;
        for (uint32_t i = 0; i < kWarps; ++i) {
            before += i < warp ? sums[i] : 0;
            total += sums[i];
        }
        for (uint32_t i = 0; i < words_per_warp; i += kLanes) {
            uint32_t word = bitmap[first + i + lane];
            uint32_t end = __popc(word);
            const uint32_t num = end;
            for (uint32_t step = 1; step < kLanes; step *= 2) {
                const uint32_t other = __shfl_up_sync(kAllLanes, end, step);
                if (lane >= step) end += other;
            }
            for (uint32_t at = before + end - num; word != 0; word &= word - 1, ++at) {
                out[at] = start + (first + i + lane) * kLanes + __ffs(word) - 1;
            }
            before += __shfl_sync(kAllLanes, end, kLanes - 1);
        }
        out += total;
        __syncthreads();
    }
}

}  // namespace voxelize
