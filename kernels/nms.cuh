// Greedy suppression, the same for every measure of overlap.
//
// A policy names the candidate, what is compared (an item of 16 bytes) and
// when a better item suppresses another. The answer is the sequential greedy
// one: a candidate is kept when no kept better one of its group suppresses it.
//
// Steps, each a kernel, the number of candidates read on the device:
//   small     up to kSmallCapacity: everything, see nms_small.cuh
//   tiles     more: order tiles of kTile by rank and, apart, by place
//   merge     the tiles into both orders
//   arrange   the items by place, with the bounds of every 32
//   suppress  a warp per candidate looks for better ones that suppress it and
//             waits for their verdict; blocks take candidates by ticket, best
//             first, so that a candidate only waits for one already taken
//   publish   the survivors in order
//
// No result depends on the order of atomics: tickets only say who works on
// what, and kept bits are set whatever their order.
#pragma once

#include "order.cuh"
#include "slice.cuh"

constexpr uint32_t kTile = 512;
// Candidates of a tile that a block orders.
constexpr uint32_t kPart = 64;
constexpr uint32_t kNmsThreads = 256;
constexpr uint32_t kSuppressWarps = kNmsThreads / 32;
// Places or bounds that a warp looks at together.
constexpr uint32_t kAhead = 4;
constexpr uint32_t kListCapacity = 256;
constexpr uint32_t kNearCapacity = 256;
constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr uint32_t kNobody = 0xffffffffu;

enum State : uint32_t { kUndecided, kKept, kGone };

// The mirror of `NmsSettings` in src/device/cuda/abi/nms.rs.
struct NmsSettings {
    float iou_threshold;
    float score_threshold;
    float offset;
    float reach;
    uint32_t has_score_threshold;
    uint32_t max_num;
    uint32_t class_mode;
    uint32_t num_groups;
    uint32_t num_thresholds;
    uint32_t reading;
};

struct Kept {
    uint32_t index;
    float score;
};

// The bounds of 32 places as words that rise with the coordinates, so that the
// lowest and the highest can be taken in any order.
struct alignas(16) Bounds {
    uint32_t min_x, min_y, max_x, max_y;
};

__device__ inline uint32_t rising_word(float value) {
    const uint32_t bits = __float_as_uint(value);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ inline float value_of_word(uint32_t word) {
    const uint32_t is_positive = static_cast<uint32_t>(static_cast<int32_t>(word) >> 31);
    return __uint_as_float(word ^ (~is_positive | 0x80000000u));
}

struct NmsCounts {
    uint32_t num_kept;
    // One more than the highest class that has no threshold; 0 when all have.
    uint32_t class_over;
};

// The same for every step. Every slice over candidates has as many places as
// `candidates`; keys, found_order and bounds as many as their step needs.
template <typename Candidate>
struct NmsArgs {
    Slice<const Candidate> candidates;
    Slice<const uint32_t> num_candidates;
    Slice<const NmsSettings> settings;
    Slice<const uint32_t> groups;
    Slice<const float> thresholds;
    Slice<uint64_t> keys;          // 2 * capacity: by rank, then by place
    Slice<Kept> order;             // candidate and score by rank
    Slice<uint32_t> ranks;         // rank by candidate
    Slice<uint32_t> places;        // place by candidate
    Slice<float4> found_items;     // by place
    Slice<uint32_t> found_ranks;   // by place, kNobody: takes no part
    Slice<uint64_t> found_groups;  // by place
    Slice<Bounds> bounds;          // of 32 places
    Slice<uint32_t> states;        // by rank
    Slice<uint32_t> kept_bits;     // by rank, 32 a word
    Slice<uint32_t> ticket;        // ticket, class_over
    Slice<Kept> kept;              // the survivors, best first
    Slice<NmsCounts> counts;
    Slice<Kept> published;         // the same in memory that the host reads
    Slice<NmsCounts> published_counts;
    Slice<uint4> rows;             // of the step small: better suppressors
    Slice<uint64_t> notes;         // of the step small: by candidate
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

// Verdicts go round between running blocks: always through the second level
// cache.
__device__ inline uint32_t load_state(const uint32_t* state) {
    uint32_t value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(state) : "memory");
    return value;
}

__device__ inline void store_state(uint32_t* state, uint32_t value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(state), "r"(value) : "memory");
}

