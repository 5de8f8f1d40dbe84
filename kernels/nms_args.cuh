// What every step of a suppression knows: parameters, settings, groups.
//
// A policy names the candidate and decides about pairs. Every candidate has an
// item of 16 bytes. Whoever suppresses an item has its `bounds` meet the item's
// `window`. Of two items, `is_near` says quickly whether the better may suppress
// the other, `suppresses` whether it does, of those that are near. Where
// items do not suffice, the exact comparison reads kNumParts parts of 16 bytes,
// made once per candidate by the op's step `prepare`. Of the step `suppress` a
// multiprocessor has registers for kSuppressBlocks. `Flats` in flat.cuh and
// `Footprints` in rectangle.cuh are one of each kind.
#pragma once

#include "candidate.cuh"
#include "slice.cuh"
#include "warp.cuh"

constexpr uint32_t kNmsThreads = 256;
constexpr uint32_t kNobody = 0xffffffffu;

// The mirrors of these stand in src/device/cuda/abi/nms.rs.
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
};

struct Kept {
    uint32_t index;
    float score;
};

struct NmsCounts {
    uint32_t num_kept;
    // One more than the highest class that has no threshold; 0 when all have.
    uint32_t class_over;
};

// The bounds of 32 places as words that rise with the coordinates, so that the
// lowest and the highest can be taken in any order.
struct alignas(16) Bounds {
    uint32_t min_x, min_y, max_x, max_y;
};

// Zeros of both signs are equal.
__device__ inline uint32_t rising_word(float value) {
    const uint32_t bits = __float_as_uint(value + 0.0f);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ inline Bounds rising_words(float4 box) {
    return {rising_word(box.x), rising_word(box.y), rising_word(box.z), rising_word(box.w)};
}

// Whether two meet; bounds that hold nobody meet none.
__device__ inline bool meet(const Bounds& a, const Bounds& b) {
    return a.min_x <= b.max_x && a.max_x >= b.min_x && a.min_y <= b.max_y && a.max_y >= b.min_y;
}

// What the settling block of the step small reads of a candidate: its rank,
// above it how many entries list those that suppress it, and the first of these.
struct alignas(16) Note {
    uint32_t rank_and_num;
    uint32_t noted[3];
};

// The same for every step. Slices have as many places as `candidates`, or as
// their step needs: src/device/cuda/abi/nms.rs says how many.
template <typename Candidate>
struct NmsArgs {
    Slice<const Candidate> candidates;
    Slice<const uint32_t> num_candidates;
    Slice<const NmsSettings> settings;
    Slice<const uint32_t> groups;
    Slice<const float> thresholds;
    Slice<const uint2> forbidden;  // pairs of classes
    Slice<const float4> parts;     // part p of candidate i at p * capacity + i
    Slice<uint64_t> keys;          // 2 * capacity: by rank, then by place
    Slice<Kept> order;             // candidate and score by rank
    Slice<uint32_t> ranks;         // rank by candidate
    Slice<uint64_t> places;        // by candidate: how many parts are added, and their sum
    Slice<uint32_t> found_candidates;  // candidate by place
    Slice<float4> items;           // by rank
    Slice<uint64_t> item_groups;   // by rank, where there are classes
    Slice<float4> found_items;     // by place
    Slice<uint32_t> found_ranks;   // by place, kNobody: takes no part
    Slice<uint64_t> found_groups;  // by place, where there are classes
    Slice<Bounds> bounds;          // of 32 places
    Slice<uint32_t> states;        // by rank
    Slice<uint32_t> ticket;        // ticket, class_over
    Slice<Kept> kept;              // the survivors, best first
    Slice<NmsCounts> counts;
    Slice<Kept> published;         // the same in memory that the host reads
    Slice<NmsCounts> published_counts;
    Slice<Note> notes;             // of the step small
    Slice<uint32_t> entries;       // of the step small: how lists go on, entry by entry
    Slice<uint64_t> columns;       // of the step small, for few: `FewColumns`
};

template <typename Candidate>
__device__ uint32_t num_candidates(const NmsArgs<Candidate>& args) {
    return min(args.num_candidates[0], static_cast<uint32_t>(args.candidates.len));
}

// Candidates can meet when their groups are equal: `ClassMode::group`.
template <typename Candidate>
__device__ uint64_t group_of(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                             uint32_t class_index) {
    if (settings.class_mode == 0) return class_index;
    if (settings.class_mode == 1) return 0;
    if (class_index < min(static_cast<uint64_t>(settings.num_groups), args.groups.len)) {
        return args.groups[class_index];
    }
    return 1ull << 32 | class_index;
}

// The threshold of a class, or `otherwise`: a class without one is reported by
// `check_class` and suppresses nothing.
template <typename Candidate>
__device__ float threshold_of(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                              uint32_t class_index, float otherwise) {
    const uint32_t position = settings.num_thresholds == 1 ? 0 : class_index;
    const bool known = position < settings.num_thresholds && position < args.thresholds.len;
    return known ? args.thresholds[position] : otherwise;
}

template <typename Policy>
__device__ bool lacks_threshold(const NmsSettings& settings, uint32_t class_index) {
    return Policy::kHasThresholds && settings.num_thresholds != 1 &&
           class_index >= settings.num_thresholds;
}

// How a class that lacks a threshold is reported: `NmsCounts::class_over`.
__device__ inline uint32_t class_over(uint32_t class_index) {
    return min(class_index, kNobody - 1) + 1;
}

template <typename Policy, typename Candidate>
__device__ void check_class(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                            const Candidate& candidate) {
    // The highest, whatever the order.
    if (lacks_threshold<Policy>(settings, candidate.rank.class_index)) {
        atomicMax(&args.ticket[1], class_over(candidate.rank.class_index));
    }
}

template <typename Policy, typename Candidate>
__device__ bool takes_part(const NmsSettings& settings, const Candidate& candidate) {
    return !isnan(candidate.rank.score) && Policy::takes_part(settings, candidate);
}

// Whether candidate `better` suppresses candidate `own`, when their items say
// that it may.
template <typename Policy, typename Candidate>
__device__ bool surely_suppresses(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                                  uint32_t better, uint32_t own) {
    if constexpr (Policy::kNumParts == 0) {
        return true;
    } else {
        float4 a[Policy::kNumParts];
        float4 b[Policy::kNumParts];
#pragma unroll
        for (uint32_t p = 0; p < Policy::kNumParts; ++p) {
            a[p] = args.parts[p * args.candidates.len + better];
            b[p] = args.parts[p * args.candidates.len + own];
        }
        return Policy::surely_suppresses(args, settings, a, b);
    }
}

// The parts of every candidate.
template <typename Candidate>
struct PrepareArgs {
    Slice<const Candidate> candidates;
    Slice<const uint32_t> num_candidates;
    Slice<float4> parts;
};

template <typename Policy, typename Candidate>
__device__ void nms_prepare(const PrepareArgs<Candidate>& args) {
    const uint32_t own = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t capacity = static_cast<uint32_t>(args.candidates.len);
    if (own >= min(args.num_candidates[0], capacity)) return;
    float4 parts[Policy::kNumParts];
    Policy::prepare(args.candidates[own], parts);
#pragma unroll
    for (uint32_t p = 0; p < Policy::kNumParts; ++p) args.parts[p * capacity + own] = parts[p];
}
