// The steps that bring many candidates into two orders: by rank and by place.
//
//   tiles     orders tiles of kTile by rank and, apart, by place
//   merge     merges the tiles into both orders
//   arrange   lays the items out, by place with the bounds of every 32
#pragma once

#include "nms_args.cuh"

constexpr uint32_t kTile = 512;
// Candidates of a tile that a block orders.
constexpr uint32_t kPart = 64;
// Tiles that a block of the step `merge` searches.
constexpr uint32_t kAtOnce = 2;
// Threads of a block of the step `arrange`: few, since what is written far apart
// is limited by each multiprocessor.
constexpr uint32_t kArrangeThreads = kLanes;

enum State : uint32_t { kUndecided, kKept, kGone };

// Bounds that hold nobody.
constexpr Bounds kNowhere = {0xffffffffu, 0xffffffffu, 0, 0};

// Adds how many of four words are below a word, and how many at most it.
__device__ inline void count(uint4 words, uint32_t word, uint32_t& below, uint32_t& at_most) {
    below += (words.x < word) + (words.y < word) + (words.z < word) + (words.w < word);
    at_most += (words.x <= word) + (words.y <= word) + (words.z <= word) + (words.w <= word);
}

// A candidate's word in the order by rank or by place.
template <typename Policy, typename Candidate>
__device__ uint32_t word_of(const NmsSettings& settings, const Candidate& candidate, bool by_rank) {
    if (!takes_part<Policy>(settings, candidate)) return kLast;
    return by_rank ? order_word(candidate.rank.score, true) : Policy::place(candidate);
}

// Orders a part of a tile by counting over the whole tile, each quarter of
// which is another thread's; row 0 of the grid by rank, row 1 by place.
template <typename Policy, typename Candidate>
__device__ void nms_tiles(const NmsArgs<Candidate>& args) {
    constexpr uint32_t kParts = kNmsThreads / kPart;
    constexpr uint32_t kQuarter = kTile / kParts;
    __shared__ __align__(16) uint32_t words[kTile];
    __shared__ uint32_t num_before[kPart];
    constexpr uint32_t kEach = kTile / kNmsThreads;
    const uint32_t begin = blockIdx.x * kPart;
    const uint32_t start = begin / kTile * kTile;
    // Read without waiting for the number of candidates.
    Candidate candidates[kEach];
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t i = start + k * kNmsThreads + threadIdx.x;
        if (i < args.candidates.len) candidates[k] = args.candidates[i];
    }
    const NmsSettings settings = args.settings[0];
    const uint32_t n = num_candidates(args);
    const bool by_rank = blockIdx.y == 0;
    if (begin >= n) return;
    const uint32_t own = begin - start + threadIdx.x % kPart;
    const uint32_t num = min(kTile, n - start);
    if (threadIdx.x < kPart) num_before[threadIdx.x] = 0;
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t i = k * kNmsThreads + threadIdx.x;
        words[i] = i < num ? word_of<Policy>(settings, candidates[k], by_rank) : kLast;
    }
    __syncthreads();
    const uint32_t word = words[own];
    const uint32_t first = threadIdx.x / kPart * kQuarter;
    const bool is_own_here = own - first < kQuarter;
    const uint64_t key = static_cast<uint64_t>(word) << 32 | (start + own);
    // Those in equal places follow each other as they came.
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
    if (num_here != 0) atomicAdd(&num_before[threadIdx.x % kPart], num_here);
    __syncthreads();
    if (threadIdx.x >= kPart || own >= num) return;
    const uint32_t before = num_before[threadIdx.x];
    args.keys[(by_rank ? 0 : args.candidates.len) + start + before] = key;
    if (by_rank) {
        args.ranks[start + own] = before;
        // Nothing is decided yet.
        args.states[start + own] = kUndecided;
    } else {
        args.places[start + own] = before;
    }
    if (by_rank && word != kLast) check_class<Policy>(args, settings, args.candidates[start + own]);
}

// Blocks of the step `merge` for the same candidates.
template <typename Candidate>
__device__ uint32_t parts(const NmsArgs<Candidate>& args) {
    const uint32_t num_tiles = (static_cast<uint32_t>(args.candidates.len) + kTile - 1) / kTile;
    return (num_tiles + kAtOnce - 1) / kAtOnce;
}

// How many of a tile's words are below a word; they rise.
__device__ inline uint32_t num_below(const uint32_t (&words)[kTile], uint32_t word) {
    uint32_t num = 0;
#pragma unroll
    for (uint32_t half = kTile / 2; half != 0; half /= 2) {
        num += words[num + half - 1] < word ? half : 0;
    }
    return num + (words[num] < word);
}

