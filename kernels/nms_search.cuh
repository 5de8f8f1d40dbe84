// The step `suppress`: a warp per candidate looks for better ones that suppress
// it and waits for their verdict. Blocks take candidates by ticket, best first,
// so that a candidate only waits for one already taken.
#pragma once

#include "nms_sort.cuh"

constexpr uint32_t kSuppressWarps = kNmsThreads / kLanes;
// Places or bounds that a warp looks at together.
constexpr uint32_t kAhead = 4;
constexpr uint32_t kListCapacity = 256;
constexpr uint32_t kNearCapacity = 256;

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

// The candidate of a warp.
struct Searcher {
    uint32_t rank;
    float4 item;
};

// What a warp notes in shared memory.
struct Notes {
    Bounds window;
    uint32_t near[kNearCapacity];    // groups of 32 places whose bounds meet it
    uint32_t listed[kListCapacity];  // ranks of those that suppress
};

// Looks at the listed groups of 32 places, several at a time: `found(hit, rank)`,
// for all lanes, of whom one may have hit upon a better candidate that
// suppresses; true when that is enough.
template <typename Policy, typename Candidate, typename OnFound>
__device__ bool look_at_groups(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                               const Searcher& own, uint32_t n, const Notes& notes,
                               uint32_t num_near, const OnFound& found) {
    const uint32_t lane = lane_of();
    const float least = Policy::least(settings, own.item);
    for (uint32_t first = 0; first < num_near; first += kAhead) {
        uint32_t rank[kAhead];
        float4 better[kAhead];
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            const uint32_t place = first + k < num_near ? notes.near[first + k] * kLanes + lane : n;
            rank[k] = place < n ? args.found_ranks[place] : kNobody;
            better[k] = args.found_items[min(place, n - 1)];
        }
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            bool hit = rank[k] < own.rank &&
                       Policy::is_near(settings, better[k], own.item, least) &&
                       Policy::suppresses(settings, better[k], own.item);
            // Without classes there is one group.
            if (hit && settings.class_mode != 1) {
                const uint32_t place = notes.near[first + k] * kLanes + lane;
                hit = args.found_groups[place] == args.item_groups[own.rank];
            }
            if (hit && Policy::kNumParts != 0) {
                hit = surely_suppresses<Policy>(args, settings, args.order[rank[k]].index,
                                                args.order[own.rank].index);
            }
            if (__any_sync(kAllLanes, hit) && found(hit, rank[k])) return true;
        }
    }
    return false;
}

// Looks at the better candidates whose bounds meet, until one is enough: items
// lie by place.
template <typename Policy, typename Candidate, typename OnFound>
__device__ bool look_near(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                          const Searcher& own, uint32_t n, Notes& notes, const OnFound& found) {
    const uint32_t lane = lane_of();
    const uint32_t num_bounds = (n + kLanes - 1) / kLanes;
    if (lane == 0) notes.window = rising_words(Policy::window(settings, own.item));
    __syncwarp();
    uint32_t num_near = 0;
    for (uint32_t start = 0; start < num_bounds; start += kAhead * kLanes) {
        Bounds bounds[kAhead];
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            const uint32_t mine = start + k * kLanes + lane;
            bounds[k] = mine < num_bounds ? args.bounds[mine] : kNowhere;
        }
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            const bool is_near = meet(bounds[k], notes.window);
            const uint32_t votes = __ballot_sync(kAllLanes, is_near);
            if (is_near) notes.near[num_near + num_lanes_before(votes)] = start + k * kLanes + lane;
            num_near += __popc(votes);
        }
        const bool is_last = start + kAhead * kLanes >= num_bounds;
        if (num_near > 0 && (is_last || num_near > kNearCapacity - kAhead * kLanes)) {
            __syncwarp();
            if (look_at_groups<Policy>(args, settings, own, n, notes, num_near, found)) return true;
            num_near = 0;
            __syncwarp();
        }
    }
    return false;
}

// Waits until one of the listed is kept (true) or all are gone (false).
template <typename Candidate>
__device__ bool wait_for_kept(const NmsArgs<Candidate>& args, const uint32_t* list, uint32_t num) {
    while (true) {
        bool is_kept = false;
        bool is_open = false;
        for (uint32_t i = lane_of(); i < num; i += kLanes) {
            const uint32_t state = load_state(&args.states[list[i]]);
            is_kept |= state == kKept;
            is_open |= state == kUndecided;
        }
        if (__any_sync(kAllLanes, is_kept)) return true;
        if (!__any_sync(kAllLanes, is_open)) return false;
    }
}

// Whether a kept better candidate, or any if the policy says so, suppresses the
// warp's own.
template <typename Policy, typename Candidate>
__device__ bool is_suppressed(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                              const Searcher& own, uint32_t n, Notes& notes) {
    // Of a crowd, more than a list holds, the verdicts are asked for at once,
    // until those that have none yet are few: one that is kept is soon found.
    bool is_crowd = false;
    while (true) {
        uint32_t num = 0;
        const auto found = [&](bool hit, uint32_t rank) {
            if (is_crowd) {
                const uint32_t state = hit ? load_state(&args.states[rank]) : kGone;
                if (__any_sync(kAllLanes, state == kKept)) return true;
                hit = state == kUndecided;
            }
            const uint32_t hits = __ballot_sync(kAllLanes, hit);
            const uint32_t position = num + num_lanes_before(hits);
            if (hit && position < kListCapacity) notes.listed[position] = rank;
            num += __popc(hits);
            return Policy::kAnySuppresses;
        };
        if (look_near<Policy>(args, settings, own, n, notes, found)) return true;
        __syncwarp();
        if (num <= kListCapacity) return wait_for_kept(args, notes.listed, num);
        is_crowd = true;
    }
}

template <typename Policy, typename Candidate>
__device__ void nms_suppress(const NmsArgs<Candidate>& args) {
    __shared__ uint32_t ticket;
    __shared__ Notes notes[kSuppressWarps];
    const uint32_t n = num_candidates(args);
    if (threadIdx.x == 0) ticket = atomicAdd(&args.ticket[0], 1);
    __syncthreads();
    const uint32_t own = ticket * kSuppressWarps + warp_of();
    if (own >= n) return;
    const NmsSettings settings = args.settings[0];
    const Searcher searcher = {own, args.items[own]};
    // Those that take no part are gone from the first.
    if (args.states[own] == kGone) return;
    const bool is_gone = is_suppressed<Policy>(args, settings, searcher, n, notes[warp_of()]);
    if (lane_of() == 0) store_state(&args.states[own], is_gone ? kGone : kKept);
}
