// More than kBitmaskCapacity candidates: the greedy reduction by searching.
//
// A warp per candidate searches the leaves for suppressors and waits until they are
// decided. Blocks take candidates by ticket in the total order, so that a candidate
// waits only for candidates whose blocks already run.
#pragma once

#include "nms/sort.cuh"
#include "shared/scan.cuh"

constexpr uint32_t kReduceWarps = kNmsThreads / kLanes;
// Leaves, or their bounds, with loads in flight at once.
constexpr uint32_t kAhead = 4;
constexpr uint32_t kSuppressorCapacity = 256;
constexpr uint32_t kLeafCapacity = 256;

// Running blocks exchange states: through the L2 cache, never the L1.
__device__ inline uint32_t load_state(const uint32_t* state) {
    uint32_t value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(state) : "memory");
    return value;
}

__device__ inline void store_state(uint32_t* state, uint32_t value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(state), "r"(value) : "memory");
}

// A warp's own candidate.
struct OwnCandidate {
    uint32_t rank;
    float4 proxy;
};

// A warp's shared memory.
struct SearchLists {
    Bounds window;
    uint32_t leaves[kLeafCapacity];             // that intersect the window
    uint32_t suppressors[kSuppressorCapacity];  // their ranks
};

// Tests the candidates of the listed leaves. Calls `found(hit, rank)` in all lanes
// when a lane has hit a suppressor, and returns true as soon as `found` does.
template <typename Policy, typename Candidate, typename OnFound>
__device__ bool search_leaves(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                              const OwnCandidate& own, uint32_t n, const SearchLists& lists,
                              uint32_t num_leaves, const OnFound& found) {
    const uint32_t lane = lane_of();
    const float min_area = Policy::min_area(settings, own.proxy);
    for (uint32_t first = 0; first < num_leaves; first += kAhead) {
        uint32_t rank[kAhead];
        float4 better[kAhead];
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            const uint32_t position =
                first + k < num_leaves ? lists.leaves[first + k] * kLanes + lane : n;
            rank[k] = position < n ? args.scratch.spatial_ranks[position] : kNone;
            better[k] = args.scratch.spatial_proxies[min(position, n - 1)];
        }
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            bool hit = rank[k] < own.rank &&
                       Policy::may_suppress(settings, better[k], own.proxy, min_area) &&
                       Policy::suppresses(settings, better[k], own.proxy);
            // If classes are ignored there is one group.
            if (hit && settings.class_mode != 1) {
                const uint32_t position = lists.leaves[first + k] * kLanes + lane;
                hit = args.scratch.spatial_groups[position] == args.scratch.group_of_rank[own.rank];
            }
            if (hit && Policy::kGeometryVectors != 0) {
                hit = suppresses_exactly<Policy>(args, settings, args.scratch.order[rank[k]].index,
                                                 args.scratch.order[own.rank].index);
            }
            if (__any_sync(kAllLanes, hit) && found(hit, rank[k])) return true;
        }
    }
    return false;
}

// Broad phase: lists the leaves whose bounds intersect the window and searches them
// each time the list is full.
template <typename Policy, typename Candidate, typename OnFound>
__device__ bool search(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                       const OwnCandidate& own, uint32_t n, SearchLists& lists,
                       const OnFound& found) {
    const uint32_t lane = lane_of();
    const uint32_t num_bounds = (n + kLanes - 1) / kLanes;
    if (lane == 0) lists.window = make_bounds(Policy::window(settings, own.proxy));
    __syncwarp();
    uint32_t num_leaves = 0;
    for (uint32_t start = 0; start < num_bounds; start += kAhead * kLanes) {
        Bounds bounds[kAhead];
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            const uint32_t mine = start + k * kLanes + lane;
            bounds[k] = mine < num_bounds ? args.scratch.leaves[mine] : kEmptyBounds;
        }
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            const bool is_near = intersect(bounds[k], lists.window);
            const uint32_t votes = __ballot_sync(kAllLanes, is_near);
            const uint32_t leaf = start + k * kLanes + lane;
            if (is_near) lists.leaves[num_leaves + num_lanes_before(votes)] = leaf;
            num_leaves += __popc(votes);
        }
        const bool is_last = start + kAhead * kLanes >= num_bounds;
        if (num_leaves > 0 && (is_last || num_leaves > kLeafCapacity - kAhead * kLanes)) {
            __syncwarp();
            if (search_leaves<Policy>(args, settings, own, n, lists, num_leaves, found)) {
                return true;
            }
            num_leaves = 0;
            __syncwarp();
        }
    }
    return false;
}

