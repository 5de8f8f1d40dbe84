// Operations of warps.
#pragma once

#include <cstdint>

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

__device__ inline uint32_t lane_of() { return threadIdx.x % kLanes; }
__device__ inline uint32_t warp_of() { return threadIdx.x / kLanes; }

// The number of lanes before this one whose bit is set.
__device__ inline uint32_t num_lanes_before(uint32_t votes) {
    return __popc(votes & ((1u << lane_of()) - 1));
}

// The transpose of 32 by 32 bits: bit b of lane l becomes bit l of lane b.
__device__ inline uint32_t transposed(uint32_t bits) {
    uint32_t low = 0x0000ffffu;
#pragma unroll
    for (uint32_t step = kLanes / 2; step != 0; step /= 2) {
        const uint32_t other = __shfl_xor_sync(kAllLanes, bits, step);
        const bool is_upper = (lane_of() & step) != 0;
        bits =
            is_upper ? (bits & ~low) | (other >> step & low) : (bits & low) | (other & low) << step;
        low ^= low << step / 2;
    }
    return bits;
}
