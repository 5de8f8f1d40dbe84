// The choice of pairs from frames of usual size, by bins of logits: query.cu.
//
// Boxes are in shared memory. As many threads as pairs are wanted have a pair at least as good as
// the last of their best pairs, so that no worse pair is among those wanted: a histogram of the
// threads' best logits gives a limit that leaves a few more pairs than are wanted. Those are sorted
// by bins of their logits and, in a bin, by counting.
//
// A launch runs each line once or a few times: loops that are not unrolled were faster, with less
// code to load.
#pragma once

#include "decode/query.cuh"
#include "shared/pdl.cuh"
#include "shared/warp.cuh"

namespace decode_query {

// The most classes. There are at most as many queries as threads.
constexpr uint32_t kMaxClasses = 32;
constexpr uint32_t kWarps = kThreads / kLanes;
// Threads that have pairs: a prime, so that a thread has pairs of all classes and those of a
// frequent class are in different threads.
constexpr uint32_t kTesters = 1021;

// In static shared memory.
struct Binned {
    Settings settings;
    // By class: bounds by distance bin, NaN for queries of which no class passes, the least norm.
    float classes[kMaxClasses][kMaxBins + 2];
    uint32_t bins[kThreads];  // of the queries, by distance
    float norms[kThreads];
    float centerness[kThreads];
    uint32_t counts[2][kThreads];
    uint32_t sums[2][kWarps];
    // By warp: the best and the last word of its threads' best logits, pairs that pass.
    uint32_t best[kWarps], last[kWarps], num_passed[kWarps];
    uint32_t nan_words[kThreads / 32];
    uint32_t num_left;
    uint32_t num_invalid;
    float limit;

    // Counts a query with a NaN once.
    __device__ void note_nan(uint32_t query) { atomicOr(&nan_words[query / 32], 1u << query % 32); }
};

// Pairs that may be among the best, as words of logits above class and query: in their order.
// In dynamic shared memory.
struct Staged {
    alignas(16) float boxes[kThreads * kBoxLen];
    uint64_t left[kThreads];
    uint64_t by_bin[kThreads];
};

__device__ inline bool fits_bins(const Args& args) {
    return args.num_queries <= kThreads && args.num_classes - 1 < kMaxClasses &&
           args.num_queries * args.num_classes <= 32 * kTesters &&
           args.num_keys * sizeof(uint64_t) >= sizeof(Staged);
}

// Begins the copy of 4 or 16 bytes to shared memory.
template <uint32_t kBytes>
__device__ void begin_copy(void* to, const void* from) {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(kBytes)
                 : "memory");
}

// The sum of the counts of the lanes up to this one.
__device__ inline uint32_t sum_of_lanes_to(uint32_t count) {
#pragma unroll
    for (uint32_t step = 1; step < kLanes; step *= 2) {
        const uint32_t other = __shfl_up_sync(kAllLanes, count, step);
        if (lane_of() >= step) count += other;
    }
    return count;
}
// The sum of the counts of all threads before this one. By all threads; `sums` is not in use
// otherwise.
__device__ inline uint32_t sum_before(uint32_t count, uint32_t* sums) {
    const uint32_t end = sum_of_lanes_to(count);
    if (lane_of() == kLanes - 1) sums[warp_of()] = end;
    __syncthreads();
    return __reduce_add_sync(kAllLanes, lane_of() < warp_of() ? sums[lane_of()] : 0) + end - count;
}

// Begins to copy settings, bounds and norms. No launch writes them.
__device__ inline void stage(const Args& args, Binned& binned) {
    const uint32_t thread = threadIdx.x;
    if (thread < sizeof(Settings) / 4) {
        const auto* from = reinterpret_cast<const uint32_t*>(args.settings.data);
        begin_copy<4>(reinterpret_cast<uint32_t*>(&binned.settings) + thread, from + thread);
    }
    if (thread < args.num_classes * kMaxBins)
        begin_copy<4>(&binned.classes[thread / kMaxBins][thread % kMaxBins], &args.bounds[thread]);
    if (thread < args.num_classes) {
        binned.classes[thread][kMaxBins] = NAN;
        begin_copy<4>(&binned.classes[thread][kMaxBins + 1], &args.norms[thread]);
    }
    binned.counts[0][thread] = binned.counts[1][thread] = 0;
    if (thread < kThreads / 32) binned.nan_words[thread] = 0;
    if (thread == 0) binned.num_left = binned.num_invalid = 0, binned.limit = INFINITY;
}