template <typename Policy, typename Candidate>
__device__ bool takes_part(const NmsSettings& settings, const Candidate& candidate) {
    return !isnan(candidate.rank.score) && Policy::takes_part(settings, candidate);
}

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

template <typename Policy, typename Candidate>
__device__ void check_class(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                            const Candidate& candidate) {
    if (Policy::kHasThresholds && settings.num_thresholds != 1 &&
        candidate.rank.class_index >= settings.num_thresholds) {
        // The highest, whatever the order.
        atomicMax(&args.ticket[1], min(candidate.rank.class_index, kNobody - 1) + 1);
    }
}

// Adds how many of four words are below a word, and how many at most it.
__device__ inline void count(uint4 words, uint32_t word, uint32_t& below, uint32_t& at_most) {
    below += (words.x < word) + (words.y < word) + (words.z < word) + (words.w < word);
    at_most += (words.x <= word) + (words.y <= word) + (words.z <= word) + (words.w <= word);
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
        const Candidate candidate = args.candidates[start + i];
        if (!takes_part<Policy>(settings, candidate)) continue;
        words[i] = by_rank ? order_word(candidate.rank.score, true) : Policy::place(candidate);
    }
    __syncthreads();
    const uint32_t word = words[own];
    const uint32_t first = threadIdx.x / kPart * kQuarter;
    uint32_t below = 0;
    uint32_t at_most = 0;
#pragma unroll 8
    for (uint32_t i = first; i < first + kQuarter; i += 4) {
        count(*reinterpret_cast<const uint4*>(&words[i]), word, below, at_most);
    }
    const bool is_own_here = own - first < kQuarter;
    if (at_most - below > is_own_here) {
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

// Tiles taken together in a search: their probes do not wait for each other.
constexpr uint32_t kAtOnce = 5;

// Blocks of the step `merge` for the same candidates.
template <typename Candidate>
__device__ uint32_t parts(const NmsArgs<Candidate>& args) {
    const uint32_t num_tiles = (static_cast<uint32_t>(args.candidates.len) + kTile - 1) / kTile;
    return (num_tiles + kAtOnce - 1) / kAtOnce;
}

// A candidate's position is the sum of its positions in all tiles. Each block
// adds those of its candidates in kAtOnce tiles.
template <typename Candidate>
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
    args.order[rank] = {own, candidate.rank.score};
    args.found_items[place] = item;
    args.found_ranks[place] = present ? rank : kNobody;
    args.found_groups[place] = group_of(args, settings, candidate.rank.class_index);
    if (!present) return;
    const float4 bounds = Policy::bounds(item);
    Bounds& all = args.bounds[place / kLanes];
    atomicMin(&all.min_x, rising_word(bounds.x));
    atomicMin(&all.min_y, rising_word(bounds.y));
    atomicMax(&all.max_x, rising_word(bounds.z));
    atomicMax(&all.max_y, rising_word(bounds.w));
}

// What a warp knows of the better candidates that suppress its own.
struct Verdict {
    bool gone = false;
    uint32_t num_pending = 0;
};

// Waits until one of the listed is kept (true) or all are gone (false).
template <typename Candidate>
__device__ __forceinline__ bool wait_for_kept(const NmsArgs<Candidate>& args, const uint32_t* list, uint32_t num) {
    const uint32_t lane = threadIdx.x % kLanes;
    while (true) {
        bool kept = false;
        bool undecided = false;
        for (uint32_t i = lane; i < num; i += kLanes) {
            const uint32_t state = load_state(&args.states[list[i]]);
            kept |= state == kKept;
            undecided |= state == kUndecided;
        }
        if (__any_sync(kAllLanes, kept)) return true;
        if (!__any_sync(kAllLanes, undecided)) return false;
    }
}

// Notes up to 32 better candidates, `rank` where `hit`.
__device__ inline void note(bool hit, uint32_t rank, uint32_t* list, Verdict& verdict) {
    const uint32_t hits = __ballot_sync(kAllLanes, hit);
    if (hits == 0) return;
    const uint32_t before = hits & ((1u << (threadIdx.x % kLanes)) - 1);
    if (hit) list[verdict.num_pending + __popc(before)] = rank;
    verdict.num_pending += __popc(hits);
}

