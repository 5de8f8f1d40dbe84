// The step `suppress`: a warp per candidate looks for better ones that suppress
// it and waits for their verdict. Blocks take candidates by ticket, best first,
// so that a candidate only waits for one already taken.
#pragma once

#include "nms_order.cuh"

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
    uint32_t index;
    float4 item;
    float least;
    uint64_t group;
};

// What a warp knows of the better candidates that suppress its own.
struct Verdict {
    bool gone = false;
    uint32_t num_pending = 0;
};

// Waits until one of the listed is kept (true) or all are gone (false).
template <typename Candidate>
__device__ __forceinline__ bool wait_for_kept(const NmsArgs<Candidate>& args,
                                              const uint32_t* list, uint32_t num) {
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
                               const Searcher& own, uint32_t n, const uint32_t* near,
                               uint32_t num_near, uint32_t* list, Verdict& verdict) {
    const uint32_t lane = threadIdx.x % kLanes;
    for (uint32_t first = 0; first < num_near && !verdict.gone; first += kAhead) {
        uint32_t rank[kAhead];
        float4 better[kAhead];
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            const uint32_t place = first + k < num_near ? near[first + k] * kLanes + lane : n;
            rank[k] = place < n ? args.found_ranks[place] : kNobody;
            better[k] = place < n ? args.found_items[place] : own.item;
        }
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            bool hit = rank[k] < own.rank &&
                       Policy::is_near(settings, better[k], own.item, own.least) &&
                       Policy::suppresses(settings, better[k], own.item);
            // Without classes there is one group.
            if (hit && settings.class_mode != 1) {
                hit = args.found_groups[near[first + k] * kLanes + lane] == own.group;
            }
            if (hit && Policy::kNumParts != 0) {
                hit = surely_suppresses<Policy>(args, settings, args.order[rank[k]].index, own.index);
            }
            note(hit, rank[k], list, verdict);
        }
        // One is enough where those that go suppress, too.
        if (Policy::kAnySuppresses) {
            verdict.gone = verdict.num_pending > 0;
            continue;
        }
        // A full list is waited for.
        if (verdict.num_pending > kListCapacity - kAhead * kLanes) {
            __syncwarp();
            verdict.gone = wait_for_kept(args, list, verdict.num_pending);
            verdict.num_pending = 0;
            // All have read the list before one writes it anew.
            __syncwarp();
        }
    }
}

// Looks at the better candidates whose bounds meet: items lie by place.
template <typename Policy, typename Candidate>
__device__ Verdict look_near(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                             const Searcher& own, uint32_t n, uint32_t* near, uint32_t* list) {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t num_bounds = (n + kLanes - 1) / kLanes;
    __shared__ Bounds windows[kSuppressWarps];
    Bounds& window = windows[warp_of()];
    if (lane == 0) window = rising_words(Policy::window(settings, own.item));
    __syncwarp();
    Verdict verdict;
    uint32_t num_near = 0;
    for (uint32_t start = 0; start < num_bounds && !verdict.gone; start += kAhead * kLanes) {
        Bounds bounds[kAhead];
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            const uint32_t mine = start + k * kLanes + lane;
            bounds[k] = mine < num_bounds ? args.bounds[mine] : Bounds{kNobody, kNobody, 0, 0};
        }
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
            const bool is_near = meet(bounds[k], window);
            const uint32_t hits = __ballot_sync(kAllLanes, is_near);
            const uint32_t before = hits & ((1u << lane) - 1);
            if (is_near) near[num_near + __popc(before)] = start + k * kLanes + lane;
            num_near += __popc(hits);
        }
        const bool is_last = start + kAhead * kLanes >= num_bounds;
        if (num_near > 0 && (is_last || num_near > kNearCapacity - kAhead * kLanes)) {
            __syncwarp();
            look_at_groups<Policy>(args, settings, own, n, near, num_near, list, verdict);
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
    const NmsSettings settings = args.settings[0];
    const float4 item = args.items[own];
    const Searcher searcher = {own, Policy::kNumParts != 0 ? args.order[own].index : 0, item,
                               Policy::least(settings, item), args.item_groups[own]};
    Verdict verdict;
    verdict.gone = searcher.group == kNoGroup;
    if (!verdict.gone) {
        verdict = look_near<Policy>(args, settings, searcher, n, nears[warp], lists[warp]);
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