// Loads the results of the launch before, and finds the distance bins of the queries.
__device__ inline void load(const Args& args, Binned& binned, Staged& staged) {
    const uint32_t thread = threadIdx.x, num_values = args.num_queries * kBoxLen,
                   num_pairs = args.num_queries * args.num_classes;
    const uint32_t num_wide =
        reinterpret_cast<uint64_t>(args.boxes.data) % 16 == 0 ? num_values / 4 * 4 : 0;
#pragma unroll 1
    for (uint32_t i = thread * 4; i < num_wide; i += kThreads * 4)
        begin_copy<16>(&staged.boxes[i], &args.boxes.data[i]);
#pragma unroll 1
    for (uint32_t i = num_wide + thread; i < num_values; i += kThreads)
        begin_copy<4>(&staged.boxes[i], &args.boxes.data[i]);
    // Logits are read several times: a read of every 32 bytes brings them to the L1 cache. What it
    // copies is of no use.
#pragma unroll 1
    for (uint32_t i = thread * 8; i < num_pairs; i += kThreads * 8)
        begin_copy<4>(&staged.by_bin[thread], &args.logits.data[i]);
    const float centerness = thread < args.num_queries ? centerness_of(args, thread) : 0;
    binned.centerness[thread] = centerness;
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    if (thread < args.num_queries) {
        const float* box = staged.boxes + thread * kBoxLen;
        binned.bins[thread] = isnan(centerness) ? kMaxBins : bin_of(box, binned.settings);
        if (binned.settings.has_norms != 0) binned.norms[thread] = norm_of(box);
        if (isnan(centerness)) {
            binned.note_nan(thread);
        } else if (is_invalid(args, binned.settings, thread, box)) {
            atomicAdd(&binned.num_invalid, 1);
        }
    }
    __syncthreads();
}

// The pairs of a thread: every kTesters-th, a bit each.
struct Own {
    const float* logits;
    uint32_t num_pairs, num_classes;
    uint32_t first;
    float per_class;
    uint32_t passed = 0;
    float best = NAN;  // of those that pass

    __device__ explicit Own(const Args& args)
        : logits(args.logits.data), num_classes(args.num_classes) {
        num_pairs = args.num_queries * num_classes;
        first = threadIdx.x < kTesters ? threadIdx.x : num_pairs;
        per_class = __fdividef(1.0f, num_classes);
    }

    // Exact for pairs.
    __device__ uint32_t over_classes(uint32_t i) const {
        return static_cast<uint32_t>((i + 0.5f) * per_class);
    }

    __device__ void test(Binned& binned) {
        constexpr uint32_t kPitch = kMaxBins + 2;
        const float* bounds = binned.classes[0];
        const bool has_norms = binned.settings.has_norms != 0;
        const uint32_t step = over_classes(kTesters),
                       row_step = (kTesters - step * num_classes) * kPitch,
                       end = num_classes * kPitch;
        uint32_t query = over_classes(first), row = (first - query * num_classes) * kPitch;
        float zero = 0;  // not if a logit is NaN or infinite
#pragma unroll 1
        for (uint32_t i = first, bit = 1; i < num_pairs; i += kTesters, bit *= 2) {
            const float logit = logits[i];
            bool passes = logit >= bounds[row + binned.bins[query]];
            if (has_norms) passes = passes && binned.norms[query] >= bounds[row + kMaxBins + 1];
            if (passes) passed |= bit, best = fmaxf(best, logit);
            zero = __fmaf_rn(logit, 0.0f, zero);
            query += step, row += row_step;
            if (row >= end) row -= end, ++query;
        }
        if (zero == 0) return;
#pragma unroll 1
        for (uint32_t i = first; i < num_pairs; i += kTesters) {
            if (isnan(logits[i])) binned.note_nan(over_classes(i));
        }
    }
};

// Falls with the logit, from 0 to kThreads between the best and the last of the threads' best.
// Rounding keeps the order.
struct Depth {
    float scale, offset;

    __device__ Depth(uint32_t best, uint32_t last) {
        constexpr float kFar = 64, kNear = 1e-6f;
        const float high = fminf(fmaxf(score_of_word(best), -kFar), kFar),
                    low = fminf(fmaxf(score_of_word(last), -kFar), kFar);
        scale = __fdividef(kThreads, fmaxf(high - low, kNear)), offset = high * scale;
    }
    __device__ float of(float logit) const { return __fmaf_rn(logit, -scale, offset); }
};
__device__ inline uint32_t bin_of_depth(float depth) {
    return static_cast<uint32_t>(fminf(fmaxf(depth, 0.0f), kThreads - 1));
}

// The depth to which pairs may be among the best.
__device__ inline float limit_of(const Own& own, const Depth& depth, uint32_t max_pairs,
                                 Binned& binned) {
    if (own.passed != 0) atomicAdd(&binned.counts[0][bin_of_depth(depth.of(own.best))], 1);
    __syncthreads();
    const uint32_t count = binned.counts[0][threadIdx.x],
                   before = sum_before(count, binned.sums[0]);
    // The last bin has what is beyond.
    if (before < max_pairs && max_pairs <= before + count && threadIdx.x != kThreads - 1)
        binned.limit = threadIdx.x + 1;
    __syncthreads();
    return binned.limit;
}

