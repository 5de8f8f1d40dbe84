// No suppression: all eligible candidates in the total order: crates/ops/src/nms/none/mod.rs.
//
// Ranks by counting: kSlices threads per candidate count the candidates above it,
// each in its slice of a tile. The work grows with the square of the number of
// candidates, 4e8 comparisons for 20000; no block waits for another.

#include "nms/args.cuh"
#include "shared/scan.cuh"

namespace none {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kCandidatesPerBlock = 32;
constexpr uint32_t kSlices = kThreads / kCandidatesPerBlock;
constexpr uint32_t kSlice = kThreads / kSlices;

// `order_word` of candidate i; kLast: past the last, or not eligible.
template <typename Candidate>
__device__ uint32_t word_at(const NmsArgs<Candidate>& args, uint32_t i, uint32_t n) {
    if (i >= n) return kLast;
    const Candidate candidate = args.candidates[i];
    const float score = candidate.rank.score;
    return order_word(score, !isnan(score) && has_finite_box(candidate));
}

template <typename Candidate>
__device__ void keep_all(const NmsArgs<Candidate>& args) {
    __shared__ uint32_t words[kThreads];
    __shared__ uint32_t num_above[kCandidatesPerBlock];
    const uint32_t n = num_candidates(args);
    if (blockIdx.x * kCandidatesPerBlock >= n && blockIdx.x != 0) return;
    const uint32_t lane = threadIdx.x % kCandidatesPerBlock;
    const uint32_t own = blockIdx.x * kCandidatesPerBlock + lane;
    const uint32_t own_word = word_at(args, own, n);
    const uint64_t own_key = static_cast<uint64_t>(own_word) << 32 | own;
    const uint32_t first = threadIdx.x / kCandidatesPerBlock * kSlice;
    uint32_t above = 0;
    uint32_t num_eligible = 0;
    if (threadIdx.x < kCandidatesPerBlock) num_above[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t start = 0; start < n; start += kThreads) {
        const uint32_t word = word_at(args, start + threadIdx.x, n);
        num_eligible += word != kLast;
        words[threadIdx.x] = word;
        __syncthreads();
#pragma unroll 4
        for (uint32_t i = first; i < first + kSlice; ++i) {
            const uint32_t other = words[i];
            above += other < own_word;
            if (other != own_word || own_word == kLast) continue;
            const uint64_t key = static_cast<uint64_t>(other) << 32 | (start + i);
            above += precedes(key, own_key, args.candidates.data);
        }
        __syncthreads();
    }
    atomicAdd(&num_above[lane], above);
    const uint32_t num_kept = scan::block_sum<kThreads>(num_eligible);
    if (threadIdx.x < kCandidatesPerBlock && own_word != kLast) {
        args.output.write(num_above[lane], {own, args.candidates[own].rank.score});
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) args.output.write_counts({num_kept, 0});
}

}  // namespace none

#define NMS_NONE_KERNEL(name, Candidate)                         \
    extern "C" __global__ void __launch_bounds__(none::kThreads) \
        name(const __grid_constant__ NmsArgs<Candidate> args) {  \
        none::keep_all(args);                                    \
    }

NMS_NONE_KERNEL(nms_none_2d, Candidate2d)
NMS_NONE_KERNEL(nms_none_rotated, CandidateRotated)
NMS_NONE_KERNEL(nms_none_3d, Candidate3d)