// Looks at the listed groups of 32 places, several at a time.
template <typename Policy, typename Candidate>
__device__ void look_at_groups(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                               uint32_t own, uint32_t n, float4 item, uint64_t group,
                               const uint32_t* near, uint32_t num_near, uint32_t* list,
                               Verdict& verdict) {
    const uint32_t lane = threadIdx.x % kLanes;
    for (uint32_t first = 0; first < num_near && !verdict.gone; first += kAhead) {
        uint32_t rank[kAhead];
        float4 better[kAhead];
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            const uint32_t place = first + k < num_near ? near[first + k] * kLanes + lane : n;
            rank[k] = place < n ? args.found_ranks[place] : kNobody;
            better[k] = place < n ? args.found_items[place] : item;
        }
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            bool hit = rank[k] < own && Policy::suppresses(settings, better[k], item);
            if (hit) hit = args.found_groups[near[first + k] * kLanes + lane] == group;
            note(hit, rank[k], list, verdict);
        }
        // A full list is waited for.
        if (verdict.num_pending > kListCapacity - kAhead * kLanes) {
            __syncwarp();
            verdict.gone = wait_for_kept(args, list, verdict.num_pending);
            verdict.num_pending = 0;
        }
    }
}

// Looks at the better candidates whose bounds meet: items lie by place.
template <typename Policy, typename Candidate>
__device__ Verdict look_near(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                             uint32_t own, uint32_t n, float4 item, uint64_t group,
                             uint32_t* near, uint32_t* list) {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t num_bounds = (n + kLanes - 1) / kLanes;
    Verdict verdict;
    uint32_t num_near = 0;
    for (uint32_t start = 0; start < num_bounds && !verdict.gone; start += kAhead * kLanes) {
        Bounds words[kAhead];
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            const uint32_t mine = start + k * kLanes + lane;
            words[k] = mine < num_bounds ? args.bounds[mine] : Bounds{1, 1, 0, 0};
        }
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            // Where nobody takes part, the lowest is still above the highest.
            const float4 bounds =
                make_float4(value_of_word(words[k].min_x), value_of_word(words[k].min_y),
                            value_of_word(words[k].max_x), value_of_word(words[k].max_y));
            const bool is_near =
                words[k].min_x <= words[k].max_x && Policy::meets(settings, bounds, item);
            const uint32_t hits = __ballot_sync(kAllLanes, is_near);
            const uint32_t before = hits & ((1u << lane) - 1);
            if (is_near) near[num_near + __popc(before)] = start + k * kLanes + lane;
            num_near += __popc(hits);
        }
        const bool is_last = start + kAhead * kLanes >= num_bounds;
        if (num_near > 0 && (is_last || num_near > kNearCapacity - kAhead * kLanes)) {
            __syncwarp();
            look_at_groups<Policy>(args, settings, own, n, item, group, near, num_near, list,
                                   verdict);
            num_near = 0;
            __syncwarp();
        }
    }
    return verdict;
}

template <typename Policy, typename Candidate>
__device__ void nms_suppress(const NmsArgs<Candidate>& args) {
    __shared__ uint32_t ticket;
    __shared__ uint32_t lists[kSuppressWarps][kListCapacity];
    __shared__ uint32_t nears[kSuppressWarps][kNearCapacity];
    const uint32_t n = num_candidates(args);
    if (threadIdx.x == 0) ticket = atomicAdd(&args.ticket[0], 1);
    __syncthreads();
    const uint32_t warp = threadIdx.x / kLanes;
    const uint32_t own = ticket * kSuppressWarps + warp;
    if (own >= n) return;
    const Candidate candidate = args.candidates[args.order[own].index];
    Verdict verdict;
    const NmsSettings settings = args.settings[0];
    verdict.gone = !takes_part<Policy>(settings, candidate);
    if (!verdict.gone) {
        const float4 item = Policy::item(args, settings, candidate);
        const uint64_t group = group_of(args, settings, candidate.rank.class_index);
        verdict = look_near<Policy>(args, settings, own, n, item, group, nears[warp], lists[warp]);
    }
    if (!verdict.gone && verdict.num_pending > 0) {
        __syncwarp();
        verdict.gone = wait_for_kept(args, lists[warp], verdict.num_pending);
    }
    if (threadIdx.x % kLanes == 0) {
        store_state(&args.states[own], verdict.gone ? kGone : kKept);
        if (!verdict.gone) atomicOr(&args.kept_bits[own / 32], 1u << (own % 32));
    }
}

