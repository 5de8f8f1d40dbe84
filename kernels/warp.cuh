// Warps.
#pragma once

#include <cstdint>

constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

__device__ inline uint32_t lane_of() { return threadIdx.x % kLanes; }
__device__ inline uint32_t warp_of() { return threadIdx.x / kLanes; }

// How many lanes before this one have their bit.
__device__ inline uint32_t num_lanes_before(uint32_t votes) {
    return __popc(votes & ((1u << lane_of()) - 1));
}
