// Parameters, settings and policies of the suppression kernels. kernels/README.md
// states the algorithms.
//
// A policy defines a measure of overlap for the kernels of nms.cuh:
//   Candidate, kHasThresholds, kAnySuppresses, kGeometryVectors, kReduceBlocks
//   is_eligible(settings, candidate)         false: neither kept nor a suppressor
//   proxy(args, settings, candidate)         16 bytes for the tests of pairs
//   spatial_key(candidate)                   near candidates have near keys
//   bounds(proxy), window(settings, proxy)   the bounds of every suppressor of a
//                                            candidate intersect its window
//   min_area(settings, proxy)                an argument of `may_suppress`
//   may_suppress(settings, better, proxy, min_area)       broad phase
//   suppresses(settings, better, proxy)      exact test of proxies
// A policy with kGeometryVectors > 0 also has, for an exact test that a proxy is
// too small for:
//   prepare(candidate, geometry)             kernel `prepare`, once per candidate
//   suppresses_exactly(args, settings, better_geometry, geometry)
// kReduceBlocks: blocks per multiprocessor that the kernel `reduce` is compiled for.
#pragma once

#include "shared/candidate.cuh"
#include "shared/slice.cuh"
#include "shared/warp.cuh"

constexpr uint32_t kNmsThreads = 256;
constexpr uint32_t kNone = 0xffffffffu;

// The mirrors of the structs below are in crates/ops/src/nms/.
struct alignas(16) NmsSettings {
    float iou_threshold;
    float score_threshold;
    float offset;
    float reach;
    float squared_search_distance;
    uint32_t has_score_threshold;
    uint32_t max_num;
    uint32_t class_mode;
    uint32_t num_groups;
    uint32_t num_thresholds;
    uint32_t num_forbidden;
    uint32_t reading;
    float sigma;
    float min_score;
    uint32_t num_unlimited;
    uint32_t reserved;
};

struct Kept {
    uint32_t index;
    float score;
};

struct NmsCounts {
    uint32_t num_kept;
    // One more than the highest class without a threshold; 0 when all have one.
    uint32_t class_over;
};

// A row of the sparse bitmask: the candidate's rank, above it the number of
// entries, and the first entries.
struct alignas(16) BitmaskRow {
    uint32_t rank_and_num;
    uint32_t first_entries[3];
};

// Bounds of a leaf, 32 candidates in spatial order, as words that ascend with the
// coordinates: minima and maxima are then integer reductions.
struct alignas(16) Bounds {
    uint32_t min_x, min_y, max_x, max_y;
};