// Collects the pairs up to a depth, if there are not too many. Returns their number.
__device__ inline uint32_t collect(const Own& own, const Depth& depth, float limit, Binned& binned,
                                   Staged& staged) {
    uint32_t left = 0;
#pragma unroll 1
    for (uint32_t i = own.first, bit = 1; i < own.num_pairs; i += kTesters, bit *= 2) {
        if (depth.of(own.logits[i]) <= limit) left |= bit;
    }
    left &= own.passed;
    const uint32_t num = __popc(left), end = sum_of_lanes_to(num);
    uint32_t to = lane_of() == kLanes - 1 && end != 0 ? atomicAdd(&binned.num_left, end) : 0;
    to = __shfl_sync(kAllLanes, to, kLanes - 1) + end - num;
#pragma unroll 1
    for (; left != 0 && to < kThreads; left &= left - 1, ++to) {
        const uint32_t i = own.first + (__ffs(left) - 1) * kTesters, query = own.over_classes(i),
                       class_index = i - query * own.num_classes;
        staged.left[to] = static_cast<uint64_t>(order_word(own.logits[i], true)) << 32 |
                          class_index << 16 | query;
    }
    __syncthreads();
    return binned.num_left;
}

// Sorts what is left, as far as it is wanted: by bins, then in them.
__device__ inline void sort_by_bins(uint32_t num_left, uint32_t max_pairs, const Depth& depth,
                                    float limit, Binned& binned, Staged& staged) {
    const bool is_left = threadIdx.x < num_left;
    const uint64_t own = is_left ? staged.left[threadIdx.x] : 0;
    const float logit = score_of_word(static_cast<uint32_t>(own >> 32));
    const uint32_t bin =
        bin_of_depth(depth.of(logit) * __fdividef(kThreads, fminf(limit, kThreads)));
    const uint32_t slot = is_left ? atomicAdd(&binned.counts[1][bin], 1) : 0;
    __syncthreads();
    binned.counts[0][threadIdx.x] = sum_before(binned.counts[1][threadIdx.x], binned.sums[1]);
    __syncthreads();
    uint32_t rank = binned.counts[0][bin];
    const uint64_t* others = staged.by_bin + rank;
    if (is_left) staged.by_bin[rank + slot] = own;
    __syncthreads();
    if (is_left) {
        const uint32_t num = binned.counts[1][bin];
#pragma unroll 4
        for (uint32_t i = 0; i < num; ++i) rank += others[i] < own ? 1 : 0;
        if (rank < max_pairs) staged.left[rank] = own;
    }
    __syncthreads();
}

// Whether it has chosen; otherwise nothing is written.
__device__ inline bool choose_by_bins(const Args& args, Binned& binned, Staged& staged) {
    load(args, binned, staged);
    const uint32_t max_pairs =
        min(binned.settings.max_pairs, static_cast<uint32_t>(args.pairs.len));
    if (max_pairs == 0) return false;
    Own own(args);
    own.test(binned);
    const bool has_passed = own.passed != 0;
    const uint32_t word = order_word(own.best, has_passed);
    const uint32_t best = __reduce_min_sync(kAllLanes, word),
                   last = __reduce_max_sync(kAllLanes, has_passed ? word : 0);
    const uint32_t num = __reduce_add_sync(kAllLanes, __popc(own.passed));
    if (lane_of() == 0)
        binned.best[warp_of()] = best, binned.last[warp_of()] = last,
        binned.num_passed[warp_of()] = num;
    __syncthreads();
    const uint32_t num_passed = __reduce_add_sync(kAllLanes, binned.num_passed[lane_of()]);
    const Depth depth(__reduce_min_sync(kAllLanes, binned.best[lane_of()]),
                      __reduce_max_sync(kAllLanes, binned.last[lane_of()]));
    // If so few pass, there is room for all.
    const float limit = num_passed > kThreads ? limit_of(own, depth, max_pairs, binned) : INFINITY;
    const uint32_t num_left = collect(own, depth, limit, binned, staged);
    if (num_left > kThreads) return false;
    sort_by_bins(num_left, max_pairs, depth, limit, binned, staged);
    const uint32_t num_kept = min(num_left, max_pairs);
    write_pairs(args, num_kept, staged.boxes, [&binned, &staged](uint32_t i) {
        const auto word = static_cast<uint32_t>(staged.left[i] >> 32),
                   pair = static_cast<uint32_t>(staged.left[i]);
        return Kept{word, pair & 0xffff, pair >> 16, binned.centerness[pair & 0xffff]};
    });
    if (warp_of() == kWarps - 1) {
        const uint32_t num_nan = __reduce_add_sync(kAllLanes, __popc(binned.nan_words[lane_of()]));
        if (lane_of() < 4) {
            args.counts[lane_of()] = lane_of() == 0   ? num_kept
                                     : lane_of() == 1 ? num_passed
                                     : lane_of() == 2 ? num_nan
                                                      : binned.num_invalid;
        }
    }
    return true;
}

}  // namespace decode_query
