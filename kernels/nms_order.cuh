// The steps that bring many candidates into two orders: by rank and by place.
//
//   count     up to kCountCapacity: counts who comes before
//   tiles     more: orders tiles of kTile by rank and, apart, by place
//   merge     merges the tiles into both orders
//   arrange   lays the items out, by place with the bounds of every 32
#pragma once

#include "nms_args.cuh"

constexpr uint32_t kCountCapacity = 10240;
// Candidates that a block counts over.
constexpr uint32_t kCounted = 1024;
// Where all are counted over for the rank, the order by place is one of tiles.
constexpr uint32_t kPlaceTile = 2048;
constexpr uint32_t kTile = 512;
// Candidates of a tile that a block orders.
constexpr uint32_t kPart = 64;
// Tiles taken together in a search: their probes do not wait for each other.
constexpr uint32_t kAtOnce = 5;

enum State : uint32_t { kUndecided, kKept, kGone };

// Empties what the later steps fill, for places begin, begin + stride, ...
template <typename Candidate>
__device__ void reset(const NmsArgs<Candidate>& args, uint32_t n) {
    const uint32_t stride = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        args.states[i] = kUndecided;
        if (i % 32 == 0) {
            args.kept_bits[i / 32] = 0;
            args.bounds[i / 32] = {0xffffffffu, 0xffffffffu, 0, 0};
        }
    }
}

// Adds how many of four words are below a word, and whether one equals it.
__device__ inline void count(uint4 words, uint32_t word, uint32_t& below, bool& equal) {
    below += (words.x < word) + (words.y < word) + (words.z < word) + (words.w < word);
    equal |= (words.x == word) | (words.y == word) | (words.z == word) | (words.w == word);
}

// A candidate's word in the order by rank or by place.
template <typename Policy, typename Candidate>
__device__ uint32_t word_of(const NmsSettings& settings, const Candidate& candidate, bool by_rank) {
    if (!takes_part<Policy>(settings, candidate)) return kLast;
    return by_rank ? order_word(candidate.rank.score, true) : Policy::place(candidate);
}

// Each block counts, for kNmsThreads candidates, over kCounted others; row 0 of
// the grid by rank, row 1 by place within the tile. Ranks and places are zero
// before.
template <typename Policy, typename Candidate>
__device__ void nms_count(const NmsArgs<Candidate>& args) {
    __shared__ __align__(16) uint32_t words[kCounted];
    const NmsSettings settings = args.settings[0];
    const uint32_t n = num_candidates(args);
    const bool by_rank = blockIdx.y == 0;
    if (by_rank) reset(args, n);
    const uint32_t num_pieces =
        (static_cast<uint32_t>(args.candidates.len) + kCounted - 1) / kCounted;
    const uint32_t own = blockIdx.x / num_pieces * kNmsThreads + threadIdx.x;
    const uint32_t tile = by_rank ? 0 : own / kPlaceTile * kPlaceTile;
    const uint32_t start = tile + blockIdx.x % num_pieces * kCounted;
    const uint32_t end = min(n, by_rank ? n : tile + kPlaceTile);
    if (own - threadIdx.x >= n || start >= end) return;
    Candidate mine;
    if (own < n) mine = args.candidates[own];
#pragma unroll
    for (uint32_t i = threadIdx.x; i < kCounted; i += kNmsThreads) {
        words[i] = kLast;
        if (start + i >= end) continue;
        words[i] = word_of<Policy>(settings, args.candidates[start + i], by_rank);
    }
    __syncthreads();
    if (own >= n) return;
    const uint32_t word = word_of<Policy>(settings, mine, by_rank);
    uint32_t below = 0;
    bool equal = false;
#pragma unroll 8
    for (uint32_t i = 0; i < kCounted; i += 4) {
        count(*reinterpret_cast<const uint4*>(&words[i]), word, below, equal);
    }
    if (equal) {
        const uint64_t key = static_cast<uint64_t>(word) << 32 | own;
        for (uint32_t i = 0; i < min(kCounted, end - start); ++i) {
            if (words[i] != word) continue;
            const uint64_t other = static_cast<uint64_t>(word) << 32 | (start + i);
            below += by_rank ? precedes(other, key, args.candidates.data) : other < key;
        }
    }
    const bool is_first = start == tile;
    if (!by_rank && is_first) below += tile;
    if (below != 0) atomicAdd(&(by_rank ? args.ranks : args.places)[own], below);
    if (by_rank && is_first && word != kLast) check_class<Policy>(args, settings, mine);
}