// The order of floats as the order of words; zeros of both signs are equal.
__device__ inline uint32_t ascending_word(float value) {
    const uint32_t bits = __float_as_uint(value + 0.0f);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ inline Bounds make_bounds(float4 box) {
    return {ascending_word(box.x), ascending_word(box.y), ascending_word(box.z),
            ascending_word(box.w)};
}

// Empty bounds intersect nothing.
__device__ inline bool intersect(const Bounds& a, const Bounds& b) {
    return a.min_x <= b.max_x && a.max_x >= b.min_x && a.min_y <= b.max_y && a.max_y >= b.min_y;
}

struct NmsParameters {
    Slice<const NmsSettings> settings;
    Slice<const uint32_t> groups;   // by class
    Slice<const float> thresholds;  // by class
    Slice<const uint2> pairs;       // of classes: forbidden, then unlimited
};

// Slices of one allocation; a kernel family uses some, the others are empty.
struct NmsScratch {
    Slice<float4> geometry;  // vector v of candidate i at v * capacity + i
    Slice<Kept> order;       // candidate and score by rank
    Slice<uint32_t> ticket;  // the next block's turn, NmsCounts::class_over
    // bitmask.cuh
    Slice<BitmaskRow> rows;
    Slice<uint32_t> row_entries;  // past those in `rows`, entry by entry
    Slice<uint64_t> dense;        // `DenseWord`; zero between launches
    // sort.cuh, search.cuh
    Slice<uint64_t> keys;                // 2 * capacity: by rank, then by spatial key
    Slice<uint32_t> ranks;               // by candidate
    Slice<uint64_t> spatial_positions;   // by candidate: number of summands, their sum
    Slice<uint32_t> spatial_candidates;  // candidate by spatial position
    Slice<float4> proxies;               // by rank
    Slice<uint64_t> group_of_rank;       // unless classes are ignored
    Slice<float4> spatial_proxies;       // by spatial position
    Slice<uint32_t> spatial_ranks;       // rank by spatial position; kNone: not eligible
    Slice<uint64_t> spatial_groups;      // by spatial position, unless classes are ignored
    Slice<Bounds> leaves;
    Slice<uint32_t> states;  // `State` by rank
    // soft.cu
    Slice<float> scores;  // by candidate
};

// Survivors, best first, on the device and in memory that the host reads.
struct NmsOutput {
    Slice<Kept> kept;
    Slice<NmsCounts> counts;
    Slice<Kept> host_kept;
    Slice<NmsCounts> host_counts;

    __device__ void write(uint32_t position, Kept survivor) const {
        kept[position] = survivor;
        host_kept[position] = survivor;
    }

    __device__ void write_counts(NmsCounts num) const {
        counts[0] = num;
        host_counts[0] = num;
    }
};

// The parameter of every suppression kernel. `candidates.len` is the capacity.
template <typename Candidate>
struct NmsArgs {
    Slice<const Candidate> candidates;
    Slice<const uint32_t> num_candidates;
    NmsParameters parameters;
    NmsScratch scratch;
    NmsOutput output;
};

template <typename Candidate>
__device__ uint32_t num_candidates(const NmsArgs<Candidate>& args) {
    return min(args.num_candidates[0], static_cast<uint32_t>(args.candidates.len));
}

// Candidates of different groups do not suppress each other: `ClassMode::group`.
template <typename Candidate>
__device__ uint64_t group_of(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                             uint32_t class_index) {
    if (settings.class_mode == 0) return class_index;
    if (settings.class_mode == 1) return 0;
    const auto& groups = args.parameters.groups;
    if (class_index < min(static_cast<uint64_t>(settings.num_groups), groups.len)) {
        return groups[class_index];
    }
    return 1ull << 32 | class_index;
}

// The threshold of a class, or `otherwise` for a class without one, which
// `check_class` reports.
template <typename Candidate>
__device__ float threshold_of(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                              uint32_t class_index, float otherwise) {
    const auto& thresholds = args.parameters.thresholds;
    const uint32_t position = settings.num_thresholds == 1 ? 0 : class_index;
    const bool known = position < settings.num_thresholds && position < thresholds.len;
    return known ? thresholds[position] : otherwise;
}

template <typename Policy>
__device__ bool lacks_threshold(const NmsSettings& settings, uint32_t class_index) {
    return Policy::kHasThresholds && settings.num_thresholds != 1 &&
           class_index >= settings.num_thresholds;
}

// `NmsCounts::class_over` for a class without a threshold.
__device__ inline uint32_t class_over(uint32_t class_index) {
    return min(class_index, kNone - 1) + 1;
}

template <typename Policy, typename Candidate>
__device__ void check_class(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                            const Candidate& candidate) {
    // A maximum does not depend on the order of the updates.
    if (lacks_threshold<Policy>(settings, candidate.rank.class_index)) {
        atomicMax(&args.scratch.ticket[1], class_over(candidate.rank.class_index));
    }
}

template <typename Policy, typename Candidate>
__device__ bool is_eligible(const NmsSettings& settings, const Candidate& candidate) {
    return !isnan(candidate.rank.score) && Policy::is_eligible(settings, candidate);
}

// Whether candidate `better` suppresses candidate `own`, given that the exact
// test of their proxies passes.
template <typename Policy, typename Candidate>
__device__ bool suppresses_exactly(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                                   uint32_t better, uint32_t own) {
    if constexpr (Policy::kGeometryVectors == 0) {
        return true;
    } else {
        const auto& geometry = args.scratch.geometry;
        float4 a[Policy::kGeometryVectors];
        float4 b[Policy::kGeometryVectors];
#pragma unroll
        for (uint32_t v = 0; v < Policy::kGeometryVectors; ++v) {
            a[v] = geometry[v * args.candidates.len + better];
            b[v] = geometry[v * args.candidates.len + own];
        }
        return Policy::suppresses_exactly(args, settings, a, b);
    }
}

template <typename Policy, typename Candidate>
__device__ void nms_prepare(const NmsArgs<Candidate>& args) {
    const uint32_t own = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t capacity = static_cast<uint32_t>(args.candidates.len);
    if (own >= min(args.num_candidates[0], capacity)) return;
    float4 geometry[Policy::kGeometryVectors];
    Policy::prepare(args.candidates[own], geometry);
#pragma unroll
    for (uint32_t v = 0; v < Policy::kGeometryVectors; ++v) {
        args.scratch.geometry[v * capacity + own] = geometry[v];
    }
}
