// More than kBitmaskCapacity candidates: kernels that sort them by rank and by
// spatial key.
//
//   sort    sorts tiles of kTile candidates in both orders, by counting
//   merge   adds up each candidate's positions in all tiles
//   leaves  writes the proxies in both orders and the bounds of the leaves
#pragma once

#include "nms/args.cuh"

constexpr uint32_t kTile = 512;
// Candidates that a block sorts against their tile.
constexpr uint32_t kSortedPerBlock = 64;
// Tiles that a block of `merge` searches.
constexpr uint32_t kTilesAtOnce = 2;
// A warp per block: scattered writes are limited per multiprocessor.
constexpr uint32_t kLeavesThreads = 32;

enum State : uint32_t { kUndecided, kKept, kSuppressed };

constexpr Bounds kEmptyBounds = {0xffffffffu, 0xffffffffu, 0, 0};

// Adds the number of words below a word and of words up to it.
__device__ inline void count(uint4 words, uint32_t word, uint32_t& below, uint32_t& at_most) {
    below += (words.x < word) + (words.y < word) + (words.z < word) + (words.w < word);
    at_most += (words.x <= word) + (words.y <= word) + (words.z <= word) + (words.w <= word);
}

// A candidate's word in the order by rank or by spatial key.
template <typename Policy, typename Candidate>
__device__ uint32_t word_of(const NmsSettings& settings, const Candidate& candidate, bool by_rank) {
    if (!is_eligible<Policy>(settings, candidate)) return kLast;
    return by_rank ? order_word(candidate.rank.score, true) : Policy::spatial_key(candidate);
}

// Sorts candidates by counting over their tile, four threads per candidate, each a
// quarter of the tile. Row 0 of the grid sorts by rank, row 1 by spatial key.
template <typename Policy, typename Candidate>
__device__ void nms_sort(const NmsArgs<Candidate>& args) {
    constexpr uint32_t kQuarter = kTile / (kNmsThreads / kSortedPerBlock);
    __shared__ __align__(16) uint32_t words[kTile];
    __shared__ uint32_t num_above[kSortedPerBlock];
    constexpr uint32_t kEach = kTile / kNmsThreads;
    const uint32_t begin = blockIdx.x * kSortedPerBlock;
    const uint32_t start = begin / kTile * kTile;
    // Loaded before the number of candidates is known.
    Candidate candidates[kEach];
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t i = start + k * kNmsThreads + threadIdx.x;
        if (i < args.candidates.len) candidates[k] = args.candidates[i];
    }
    const NmsSettings settings = args.parameters.settings[0];
    const uint32_t n = num_candidates(args);
    const bool by_rank = blockIdx.y == 0;
    if (begin >= n) return;
    const uint32_t own = begin - start + threadIdx.x % kSortedPerBlock;
    const uint32_t num = min(kTile, n - start);
    if (threadIdx.x < kSortedPerBlock) num_above[threadIdx.x] = 0;
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t i = k * kNmsThreads + threadIdx.x;
        words[i] = i < num ? word_of<Policy>(settings, candidates[k], by_rank) : kLast;
    }
    __syncthreads();
    const uint32_t word = words[own];
    const uint32_t first = threadIdx.x / kSortedPerBlock * kQuarter;
    const bool is_own_here = own - first < kQuarter;
    const uint64_t key = static_cast<uint64_t>(word) << 32 | (start + own);
    // Equal spatial keys keep the order of the input.
    const uint32_t num_earlier = by_rank ? 0 : own;
    uint32_t num_equal = 0;
    uint32_t num_here = 0;
#pragma unroll 8
    for (uint32_t i = first; i < first + kQuarter; i += 4) {
        uint32_t below = 0;
        uint32_t at_most = 0;
        count(*reinterpret_cast<const uint4*>(&words[i]), word, below, at_most);
        num_here += i + 4 <= num_earlier ? at_most : below;
        num_equal += at_most - below;
    }
    if (!by_rank && is_own_here) {
        for (uint32_t i = own / 4 * 4; i < own; ++i) num_here += words[i] == word;
    }
    if (by_rank && num_equal > is_own_here) {
        for (uint32_t i = first; i < min(first + kQuarter, num); ++i) {
            if (words[i] != word) continue;
            const uint64_t other = static_cast<uint64_t>(word) << 32 | (start + i);
            num_here += precedes(other, key, args.candidates.data);
        }
    }
    if (num_here != 0) atomicAdd(&num_above[threadIdx.x % kSortedPerBlock], num_here);
    __syncthreads();
    if (threadIdx.x >= kSortedPerBlock || own >= num) return;
    const uint32_t before = num_above[threadIdx.x];
    args.scratch.keys[(by_rank ? 0 : args.candidates.len) + start + before] = key;
    if (by_rank) {
        args.scratch.ranks[start + own] = before;
        args.scratch.states[start + own] = kUndecided;
    } else {
        args.scratch.spatial_positions[start + own] = before;
    }
    if (by_rank && word != kLast) check_class<Policy>(args, settings, args.candidates[start + own]);
}

// Blocks of `merge` per kNmsThreads candidates.
template <typename Candidate>
__device__ uint32_t num_tile_groups(const NmsArgs<Candidate>& args) {
    const uint32_t num_tiles = (static_cast<uint32_t>(args.candidates.len) + kTile - 1) / kTile;
    return (num_tiles + kTilesAtOnce - 1) / kTilesAtOnce;
}

