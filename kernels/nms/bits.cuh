// Rows and columns of a suppression bitmask.
#pragma once

#include "nms/args.cuh"
#include "nms/chunk.cuh"

constexpr uint32_t kBitmaskCapacity = 2048;
constexpr uint32_t kBitmaskThreads = 1024;
constexpr uint32_t kBitmaskWarps = kBitmaskThreads / kLanes;
// The maximum number of rows of a block.
constexpr uint32_t kMaxRows = 16;

// Row r of a block is one of every gridDim.x candidates.
__device__ inline uint32_t candidate_of_row(uint32_t row) { return blockIdx.x + row * gridDim.x; }

// The candidate that a thread compares with the rows.
template <typename Policy>
struct Column {
    using Candidate = typename Policy::Candidate;
    uint32_t index;
    uint32_t word;  // `order_word`; kLast: not eligible
    uint32_t class_index;
    float4 proxy;

    Column() = default;

    __device__ Column(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                      const Candidate& candidate, uint32_t own, uint32_t n) {
        const bool is_present = own < n && is_eligible<Policy>(settings, candidate);
        index = own;
        word = order_word(candidate.rank.score, is_present);
        class_index = candidate.rank.class_index;
        proxy = Policy::proxy(args, settings, candidate);
    }
};
