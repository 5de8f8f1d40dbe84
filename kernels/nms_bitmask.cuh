// Greedy suppression of up to kSmallCapacity candidates in one kernel.
//
// A block owns a few candidates, its rows; all candidates are its columns, one
// or two a thread. Who comes before a row gives its rank, who comes before and
// suppresses it a bit. A warp then lists the bits of a row. The block that ends
// last settles all in rounds: a candidate goes when one of its list is kept and
// stays when all are gone. No block waits for another. Few candidates go a
// shorter way: nms_bitmask_dense.cuh.
#pragma once

#include "nms_bitmask_sparse.cuh"
#include "nms_bitmask_dense.cuh"
#include "nms_bitmask_reduce.cuh"

// Takes the next ticket of the blocks; what the block stored before comes
// before it for all.
__device__ inline uint32_t take_ticket(uint32_t* ticket) {
    uint32_t taken;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
                 : "=r"(taken)
                 : "l"(ticket)
                 : "memory");
    return taken;
}

template <typename Policy, typename Candidate>
__device__ void nms_small(const NmsArgs<Candidate>& args) {
    __shared__ bool is_last;
    __shared__ union {
        Comparison<Candidate> comparison;
        Settlement settlement;
        FewSettlement few;
    } shared;
    const uint32_t capacity = min(static_cast<uint32_t>(args.candidates.len), kSmallCapacity);
    const uint32_t num = num_candidates(args);
    const NmsSettings settings = args.settings[0];
    // Read without waiting for the number of candidates; what lies past it is
    // left out later.
    Chunk<Candidate> chunk;
    chunk.fetch(args.candidates.data, warp_of() * kLanes, capacity);
    Candidate row = {};
    const bool has_row = warp_of() == kSmallWarps - 1 && lane_of() < kMaxRows;
    if (has_row && candidate_of_row(lane_of()) < capacity) {
        row = args.candidates[candidate_of_row(lane_of())];
    }
    const uint32_t n = min(num, capacity);
    if (n <= kFewCapacity) {
        auto& staged = shared.comparison.staged[warp_of()];
        return nms_few<Policy>(args, settings, staged, shared.few, chunk, n);
    }
    // Blocks without rows have no part in the settlement.
    const uint32_t num_blocks = max(min(n, gridDim.x), 1u);
    if (blockIdx.x >= num_blocks) return;
    nms_small_compare<Policy>(args, settings, shared.comparison, chunk, row, n);
    __syncthreads();
    if (threadIdx.x == 0) is_last = take_ticket(&args.ticket[0]) == num_blocks - 1;
    __syncthreads();
    if (!is_last) return;
    if (n > kSmallThreads) {
        nms_small_settle<Policy, 2>(args, shared.settlement, n, settings.max_num);
    } else {
        nms_small_settle<Policy, 1>(args, shared.settlement, n, settings.max_num);
    }
}