// A candidate's position is the sum of its positions in all tiles. Each block
// adds those of its candidates in kAtOnce tiles, of which it holds the words.
template <typename Policy, typename Candidate>
__device__ void nms_merge(const NmsArgs<Candidate>& args) {
    __shared__ uint32_t words[kAtOnce][kTile];
    const bool by_rank = blockIdx.y == 0;
    const uint32_t capacity = static_cast<uint32_t>(args.candidates.len);
    const uint64_t* keys = args.keys.data + (by_rank ? 0 : capacity);
    const uint32_t start = blockIdx.x % parts(args) * kAtOnce;
    const uint32_t own = blockIdx.x / parts(args) * kNmsThreads + threadIdx.x;
    // Read without waiting for the number of candidates.
    const uint64_t key = own < capacity ? keys[own] : 0;
    const uint32_t n = num_candidates(args);
    if (own - threadIdx.x >= n || start * kTile >= n) return;
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce * kTile / kNmsThreads; ++k) {
        const uint32_t i = k * kNmsThreads + threadIdx.x;
        const uint32_t from = start * kTile + i;
        words[i / kTile][i % kTile] = from < n ? static_cast<uint32_t>(keys[from] >> 32) : kLast;
    }
    __syncthreads();
    if (own >= n) return;
    const uint32_t word = static_cast<uint32_t>(key >> 32);
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t t = 0; t < kAtOnce; ++t) {
        const uint32_t begin = (start + t) * kTile;
        if (begin >= n || start + t == own / kTile) continue;
        uint32_t before = num_below(words[t], word);
        if (before < kTile && words[t][before] == word) {
            // Those in equal places, and those that take no part, are ordered by
            // tile; of others the equals are searched by the other words of the
            // order.
            uint32_t end = word == kLast ? min(kTile, n - begin) : num_below(words[t], word + 1);
            const bool is_by_tile = !by_rank || word == kLast;
            if (is_by_tile) before = begin < own ? end : before;
            while (!is_by_tile && before < end) {
                const uint32_t middle = (before + end) / 2;
                const bool comes_before =
                    precedes(keys[begin + middle], key, args.candidates.data);
                before = comes_before ? middle + 1 : before;
                end = comes_before ? end : middle;
            }
        }
        sum += before;
    }
    // A sum is the same in any order.
    const uint32_t candidate = static_cast<uint32_t>(key);
    if (by_rank) {
        if (sum != 0) atomicAdd(&args.ranks[candidate], sum);
        return;
    }
    // Whoever adds the last knows the place.
    constexpr uint64_t kAdded = 1ull << 32;
    const uint32_t num_parts = (n + kAtOnce * kTile - 1) / (kAtOnce * kTile);
    auto* place = reinterpret_cast<unsigned long long*>(&args.places[candidate]);
    const uint64_t total = atomicAdd(place, kAdded + sum) + kAdded + sum;
    const uint32_t found = static_cast<uint32_t>(total);
    if (total / kAdded == num_parts && found < n) args.found_candidates[found] = candidate;
}

// A warp for 32 places.
template <typename Policy, typename Candidate>
__device__ void nms_arrange(const NmsArgs<Candidate>& args) {
    const uint32_t place = blockIdx.x * kArrangeThreads + threadIdx.x;
    if (place - threadIdx.x >= args.candidates.len) return;
    const uint32_t last = static_cast<uint32_t>(args.candidates.len) - 1;
    // Read without waiting for the number of candidates.
    const uint32_t own = min(args.found_candidates[min(place, last)], last);
    const uint32_t rank = args.ranks[own];
    const Candidate candidate = args.candidates[own];
    const NmsSettings settings = args.settings[0];
    const uint32_t n = num_candidates(args);
    const bool is_there = place < n && rank < n;
    const bool is_present = is_there && takes_part<Policy>(settings, candidate);
    const float4 item = Policy::item(args, settings, candidate);
    if (is_there) {
        args.order[rank] = {own, candidate.rank.score};
        args.items[rank] = item;
        args.found_items[place] = item;
        args.found_ranks[place] = is_present ? rank : kNobody;
        if (!is_present) args.states[rank] = kGone;
    }
    // Without classes there is one group.
    if (is_there && settings.class_mode != 1) {
        const uint64_t group = group_of(args, settings, candidate.rank.class_index);
        args.item_groups[rank] = group;
        args.found_groups[place] = group;
    }
    Bounds bounds = is_present ? rising_words(Policy::bounds(item)) : kNowhere;
    bounds.min_x = __reduce_min_sync(kAllLanes, bounds.min_x);
    bounds.min_y = __reduce_min_sync(kAllLanes, bounds.min_y);
    bounds.max_x = __reduce_max_sync(kAllLanes, bounds.max_x);
    bounds.max_y = __reduce_max_sync(kAllLanes, bounds.max_y);
    if (lane_of() == 0 && place < n) args.bounds[place / kLanes] = bounds;
}
