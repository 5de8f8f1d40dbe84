// Up to kBitmaskCapacity candidates: a suppression bitmask and its greedy
// reduction in one kernel. kernels/README.md states the algorithm.
//
// A block compares all candidates, the columns, with the few that it owns, the
// rows. Up to kDenseCapacity candidates take bitmask_dense.cuh, more take
// bitmask_sparse.cuh and bitmask_reduce.cuh.
#pragma once

#include "nms/bitmask_dense.cuh"
#include "nms/bitmask_reduce.cuh"
#include "nms/bitmask_sparse.cuh"

// Adds 1 to a counter; the block's writes before it are visible to blocks that
// read the counter afterwards. Returns the old value.
__device__ inline uint32_t take_ticket(uint32_t* ticket) {
    uint32_t taken;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
                 : "=r"(taken)
                 : "l"(ticket)
                 : "memory");
    return taken;
}

template <typename Policy, typename Candidate>
__device__ void nms_bitmask(const NmsArgs<Candidate>& args) {
    __shared__ bool is_last;
    __shared__ union {
        SparseComparison<Candidate> comparison;
        SparseReduction sparse;
        DenseReduction dense;
    } shared;
    const uint32_t capacity = min(static_cast<uint32_t>(args.candidates.len), kBitmaskCapacity);
    const uint32_t num = num_candidates(args);
    const NmsSettings settings = args.parameters.settings[0];
    // Loads start before the number of candidates is known; values past it are
    // ignored later.
    Chunk<Candidate> chunk;
    chunk.fetch(args.candidates.data, warp_of() * kLanes, capacity);
    Candidate row = {};
    const bool has_row = warp_of() == kBitmaskWarps - 1 && lane_of() < kMaxRows;
    if (has_row && candidate_of_row(lane_of()) < capacity) {
        row = args.candidates[candidate_of_row(lane_of())];
    }
    const uint32_t n = min(num, capacity);
    if (n <= kDenseCapacity) {
        auto& staged = shared.comparison.staged[warp_of()];
        return dense_bitmask<Policy>(args, settings, staged, shared.dense, chunk, n);
    }
    const uint32_t num_blocks = max(min(n, gridDim.x), 1u);
    if (blockIdx.x >= num_blocks) return;
    compare_sparse<Policy>(args, settings, shared.comparison, chunk, row, n);
    __syncthreads();
    if (threadIdx.x == 0) is_last = take_ticket(&args.scratch.ticket[0]) == num_blocks - 1;
    __syncthreads();
    if (!is_last) return;
    if (n > kBitmaskThreads) {
        reduce_sparse<Policy, 2>(args, shared.sparse, n, settings.max_num);
    } else {
        reduce_sparse<Policy, 1>(args, shared.sparse, n, settings.max_num);
    }
}