// Waits until one of the suppressors is kept (true) or all are suppressed (false).
template <typename Candidate>
__device__ bool wait_for_kept(const NmsArgs<Candidate>& args, const uint32_t* list, uint32_t num) {
    while (true) {
        bool is_kept = false;
        bool is_undecided = false;
        for (uint32_t i = lane_of(); i < num; i += kLanes) {
            const uint32_t state = load_state(&args.scratch.states[list[i]]);
            is_kept |= state == kKept;
            is_undecided |= state == kUndecided;
        }
        if (__any_sync(kAllLanes, is_kept)) return true;
        if (!__any_sync(kAllLanes, is_undecided)) return false;
    }
}

// Whether a kept candidate, or any in a one-pass suppression, suppresses the warp's
// own.
template <typename Policy, typename Candidate>
__device__ bool is_suppressed(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                              const OwnCandidate& own, uint32_t n, SearchLists& lists) {
    // More suppressors than a list holds are searched again and again, their states
    // read at once, until the undecided ones fit: a kept one is soon found.
    bool is_overfull = false;
    while (true) {
        uint32_t num = 0;
        const auto found = [&](bool hit, uint32_t rank) {
            if (is_overfull) {
                const uint32_t state = hit ? load_state(&args.scratch.states[rank]) : kSuppressed;
                if (__any_sync(kAllLanes, state == kKept)) return true;
                hit = state == kUndecided;
            }
            const uint32_t hits = __ballot_sync(kAllLanes, hit);
            const uint32_t position = num + num_lanes_before(hits);
            if (hit && position < kSuppressorCapacity) lists.suppressors[position] = rank;
            num += __popc(hits);
            return Policy::kAnySuppresses;
        };
        if (search<Policy>(args, settings, own, n, lists, found)) return true;
        __syncwarp();
        if (num <= kSuppressorCapacity) return wait_for_kept(args, lists.suppressors, num);
        is_overfull = true;
    }
}

template <typename Policy, typename Candidate>
__device__ void nms_reduce(const NmsArgs<Candidate>& args) {
    __shared__ uint32_t ticket;
    __shared__ SearchLists lists[kReduceWarps];
    const uint32_t n = num_candidates(args);
    if (threadIdx.x == 0) ticket = atomicAdd(&args.scratch.ticket[0], 1);
    __syncthreads();
    const uint32_t own = ticket * kReduceWarps + warp_of();
    if (own >= n) return;
    const NmsSettings settings = args.parameters.settings[0];
    const OwnCandidate candidate = {own, args.scratch.proxies[own]};
    // Candidates that are not eligible were marked by `leaves`.
    if (args.scratch.states[own] == kSuppressed) return;
    const bool is_out = is_suppressed<Policy>(args, settings, candidate, n, lists[warp_of()]);
    if (lane_of() == 0) store_state(&args.scratch.states[own], is_out ? kSuppressed : kKept);
}

// Compacts the survivors: each block writes those among its ranks.
template <typename Policy, typename Candidate>
__device__ void nms_compact(const NmsArgs<Candidate>& args) {
    const uint32_t start = blockIdx.x * kNmsThreads;
    const uint32_t own = start + threadIdx.x;
    // Loaded before the number of candidates is known.
    const bool has_room = own < args.candidates.len;
    const Kept survivor = has_room ? args.scratch.order[own] : Kept{};
    const uint32_t state = has_room ? args.scratch.states[own] : kSuppressed;
    const uint32_t max_num = args.parameters.settings[0].max_num;
    const uint32_t class_over = args.scratch.ticket[1];
    const auto* states = reinterpret_cast<const uint4*>(args.scratch.states.data);
    uint32_t num_above = 0;
    for (uint32_t i = threadIdx.x; i < start / 4; i += kNmsThreads) {
        const uint4 four = states[i];
        num_above += (four.x == kKept) + (four.y == kKept) + (four.z == kKept) + (four.w == kKept);
    }
    const uint32_t n = num_candidates(args);
    if (start >= n && blockIdx.x != 0) return;
    const uint32_t sum_before = scan::block_sum<kNmsThreads>(num_above);
    const bool is_kept = own < n && state == kKept;
    const scan::Selected kept = scan::count_selected<kNmsThreads>(is_kept);
    const uint32_t position = sum_before + kept.before;
    if (is_kept && position < max_num) {
        args.output.write(position, survivor);
    }
    if (start + kNmsThreads >= n && threadIdx.x == 0) {
        args.output.write_counts({min(sum_before + kept.total, max_num), class_over});
        args.scratch.ticket[0] = 0;
        args.scratch.ticket[1] = 0;
    }
}
