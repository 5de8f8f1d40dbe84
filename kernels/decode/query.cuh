// What both ways of choosing pairs of a query and a class share: query.cu.
#pragma once

#include "shared/order.cuh"
#include "shared/slice.cuh"

namespace decode_query {

constexpr uint32_t kThreads = 1024;
constexpr uint32_t kBoxLen = 11;
constexpr uint32_t kMaxQueries = 8192;
// The most distance bins.
constexpr uint32_t kMaxBins = 16;
// The largest logarithm of an extent that is finite; in Rust: crates/ops/src/decode/query/mod.rs.
constexpr float kMaxLogExtent = 0x1.62e42ep+6f;

// In device memory. In Rust: `QuerySettings` in crates/ops/src/decode/query/kernels.rs.
struct Settings {
    float low[3], high[3];  // of the centres
    uint32_t has_range;
    uint32_t num_bins;  // 0: one without a limit
    uint32_t has_norms;
    uint32_t max_pairs;
    float limits[kMaxBins];
};

// A pair that is kept, in memory that the host reads.
struct alignas(16) Pair {
    uint32_t query;
    uint32_t class_index;
    float logit;
    float centerness;  // a logit
    float bbox[kBoxLen];
    uint32_t reserved;
};

struct Args {
    Slice<const float> boxes;    // [queries, 11]
    Slice<const float> logits;   // [queries, classes]
    Slice<const float> quality;  // [queries, 2]; empty: none
    Slice<const Settings> settings;
    Slice<const float> bounds;  // the least logits, [classes, kMaxBins]
    Slice<const float> norms;   // the least norms of (sine, cosine), by class
    Slice<Pair> pairs;          // best first
    // Pairs that are kept, that passed; queries with a NaN, with an invalid box.
    Slice<uint32_t> counts;
    uint32_t num_queries;
    uint32_t num_classes;
    uint32_t num_keys;  // that shared memory holds, a power of two
    uint32_t reserved;
};

// Whether all numbers are finite, extents included.
__device__ inline bool is_valid(const float* box) {
    bool is_valid = true;
#pragma unroll
    for (uint32_t i = 0; i < kBoxLen; ++i) is_valid = is_valid & isfinite(box[i]);
#pragma unroll
    for (uint32_t i = 3; i < 6; ++i) is_valid = is_valid & (box[i] <= kMaxLogExtent);
    return is_valid;
}

// The distance bin of a finite centre; `kMaxBins` if no class passes.
__device__ inline uint32_t bin_of_center(const float* box, const Settings& settings) {
    const float x = box[0], y = box[1], z = box[2];
    bool passes = true;
    if (settings.has_range != 0) {
        passes = passes & (x >= settings.low[0]) & (x < settings.high[0]) & (y >= settings.low[1]) &
                 (y < settings.high[1]) & (z >= settings.low[2]) & (z < settings.high[2]);
    }
    uint32_t bin = 0;
    if (settings.num_bins != 0) {
        const float distance = sqrtf(x * x + y * y);
        while (bin < settings.num_bins && !(distance < settings.limits[bin])) ++bin;
        passes = passes && bin != settings.num_bins;
    }
    return passes ? bin : kMaxBins;
}

// The distance bin of a query; `kMaxBins` if no class passes.
__device__ inline uint32_t bin_of(const float* box, const Settings& settings) {
    return is_valid(box) ? bin_of_center(box, settings) : kMaxBins;
}

__device__ inline float norm_of(const float* box) {
    const float sine = box[6], cosine = box[7];
    return sqrtf(sine * sine + cosine * cosine);
}

__device__ inline bool passes(const Args& args, const Settings& settings, uint32_t query,
                              uint32_t class_index, float logit) {
    const float* box = args.boxes.data + static_cast<uint64_t>(query) * kBoxLen;
    const uint32_t bin = bin_of(box, settings);
    return bin != kMaxBins && logit >= args.bounds[class_index * kMaxBins + bin] &&
           (settings.has_norms == 0 || norm_of(box) >= args.norms[class_index]);
}

// Whether the box of a query is invalid and a class of it passes: with a centre that is not finite
// the lowest bound of a class applies, and a norm that is NaN passes. Read by one thread, since it
// is rare.
__device__ inline bool is_invalid(const Args& args, const Settings& settings, uint32_t query,
                                  const float* box) {
    if (is_valid(box)) return false;
    const bool has_center = isfinite(box[0]) && isfinite(box[1]) && isfinite(box[2]);
    const uint32_t bin = has_center ? bin_of_center(box, settings) : 0;
    if (bin == kMaxBins) return false;
    const uint32_t end = has_center ? bin + 1 : max(settings.num_bins, 1u);
    const float norm = norm_of(box);
#pragma unroll 1
    for (uint32_t c = 0; c < args.num_classes; ++c) {
        float bound = NAN;
#pragma unroll 1
        for (uint32_t i = bin; i < end; ++i) bound = fminf(bound, args.bounds[c * kMaxBins + i]);
        const bool has_norm = settings.has_norms == 0 || isnan(norm) || norm >= args.norms[c];
        if (has_norm && args.logits[static_cast<uint64_t>(query) * args.num_classes + c] >= bound)
            return true;
    }
    return false;
}

__device__ inline float centerness_of(const Args& args, uint32_t query) {
    return args.quality.len == 0 ? 0.0f : args.quality[2 * static_cast<uint64_t>(query)];
}

struct Kept {
    uint32_t word, query, class_index;
    float centerness;
};

// Writes the pairs. Neighbouring threads write neighbouring parts of 16 bytes, so that whole lines
// go to the host.
template <typename At>
__device__ void write_pairs(const Args& args, uint32_t num_kept, const float* boxes, At kept_at) {
    constexpr uint32_t kParts = sizeof(Pair) / sizeof(uint4);
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < num_kept * kParts; i += kThreads) {
        const uint32_t part = i % kParts;
        const Kept kept = kept_at(i / kParts);
        // The first part reads values of the box too, and does not use them: there is no branch.
        const float* values = boxes + kept.query * kBoxLen + 4 * max(part, 1u) - 4;
        const float x = values[0], y = values[1], z = values[2],
                    w = values[part == kParts - 1 ? 2 : 3];
        const bool is_first = part == 0;
        uint4 words;
        words.x = is_first ? kept.query : __float_as_uint(x);
        words.y = is_first ? kept.class_index : __float_as_uint(y);
        words.z = __float_as_uint(is_first ? score_of_word(kept.word) : z);
        words.w = __float_as_uint(is_first ? kept.centerness : part == kParts - 1 ? 0.0f : w);
        reinterpret_cast<uint4*>(args.pairs.data)[i] = words;
    }
}

}  // namespace decode_query