// Each block writes the survivors among its ranks, after those before them.
template <typename Candidate>
__device__ void nms_publish(const NmsArgs<Candidate>& args) {
    __shared__ uint32_t sums[kNmsThreads / kLanes];
    const uint32_t start = blockIdx.x * kNmsThreads;
    const uint32_t own = start + threadIdx.x;
    const Kept survivor = own < args.order.len ? args.order[own] : Kept{};
    const uint32_t n = num_candidates(args);
    if (start >= n && blockIdx.x != 0) return;
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    uint32_t before = 0;
    for (uint32_t word = threadIdx.x; word < start / 32; word += kNmsThreads) {
        before += __popc(args.kept_bits[word]);
    }
    before = __reduce_add_sync(kAllLanes, before);
    if (lane == 0) sums[warp] = before;
    __syncthreads();
    uint32_t position = 0;
    for (uint32_t i = 0; i < kNmsThreads / kLanes; ++i) position += sums[i];

    const uint32_t max_num = args.settings[0].max_num;
    const uint32_t first_word = start / 32;
    const uint32_t num_words = (n + 31) / 32;
    uint32_t own_bits = 0;
    uint32_t end = position;
    for (uint32_t i = 0; i < kNmsThreads / kLanes && first_word + i < num_words; ++i) {
        const uint32_t bits = args.kept_bits[first_word + i];
        if (i == warp) {
            own_bits = bits;
            position = end + __popc(bits & ((1u << lane) - 1));
        }
        end += __popc(bits);
    }
    if ((own_bits >> lane & 1) != 0 && position < max_num) {
        args.kept[position] = survivor;
        args.published[position] = survivor;
    }
    if (start + kNmsThreads >= n && threadIdx.x == 0) {
        const NmsCounts counts = {min(end, max_num), args.ticket[1]};
        args.counts[0] = counts;
        args.published_counts[0] = counts;
        args.ticket[0] = 0;
        args.ticket[1] = 0;
    }
}

// Spreads the low 16 bits to the even positions.
__device__ inline uint32_t spread(uint32_t bits) {
    bits &= 0xffffu;
    bits = (bits | bits << 8) & 0x00ff00ffu;
    bits = (bits | bits << 4) & 0x0f0f0f0fu;
    bits = (bits | bits << 2) & 0x33333333u;
    return (bits | bits << 1) & 0x55555555u;
}

// The upper bits of a coordinate, rising with it. Any choice is right: where
// candidates lie only decides how many bounds meet.
__device__ inline uint32_t coarse(float value, uint32_t num_bits) {
    const uint32_t bits = __float_as_uint(value);
    const uint32_t rising = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return rising >> (32 - num_bits);
}

#include "nms_small.cuh"

// The kernels of an op: `<op>_<step>`.
#define NMS_KERNELS(op, Policy)                                                   \
    extern "C" __global__ void __launch_bounds__(kSmallThreads)                   \
        op##_small(const __grid_constant__ NmsArgs<Policy::Candidate> args) {     \
        nms_small<Policy>(args);                                                  \
    }                                                                             \
    extern "C" __global__ void __launch_bounds__(kNmsThreads, 5)                        \
        op##_tiles(const __grid_constant__ NmsArgs<Policy::Candidate> args) {     \
        nms_tiles<Policy>(args);                                                  \
    }                                                                             \
    extern "C" __global__ void __launch_bounds__(kNmsThreads, 5)                        \
        op##_merge(const __grid_constant__ NmsArgs<Policy::Candidate> args) {     \
        nms_merge(args);                                                          \
    }                                                                             \
    extern "C" __global__ void __launch_bounds__(kNmsThreads, 5)                        \
        op##_arrange(const __grid_constant__ NmsArgs<Policy::Candidate> args) {   \
        nms_arrange<Policy>(args);                                                \
    }                                                                             \
    extern "C" __global__ void __launch_bounds__(kNmsThreads, 5)                        \
        op##_suppress(const __grid_constant__ NmsArgs<Policy::Candidate> args) {  \
        nms_suppress<Policy>(args);                                               \
    }                                                                             \
    extern "C" __global__ void __launch_bounds__(kNmsThreads, 5)                        \
        op##_publish(const __grid_constant__ NmsArgs<Policy::Candidate> args) {   \
        nms_publish(args);                                                        \
    }