// The number of a tile's words, which ascend, below a word.
__device__ inline uint32_t num_below(const uint32_t (&words)[kTile], uint32_t word) {
    uint32_t num = 0;
#pragma unroll
    for (uint32_t half = kTile / 2; half != 0; half /= 2) {
        num += words[num + half - 1] < word ? half : 0;
    }
    return num + (words[num] < word);
}

// A candidate's position is the sum of its positions in all tiles. A block adds the
// positions of kNmsThreads candidates in kTilesAtOnce tiles, held in shared memory.
template <typename Policy, typename Candidate>
__device__ void nms_merge(const NmsArgs<Candidate>& args) {
    __shared__ uint32_t words[kTilesAtOnce][kTile];
    const bool by_rank = blockIdx.y == 0;
    const uint32_t capacity = static_cast<uint32_t>(args.candidates.len);
    const uint64_t* keys = args.scratch.keys.data + (by_rank ? 0 : capacity);
    const uint32_t start = blockIdx.x % num_tile_groups(args) * kTilesAtOnce;
    const uint32_t own = blockIdx.x / num_tile_groups(args) * kNmsThreads + threadIdx.x;
    // Loaded before the number of candidates is known.
    const uint64_t key = own < capacity ? keys[own] : 0;
    const uint32_t n = num_candidates(args);
    if (own - threadIdx.x >= n || start * kTile >= n) return;
#pragma unroll
    for (uint32_t k = 0; k < kTilesAtOnce * kTile / kNmsThreads; ++k) {
        const uint32_t i = k * kNmsThreads + threadIdx.x;
        const uint32_t from = start * kTile + i;
        words[i / kTile][i % kTile] = from < n ? static_cast<uint32_t>(keys[from] >> 32) : kLast;
    }
    __syncthreads();
    if (own >= n) return;
    const uint32_t word = static_cast<uint32_t>(key >> 32);
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t t = 0; t < kTilesAtOnce; ++t) {
        const uint32_t begin = (start + t) * kTile;
        if (begin >= n || start + t == own / kTile) continue;
        uint32_t before = num_below(words[t], word);
        if (before < kTile && words[t][before] == word) {
            // Equal spatial keys, and candidates that are not eligible, are ordered
            // by tile; equal scores by class and source.
            uint32_t end = word == kLast ? min(kTile, n - begin) : num_below(words[t], word + 1);
            const bool is_by_tile = !by_rank || word == kLast;
            if (is_by_tile) before = begin < own ? end : before;
            while (!is_by_tile && before < end) {
                const uint32_t middle = (before + end) / 2;
                const bool is_above = precedes(keys[begin + middle], key, args.candidates.data);
                before = is_above ? middle + 1 : before;
                end = is_above ? end : middle;
            }
        }
        sum += before;
    }
    // A sum of integers does not depend on the order of the updates.
    const uint32_t candidate = static_cast<uint32_t>(key);
    if (by_rank) {
        if (sum != 0) atomicAdd(&args.scratch.ranks[candidate], sum);
        return;
    }
    // The last update completes the sum.
    constexpr uint64_t kAdded = 1ull << 32;
    const uint32_t num_groups = (n + kTilesAtOnce * kTile - 1) / (kTilesAtOnce * kTile);
    auto* sums = reinterpret_cast<unsigned long long*>(args.scratch.spatial_positions.data);
    const uint64_t total = atomicAdd(&sums[candidate], kAdded + sum) + kAdded + sum;
    const uint32_t found = static_cast<uint32_t>(total);
    if (total / kAdded == num_groups && found < n) {
        args.scratch.spatial_candidates[found] = candidate;
    }
}

// A warp per leaf.
template <typename Policy, typename Candidate>
__device__ void nms_leaves(const NmsArgs<Candidate>& args) {
    const uint32_t position = blockIdx.x * kLeavesThreads + threadIdx.x;
    if (position - threadIdx.x >= args.candidates.len) return;
    const uint32_t last = static_cast<uint32_t>(args.candidates.len) - 1;
    // Loaded before the number of candidates is known.
    const uint32_t own = min(args.scratch.spatial_candidates[min(position, last)], last);
    const uint32_t rank = args.scratch.ranks[own];
    const Candidate candidate = args.candidates[own];
    const NmsSettings settings = args.parameters.settings[0];
    const uint32_t n = num_candidates(args);
    const bool is_there = position < n && rank < n;
    const bool is_present = is_there && is_eligible<Policy>(settings, candidate);
    const float4 proxy = Policy::proxy(args, settings, candidate);
    if (is_there) {
        args.scratch.order[rank] = {own, candidate.rank.score};
        args.scratch.proxies[rank] = proxy;
        args.scratch.spatial_proxies[position] = proxy;
        args.scratch.spatial_ranks[position] = is_present ? rank : kNone;
        if (!is_present) args.scratch.states[rank] = kSuppressed;
    }
    // If classes are ignored there is one group.
    if (is_there && settings.class_mode != 1) {
        const uint64_t group = group_of(args, settings, candidate.rank.class_index);
        args.scratch.group_of_rank[rank] = group;
        args.scratch.spatial_groups[position] = group;
    }
    Bounds bounds = is_present ? make_bounds(Policy::bounds(proxy)) : kEmptyBounds;
    bounds.min_x = __reduce_min_sync(kAllLanes, bounds.min_x);
    bounds.min_y = __reduce_min_sync(kAllLanes, bounds.min_y);
    bounds.max_x = __reduce_max_sync(kAllLanes, bounds.max_x);
    bounds.max_y = __reduce_max_sync(kAllLanes, bounds.max_y);
    if (lane_of() == 0 && position < n) args.scratch.leaves[position / kLanes] = bounds;
}
