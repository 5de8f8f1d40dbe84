// The step `publish`: the survivors of many candidates, in order.
#pragma once

#include "nms_args.cuh"

// Each block writes the survivors among its ranks, after those before them.
template <typename Policy, typename Candidate>
__device__ void nms_publish(const NmsArgs<Candidate>& args) {
    __shared__ uint32_t sums[kNmsThreads / kLanes];
    const uint32_t start = blockIdx.x * kNmsThreads;
    const uint32_t own = start + threadIdx.x;
    const Kept survivor = own < args.order.len ? args.order[own] : Kept{};
    const uint32_t n = num_candidates(args);
    if (start >= n && blockIdx.x != 0) return;
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    uint32_t before = 0;
    for (uint32_t word = threadIdx.x; word < start / 32; word += kNmsThreads) {
        before += __popc(args.kept_bits[word]);
    }
    before = __reduce_add_sync(kAllLanes, before);
    if (lane == 0) sums[warp] = before;
    __syncthreads();
    uint32_t position = 0;
    for (uint32_t i = 0; i < kNmsThreads / kLanes; ++i) position += sums[i];

    const uint32_t max_num = args.settings[0].max_num;
    const uint32_t first_word = start / 32;
    const uint32_t num_words = (n + 31) / 32;
    uint32_t own_bits = 0;
    uint32_t end = position;
    for (uint32_t i = 0; i < kNmsThreads / kLanes && first_word + i < num_words; ++i) {
        const uint32_t bits = args.kept_bits[first_word + i];
        if (i == warp) {
            own_bits = bits;
            position = end + __popc(bits & ((1u << lane) - 1));
        }
        end += __popc(bits);
    }
    if ((own_bits >> lane & 1) != 0 && position < max_num) {
        args.kept[position] = survivor;
        args.published[position] = survivor;
    }
    if (start + kNmsThreads >= n && threadIdx.x == 0) {
        const NmsCounts counts = {min(end, max_num), args.ticket[1]};
        args.counts[0] = counts;
        args.published_counts[0] = counts;
        args.ticket[0] = 0;
        args.ticket[1] = 0;
    }
}
