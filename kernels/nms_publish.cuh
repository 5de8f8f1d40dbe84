// The step `publish`: the survivors of many candidates, in order.
#pragma once

#include "nms_sort.cuh"
#include "scan.cuh"

// Each block writes the survivors among its ranks, after those before them.
template <typename Policy, typename Candidate>
__device__ void nms_publish(const NmsArgs<Candidate>& args) {
    const uint32_t start = blockIdx.x * kNmsThreads;
    const uint32_t own = start + threadIdx.x;
    // Read without waiting for the number of candidates.
    const bool has_room = own < args.candidates.len;
    const Kept survivor = has_room ? args.order[own] : Kept{};
    const uint32_t state = has_room ? args.states[own] : kGone;
    const uint32_t max_num = args.settings[0].max_num;
    const uint32_t class_over = args.ticket[1];
    const auto* states = reinterpret_cast<const uint4*>(args.states.data);
    uint32_t num_before = 0;
    for (uint32_t i = threadIdx.x; i < start / 4; i += kNmsThreads) {
        const uint4 four = states[i];
        num_before += (four.x == kKept) + (four.y == kKept) + (four.z == kKept) + (four.w == kKept);
    }
    const uint32_t n = num_candidates(args);
    if (start >= n && blockIdx.x != 0) return;
    const uint32_t sum_before = scan::block_sum<kNmsThreads>(num_before);
    const bool is_kept = own < n && state == kKept;
    const scan::Places kept = scan::places<kNmsThreads>(is_kept);
    const uint32_t position = sum_before + kept.before;
    if (is_kept && position < max_num) {
        args.kept[position] = survivor;
        args.published[position] = survivor;
    }
    if (start + kNmsThreads >= n && threadIdx.x == 0) {
        const NmsCounts counts = {min(sum_before + kept.total, max_num), class_over};
        args.counts[0] = counts;
        args.published_counts[0] = counts;
        args.ticket[0] = 0;
        args.ticket[1] = 0;
    }
}
