// Chooses the best pairs of a query and a class: src/ops/decode_query/mod.rs.
//
// One block. Pairs that pass become keys: the logit's word, then class and query. Keys are
// collected in shared memory; when it is full they are sorted, and of the further pairs only
// those that rank above the last one kept are collected. Keys are unique, so that the order in
// which they are collected does not matter.

#include "counters.cuh"
#include "order.cuh"
#include "slice.cuh"

namespace decode_query {

constexpr uint32_t kThreads = 1024;
// Pairs that a thread looks at between two checks whether the keys still fit.
constexpr uint32_t kAtOnce = 4;
constexpr uint32_t kBoxLen = 11;
constexpr uint32_t kMaxQueries = 8192;
// The most distance bins.
constexpr uint32_t kMaxBins = 16;

// In device memory. In Rust: `QuerySettings` in src/ops/decode_query/kernels.rs.
struct Settings {
    float low[3], high[3];  // of the centres
    uint32_t has_range;
    uint32_t num_bins;      // 0: one without a limit
    uint32_t has_norms;
    uint32_t max_pairs;
    float limits[kMaxBins];
};
static_assert(sizeof(Settings) == 104);

// A pair that is kept, in memory that the host reads.
struct Pair {
    uint32_t query;
    uint32_t class_index;
    float logit;
    float centerness;  // a logit
    float box[kBoxLen];
    uint32_t reserved;
};
static_assert(sizeof(Pair) == 64);

struct Args {
    Slice<const float> boxes;    // [queries, 11]
    Slice<const float> logits;   // [queries, classes]
    Slice<const float> quality;  // [queries, 2]; empty: none
    Slice<const Settings> settings;
    Slice<const float> bounds;   // the least logits, [classes, kMaxBins]
    Slice<const float> norms;    // the least norms of (sine, cosine), by class
    Slice<Pair> pairs;           // best first
    Slice<uint32_t> counts;      // pairs that are kept, that passed; queries with a NaN
    uint32_t num_queries;
    uint32_t num_classes;
    uint32_t num_keys;           // that shared memory holds, a power of two
    uint32_t reserved;
};
static_assert(sizeof(Args) == 144);

__device__ inline bool passes(const Args& args, const Settings& settings, uint32_t query, uint32_t class_index, float logit) {
    const float* box = args.boxes.data + static_cast<uint64_t>(query) * kBoxLen;
    const float x = box[0], y = box[1], z = box[2], sine = box[6], cosine = box[7];
    uint32_t bin = 0;
    if (settings.num_bins != 0) {
        const float distance = sqrtf(x * x + y * y);
        while (bin < settings.num_bins && !(distance < settings.limits[bin])) ++bin;
        if (bin == settings.num_bins) return false;
    }
    bool all = logit >= args.bounds[class_index * kMaxBins + bin];
    if (settings.has_range != 0) {
        all = all && x >= settings.low[0] && x < settings.high[0] && y >= settings.low[1] && y < settings.high[1] &&
              z >= settings.low[2] && z < settings.high[2];
    }
    if (settings.has_norms != 0) all = all && sqrtf(sine * sine + cosine * cosine) >= args.norms[class_index];
    for (uint32_t i = 0; i < kBoxLen; ++i) all = all && isfinite(box[i]);
    return all;
}

// Sorts `num` keys, ascending; the memory holds the next power of two.
__device__ inline void sort(uint64_t* keys, uint32_t num) {
    uint32_t len = 1;
    while (len < num) len *= 2;
    for (uint32_t i = num + threadIdx.x; i < len; i += kThreads) keys[i] = ~0ull;
    __syncthreads();
    for (uint32_t size = 2; size <= len; size *= 2) {
        for (uint32_t distance = size / 2; distance != 0; distance /= 2) {
            for (uint32_t i = threadIdx.x; i < len / 2; i += kThreads) {
                const uint32_t a = i / distance * 2 * distance + i % distance, b = a + distance;
                const bool ascends = (a & size) == 0;
                const uint64_t low = keys[a], high = keys[b];
                if ((low > high) == ascends) keys[a] = high, keys[b] = low;
            }
            __syncthreads();
        }
    }
}

__device__ inline void choose(const Args& args, uint64_t* keys) {
    __shared__ uint32_t num_collected, num_passed, num_nan;
    // A bit per query: whether a logit of it is NaN.
    __shared__ uint32_t nan_words[kMaxQueries / 32];
    const Settings& settings = args.settings[0];
    const uint32_t max_pairs = min(settings.max_pairs, static_cast<uint32_t>(args.pairs.len));
    const uint32_t num_pairs = args.num_queries * args.num_classes;
    if (threadIdx.x == 0) num_collected = num_passed = num_nan = 0;
    const auto centerness = [&args](uint32_t query) { return args.quality.len == 0 ? 0.0f : args.quality[2 * static_cast<uint64_t>(query)]; };
    const auto note_nan = [](uint32_t query) { atomicOr(&nan_words[query / 32], 1u << query % 32); };
    for (uint32_t i = threadIdx.x; i < kMaxQueries / 32; i += kThreads) nan_words[i] = 0;
    __syncthreads();
    for (uint32_t query = threadIdx.x; query < args.num_queries; query += kThreads) {
        if (isnan(centerness(query))) note_nan(query);
    }
    uint64_t bound = ~0ull;
    for (uint32_t start = 0; start < num_pairs; start += kAtOnce * kThreads) {
        float logits[kAtOnce];
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            const uint32_t i = start + k * kThreads + threadIdx.x;
            logits[k] = i < num_pairs ? args.logits[i] : -INFINITY;
        }
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            const uint32_t i = start + k * kThreads + threadIdx.x;
            if (i >= num_pairs) continue;
            const uint32_t query = i / args.num_classes, class_index = i % args.num_classes;
            if (isnan(logits[k])) {
                note_nan(query);
                continue;
            }
            if (!passes(args, settings, query, class_index, logits[k]) || isnan(centerness(query))) continue;
            atomicAdd(&num_passed, 1);
            const uint64_t key = static_cast<uint64_t>(order_word(logits[k], true)) << 32 | (class_index * args.num_queries + query);
            if (key < bound) keys[atomicAdd(&num_collected, 1)] = key;
        }
        __syncthreads();
        const uint32_t num = num_collected;
        __syncthreads();
        const bool is_last = start + kAtOnce * kThreads >= num_pairs;
        if (!is_last && num + kAtOnce * kThreads <= args.num_keys) continue;
        sort(keys, num);
        if (num >= max_pairs && max_pairs != 0) bound = keys[max_pairs - 1];
        if (threadIdx.x == 0) num_collected = min(num, max_pairs);
        __syncthreads();
    }
    const uint32_t num_kept = num_collected;
    for (uint32_t i = threadIdx.x; i < num_kept; i += kThreads) {
        const auto word = static_cast<uint32_t>(keys[i] >> 32), place = static_cast<uint32_t>(keys[i]);
        Pair pair = {};
        pair.query = place % args.num_queries;
        pair.class_index = place / args.num_queries;
        pair.logit = score_of_word(word);
        pair.centerness = centerness(pair.query);
        for (uint32_t k = 0; k < kBoxLen; ++k) pair.box[k] = args.boxes[static_cast<uint64_t>(pair.query) * kBoxLen + k];
        args.pairs[i] = pair;
    }
    for (uint32_t i = threadIdx.x; i < kMaxQueries / 32; i += kThreads) {
        if (nan_words[i] != 0) atomicAdd(&num_nan, __popc(nan_words[i]));
    }
    __syncthreads();
    if (threadIdx.x == 0) args.counts[0] = num_kept, args.counts[1] = num_passed, args.counts[2] = num_nan;
}

}  // namespace decode_query

extern "C" __global__ void __launch_bounds__(decode_query::kThreads, 1)
    decode_query_pairs(const __grid_constant__ decode_query::Args args) {
    extern __shared__ uint64_t query_keys[];
    decode_query::choose(args, query_keys);
}
