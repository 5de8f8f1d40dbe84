// Suppression by lowering scores: crates/ops/src/nms/soft/mod.rs.
//
// One block, since the box kept next depends on all scores that the one before has
// lowered. Thread t owns candidates t, t + kThreads, ... In each iteration it lowers
// their scores and finds its best; a reduction over the block finds the best of all.

#include "nms/aligned_box.cuh"
#include "nms/args.cuh"

namespace soft {

using Args = NmsArgs<Candidate2d>;

constexpr uint32_t kThreads = 1024;
constexpr uint32_t kWarps = kThreads / kLanes;

// exp(x) for x of zero or less: the arithmetic of crates/ops/src/nms/soft/mod.rs in its order.
__device__ double exp_f64(double x) {
    constexpr double kLn2 = 0.693147180559945309417232121458176568;
    constexpr double kLog2E = 1.44269504088896340735992468100189214;
    if (x < -700.0) return 0.0;
    const double powers = floor(x * kLog2E + 0.5);
    const double rest = x - powers * kLn2;
    double series = 1.0;
    for (int32_t n = 11; n >= 1; --n) {
        series = 1.0 + __ddiv_rn(rest * series, static_cast<double>(n));
    }
    const int64_t exponent = 1023 + static_cast<int64_t>(powers);
    return series * __longlong_as_double(exponent << 52);
}

// The factor of a score, given the IoU with the kept box.
__device__ float weight(const NmsSettings& settings, float iou) {
    if (settings.sigma == 0.0f) return iou >= settings.iou_threshold ? 1.0f - iou : 1.0f;
    const float exponent = __fdiv_rn(-(iou * iou), settings.sigma);
    return static_cast<float>(exp_f64(static_cast<double>(exponent)));
}

__device__ float4 box_of(const Candidate2d& c) { return make_float4(c.x1, c.y1, c.x2, c.y2); }

// A candidate and the `order_word` of its score.
struct Best {
    uint32_t word = kLast;
    uint32_t index = kNone;
};

// The total order, with ties by original score and position.
__device__ bool ranks_above(const Args& args, const Best& a, const Best& b) {
    if (a.word != b.word || a.word == kLast) return a.word < b.word;
    const Rank& x = args.candidates[a.index].rank;
    const Rank& y = args.candidates[b.index].rank;
    if (x.class_index != y.class_index) return x.class_index < y.class_index;
    if (x.source != y.source) return x.source < y.source;
    const uint32_t word_x = order_word(x.score, true);
    const uint32_t word_y = order_word(y.score, true);
    return word_x != word_y ? word_x < word_y : a.index < b.index;
}

// The best of a warp, in every lane.
__device__ Best best_of_warp(const Args& args, Best own) {
    Best best;
    best.word = __reduce_min_sync(kAllLanes, own.word);
    uint32_t equal = __ballot_sync(kAllLanes, own.word == best.word);
    best.index = __shfl_sync(kAllLanes, own.index, __ffs(equal) - 1);
    if (best.word == kLast) return best;
    for (equal &= equal - 1; equal != 0; equal &= equal - 1) {
        const Best other = {best.word, __shfl_sync(kAllLanes, own.index, __ffs(equal) - 1)};
        if (ranks_above(args, other, best)) best = other;
    }
    return best;
}

// The best of the block, in every thread. Iterations alternate between two buffers.
__device__ Best best_of_block(const Args& args, Best own, uint32_t iteration) {
    __shared__ Best bests[2][kWarps];
    const Best best = best_of_warp(args, own);
    if (lane_of() == 0) bests[iteration % 2][warp_of()] = best;
    __syncthreads();
    return best_of_warp(args, bests[iteration % 2][lane_of()]);
}

__device__ void suppress(const Args& args) {
    const NmsSettings settings = args.parameters.settings[0];
    const uint32_t n = num_candidates(args);
    // By candidate; NaN: not eligible, or kept already.
    const Slice<float>& scores = args.scratch.scores;
    Best own;
    for (uint32_t i = threadIdx.x; i < n; i += kThreads) {
        const Candidate2d candidate = args.candidates[i];
        const float score = candidate.rank.score;
        const bool present = has_finite_box(candidate) && score >= 0.0f && score < INFINITY;
        scores[i] = present ? score : NAN;
        const Best mine = {order_word(score, present), i};
        if (ranks_above(args, mine, own)) own = mine;
    }
    uint32_t num_kept = 0;
    while (true) {
        const Best kept = best_of_block(args, own, num_kept);
        if (kept.word == kLast) break;
        const float score = score_of_word(kept.word);
        if (score < settings.min_score && num_kept != 0) break;
        if (threadIdx.x == 0) args.output.write(num_kept, {kept.index, score});
        ++num_kept;
        const Candidate2d better = args.candidates[kept.index];
        const float4 box = box_of(better);
        const float area = box_area(box, settings.offset);
        const uint64_t group = group_of(args, settings, better.rank.class_index);
        own = Best();
        for (uint32_t i = threadIdx.x; i < n; i += kThreads) {
            float mine = scores[i];
            if (isnan(mine)) continue;
            if (i == kept.index) {
                scores[i] = NAN;
                continue;
            }
            const Candidate2d candidate = args.candidates[i];
            const float4 other = box_of(candidate);
            const float part = box_intersection(box, other, settings.offset);
            // An IoU of 0 lowers nothing.
            if (part != 0.0f && group_of(args, settings, candidate.rank.class_index) == group) {
                const float iou = over_union(part, area, box_area(other, settings.offset));
                mine *= weight(settings, iou);
                scores[i] = mine;
            }
            const Best next = {order_word(mine, true), i};
            if (ranks_above(args, next, own)) own = next;
        }
    }
    if (threadIdx.x == 0) args.output.write_counts({num_kept, 0});
}

}  // namespace soft

extern "C" __global__ void __launch_bounds__(soft::kThreads)
    nms_soft(const __grid_constant__ soft::Args args) {
    soft::suppress(args);
}
