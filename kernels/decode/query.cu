// Chooses the best pairs of a query and a class: crates/ops/src/decode/query/mod.rs.
//
// One block. Frames of usual size are chosen from by bins of logits, see query_bins.cuh. In
// larger ones, and in those with too many pairs that may be among the best (thousands of equal
// logits), pairs that pass become keys: the logit's word, then class and query. Keys are collected
// in shared memory; when it is full the best are selected, and of the further pairs only those that
// rank above the last one kept are collected. The best are sorted. Keys are unique, so that the
// order in which they are collected does not matter.

#include "decode/query_bins.cuh"

namespace decode_query {

// Pairs that a thread looks at between two checks whether the keys still fit.
constexpr uint32_t kAtOnce = 4;

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

// Leaves the `wanted` smallest of more keys, in any order: a radix search for the last of them,
// digit by digit from the top.
__device__ inline void select(uint64_t* keys, uint32_t num, uint32_t wanted) {
    constexpr uint32_t kDigits = 256;
    constexpr uint32_t kEach = 16;  // keys of a thread, at most
    __shared__ uint32_t counts[kDigits], digit, num_before, num_here, num_kept;
    uint64_t bound = 0;
    uint32_t remaining = wanted;
    for (uint32_t shift = 64; shift != 0;) {
        shift -= 8;
        if (threadIdx.x < kDigits) counts[threadIdx.x] = 0;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < num; i += kThreads) {
            const uint64_t key = keys[i];
            const bool is_same = shift == 56 || key >> (shift + 8) == bound >> (shift + 8);
            if (is_same) atomicAdd(&counts[key >> shift & 0xff], 1);
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            uint32_t own[kDigits / 32], sum = 0;
#pragma unroll
            for (uint32_t i = 0; i < kDigits / 32; ++i)
                own[i] = counts[threadIdx.x * (kDigits / 32) + i], sum += own[i];
            uint32_t end = sum;
#pragma unroll
            for (uint32_t step = 1; step < 32; step *= 2) {
                const uint32_t other = __shfl_up_sync(0xffffffffu, end, step);
                if (threadIdx.x >= step) end += other;
            }
            uint32_t before = end - sum;
            if (before < remaining && remaining <= end) {
#pragma unroll
                for (uint32_t i = 0; i < kDigits / 32; ++i) {
                    if (before < remaining && remaining <= before + own[i]) {
                        digit = threadIdx.x * (kDigits / 32) + i, num_before = before,
                        num_here = own[i];
                    }
                    before += own[i];
                }
            }
        }
        __syncthreads();
        bound |= static_cast<uint64_t>(digit) << shift;
        remaining -= num_before;
        // All keys with these digits are wanted: the others are as large as can be.
        if (remaining == num_here) {
            bound |= (1ull << shift) - 1;
            break;
        }
    }
    uint64_t own[kEach];
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t i = k * kThreads + threadIdx.x;
        own[k] = i < num ? keys[i] : ~0ull;
    }
    if (threadIdx.x == 0) num_kept = 0;
    __syncthreads();
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        if (own[k] <= bound) keys[atomicAdd(&num_kept, 1)] = own[k];
    }
    __syncthreads();
}

__device__ inline void choose(const Args& args, uint64_t* keys) {
    __shared__ uint32_t num_collected, num_passed, num_nan, num_invalid;
    // A bit per query: whether a logit of it is NaN.
    __shared__ uint32_t nan_words[kMaxQueries / 32];
    const Settings& settings = args.settings[0];
    const uint32_t max_pairs = min(settings.max_pairs, static_cast<uint32_t>(args.pairs.len));
    const uint32_t num_pairs = args.num_queries * args.num_classes;
    if (threadIdx.x == 0) num_collected = num_passed = num_nan = num_invalid = 0;
    const auto note_nan = [](uint32_t query) {
        atomicOr(&nan_words[query / 32], 1u << query % 32);
    };
    for (uint32_t i = threadIdx.x; i < kMaxQueries / 32; i += kThreads) nan_words[i] = 0;
    __syncthreads();
    for (uint32_t query = threadIdx.x; query < args.num_queries; query += kThreads) {
        if (isnan(centerness_of(args, query))) {
            note_nan(query);
        } else if (is_invalid(args, settings, query,
                              args.boxes.data + static_cast<uint64_t>(query) * kBoxLen)) {
            atomicAdd(&num_invalid, 1);
        }
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
            if (!passes(args, settings, query, class_index, logits[k]) ||
                isnan(centerness_of(args, query)))
                continue;
            atomicAdd(&num_passed, 1);
            const uint64_t key = static_cast<uint64_t>(order_word(logits[k], true)) << 32 |
                                 (class_index * args.num_queries + query);
            if (key < bound) keys[atomicAdd(&num_collected, 1)] = key;
        }
        __syncthreads();
        const uint32_t num = num_collected;
        __syncthreads();
        const bool is_last = start + kAtOnce * kThreads >= num_pairs;
        if (!is_last && num + kAtOnce * kThreads <= args.num_keys) continue;
        if (num > max_pairs && max_pairs != 0) select(keys, num, max_pairs);
        const uint32_t num_left = min(num, max_pairs);
        if (is_last || num_left == max_pairs) sort(keys, num_left);
        if (num_left == max_pairs && max_pairs != 0) bound = keys[max_pairs - 1];
        if (threadIdx.x == 0) num_collected = num_left;
        __syncthreads();
    }
    const uint32_t num_kept = num_collected;
    write_pairs(args, num_kept, args.boxes.data, [&args, keys](uint32_t i) {
        const auto word = static_cast<uint32_t>(keys[i] >> 32),
                   place = static_cast<uint32_t>(keys[i]);
        const uint32_t query = place % args.num_queries;
        return Kept{word, query, place / args.num_queries, centerness_of(args, query)};
    });
    for (uint32_t i = threadIdx.x; i < kMaxQueries / 32; i += kThreads) {
        if (nan_words[i] != 0) atomicAdd(&num_nan, __popc(nan_words[i]));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        args.counts[0] = num_kept, args.counts[1] = num_passed, args.counts[2] = num_nan,
        args.counts[3] = num_invalid;
    }
}

}  // namespace decode_query

extern "C" __global__ void __launch_bounds__(decode_query::kThreads, 1)
    decode_query_pairs(const __grid_constant__ decode_query::Args args) {
    using namespace decode_query;
    extern __shared__ uint4 query_memory[];
    __shared__ Binned binned;
    const bool has_bins = fits_bins(args);
    pdl::trigger();
    if (has_bins) stage(args, binned);
    pdl::wait();
    if (has_bins && choose_by_bins(args, binned, *reinterpret_cast<Staged*>(query_memory))) return;
    choose(args, reinterpret_cast<uint64_t*>(query_memory));
}