// Orders a part of a tile by counting over the whole tile, each quarter of
// which is another thread's; row 0 of the grid by rank, row 1 by place.
template <typename Policy, typename Candidate>
__device__ void nms_tiles(const NmsArgs<Candidate>& args) {
    constexpr uint32_t kParts = kNmsThreads / kPart;
    constexpr uint32_t kQuarter = kTile / kParts;
    __shared__ __align__(16) uint32_t words[kTile];
    __shared__ uint32_t num_before[kPart];
    const NmsSettings settings = args.settings[0];
    const uint32_t n = num_candidates(args);
    const bool by_rank = blockIdx.y == 0;
    if (by_rank) reset(args, n);
    const uint32_t begin = blockIdx.x * kPart;
    if (begin >= n) return;
    const uint32_t start = begin / kTile * kTile;
    const uint32_t own = begin - start + threadIdx.x % kPart;
    const uint32_t num = min(kTile, n - start);
    if (threadIdx.x < kPart) num_before[threadIdx.x] = 0;
#pragma unroll
    for (uint32_t i = threadIdx.x; i < kTile; i += kNmsThreads) {
        words[i] = kLast;
        if (i >= num) continue;
        words[i] = word_of<Policy>(settings, args.candidates[start + i], by_rank);
    }
    __syncthreads();
    const uint32_t word = words[own];
    const uint32_t first = threadIdx.x / kPart * kQuarter;
    uint32_t below = 0;
    bool equal = false;
#pragma unroll 8
    for (uint32_t i = first; i < first + kQuarter; i += 4) {
        count(*reinterpret_cast<const uint4*>(&words[i]), word, below, equal);
    }
    if (equal) {
        const uint64_t key = static_cast<uint64_t>(word) << 32 | (start + own);
        for (uint32_t i = first; i < min(first + kQuarter, num); ++i) {
            if (words[i] != word) continue;
            const uint64_t other = static_cast<uint64_t>(word) << 32 | (start + i);
            below += by_rank ? precedes(other, key, args.candidates.data) : other < key;
        }
    }
    if (below != 0) atomicAdd(&num_before[threadIdx.x % kPart], below);
    __syncthreads();
    if (threadIdx.x >= kPart || own >= num) return;
    const uint32_t before = num_before[threadIdx.x];
    const uint64_t key = static_cast<uint64_t>(word) << 32 | (start + own);
    args.keys[(by_rank ? 0 : args.candidates.len) + start + before] = key;
    (by_rank ? args.ranks : args.places)[start + own] = before;
    if (by_rank && word != kLast) check_class<Policy>(args, settings, args.candidates[start + own]);
}

// Blocks of the step `merge` for the same candidates.
template <typename Candidate>
__device__ uint32_t parts(const NmsArgs<Candidate>& args) {
    const uint32_t num_tiles = (static_cast<uint32_t>(args.candidates.len) + kTile - 1) / kTile;
    return (num_tiles + kAtOnce - 1) / kAtOnce;
}

// A candidate's position is the sum of its positions in all tiles. Each block
// adds those of its candidates in kAtOnce tiles.
template <typename Policy, typename Candidate>
__device__ void nms_merge(const NmsArgs<Candidate>& args) {
    const uint32_t n = num_candidates(args);
    const uint32_t num_tiles = (n + kTile - 1) / kTile;
    const uint32_t start = blockIdx.x % parts(args) * kAtOnce;
    const uint32_t own = blockIdx.x / parts(args) * kNmsThreads + threadIdx.x;
    const uint32_t own_tile = own / kTile;
    if (own >= n || start >= num_tiles) return;
    const bool by_rank = blockIdx.y == 0;
    const uint64_t* keys = args.keys.data + (by_rank ? 0 : args.candidates.len);
    const uint64_t key = keys[own];
    uint32_t before[kAtOnce] = {};
    // The number of keys before this one, bit by bit from the highest.
    for (uint32_t half = kTile; half != 0; half /= 2) {
        uint64_t other[kAtOnce];
        bool probed[kAtOnce];
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            const uint32_t tile = start + k;
            const uint32_t probe = tile * kTile + before[k] + half;
            const uint32_t end = min((tile + 1) * kTile, n);
            probed[k] = tile < num_tiles && tile != own_tile && probe <= end;
            other[k] = probed[k] ? keys[probe - 1] : 0;
        }
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            if (!probed[k]) continue;
            const bool comes_before =
                by_rank ? precedes(other[k], key, args.candidates.data) : other[k] < key;
            if (comes_before) before[k] += half;
        }
    }
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; ++k) sum += before[k];
    // A sum is the same in any order.
    if (sum != 0) {
        atomicAdd(&(by_rank ? args.ranks : args.places)[static_cast<uint32_t>(key)], sum);
    }
}

template <typename Policy, typename Candidate>
__device__ void nms_arrange(const NmsArgs<Candidate>& args) {
    const uint32_t own = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t n = num_candidates(args);
    if (own >= n) return;
    const uint32_t rank = args.ranks[own];
    const uint32_t place = args.places[own];
    if (rank >= n || place >= n) return;
    const NmsSettings settings = args.settings[0];
    const Candidate candidate = args.candidates[own];
    const bool present = takes_part<Policy>(settings, candidate);
    const float4 item = Policy::item(args, settings, candidate);
    const uint64_t group = group_of(args, settings, candidate.rank.class_index);
    args.order[rank] = {own, candidate.rank.score};
    args.items[rank] = item;
    args.item_groups[rank] = present ? group : kNoGroup;
    args.found_items[place] = item;
    args.found_ranks[place] = present ? rank : kNobody;
    args.found_groups[place] = group;
    if (!present) return;
    const float4 bounds = Policy::bounds(item);
    Bounds& all = args.bounds[place / kLanes];
    atomicMin(&all.min_x, rising_word(bounds.x));
    atomicMin(&all.min_y, rising_word(bounds.y));
    atomicMax(&all.max_x, rising_word(bounds.z));
    atomicMax(&all.max_y, rising_word(bounds.w));
}
