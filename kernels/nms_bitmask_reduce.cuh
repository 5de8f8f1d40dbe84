// The second part of the step small: one block settles all candidates in
// rounds, and writes the survivors.
#pragma once

#include "nms_bits.cuh"

struct States {
    uint32_t kept[kRowWords];
    uint32_t open[kRowWords];
};

struct Settlement {
    // By piece, who is kept and who is open: what a round reads and what it
    // writes.
    States states[2];
    uint32_t kept_by_rank[kRowWords];
    uint32_t class_over;
};

// What a thread knows of a candidate that it settles.
template <uint32_t kEntries>
struct Settled {
    static constexpr uint32_t kAtOnce = 4;
    static_assert(kEntries % kAtOnce == 0, "entries are taken four by four");
    uint32_t index;
    uint32_t rank;
    uint32_t num_entries;
    uint32_t entries[kEntries];
    bool is_kept;
    bool is_open;

    // For a warp; entries past the most of its lanes are left as they are.
    template <typename Candidate>
    __device__ void read(const NmsArgs<Candidate>& args, uint32_t own, uint32_t n) {
        index = own;
        uint4 note = make_uint4(kNoRank, 0, 0, 0);
        if (own < n) note = reinterpret_cast<const uint4*>(args.notes.data)[own];
        rank = note.x & 0xffff;
        num_entries = note.x >> 16;
        is_kept = rank != kNoRank && num_entries == 0;
        is_open = num_entries != 0;
        const uint32_t most = __reduce_max_sync(kAllLanes, num_entries);
        const uint32_t noted[kNotedEntries] = {note.y, note.z, note.w};
#pragma unroll
        for (uint32_t e = 0; e < kNotedEntries; ++e) entries[e] = e < num_entries ? noted[e] : 0;
#pragma unroll
        for (uint32_t e = kNotedEntries; e < kEntries; ++e) entries[e] = 0;
        if (most <= kNotedEntries) return;
#pragma unroll
        for (uint32_t e = kNotedEntries; e < kEntries; ++e) {
            if (e < num_entries) entries[e] = further_entry(args, own, e);
        }
    }

    // Adds those of an entry that are kept and those that are open.
    __device__ static void look_up(const States& states, uint32_t entry, uint32_t& kept,
                                   uint32_t& open) {
        // Taken apart anew in every round: there are no registers to remember
        // all parts.
        asm volatile("" : "+r"(entry));
        const uint32_t piece = entry >> kPieceBits;
        kept |= reinterpret_cast<const uint16_t*>(states.kept)[piece] & entry;
        open |= reinterpret_cast<const uint16_t*>(states.open)[piece] & entry;
    }

    // A round; `most` is the most entries of an open candidate of the warp.
    template <typename Candidate>
    __device__ void look(const NmsArgs<Candidate>& args, const States& states, uint32_t most) {
        if (!is_open) return;
        uint32_t kept = 0;
        uint32_t open = 0;
#pragma unroll
        for (uint32_t first = 0; first < kEntries; first += kAtOnce) {
            if (first >= most) break;
#pragma unroll
            for (uint32_t e = first; e < first + kAtOnce; ++e) {
                look_up(states, entries[e], kept, open);
            }
        }
#pragma unroll 1
        for (uint32_t e = kEntries; e < num_entries; ++e) {
            look_up(states, further_entry(args, index, e), kept, open);
        }
        is_kept = kept == 0 && open == 0;
        is_open = kept == 0 && open != 0;
    }
};

// For a warp: writes the states of its candidates.
__device__ inline void write_states(States& states, uint32_t word, bool is_kept, bool is_open) {
    const uint32_t kept = __ballot_sync(kAllLanes, is_kept);
    const uint32_t open = __ballot_sync(kAllLanes, is_open);
    if (lane_of() == 0) states.kept[word] = kept;
    if (lane_of() == 0) states.open[word] = open;
}

// The rounds: who is kept. Of a one-pass suppression, who has no list.
template <typename Policy, uint32_t kEach, uint32_t kEntries, typename Candidate>
__device__ void settle(const NmsArgs<Candidate>& args, Settlement& shared,
                       Settled<kEntries> (&own)[kEach], uint32_t n) {
    uint32_t current = 0;
    while (true) {
        States& states = shared.states[current];
        bool is_open = false;
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            const uint32_t warp = k * kSmallWarps + warp_of();
            if (warp * kLanes >= n) continue;
            write_states(states, warp, own[k].is_kept, own[k].is_open);
            is_open |= own[k].is_open;
        }
        if (!__syncthreads_or(is_open && !Policy::kAnySuppresses)) return;
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            const uint32_t num = own[k].is_open ? own[k].num_entries : 0;
            const uint32_t most = __reduce_max_sync(kAllLanes, num);
            if (most != 0) own[k].look(args, states, most);
        }
        current ^= 1;
    }
}

// Settles all candidates, kEach a thread, and writes the survivors by rank.
template <typename Policy, uint32_t kEach, typename Candidate>
__device__ void nms_small_settle(const NmsArgs<Candidate>& args, Settlement& shared, uint32_t n,
                                 uint32_t max_num) {
    const uint32_t lane = lane_of();
    // Known since the last ticket was taken.
    if (threadIdx.x == 0) shared.class_over = args.ticket[1];
    Settled<kEach == 1 ? kHeldOfOne : kHeldOfTwo> own[kEach];
    Kept in_order[kEach] = {};
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t index = k * kSmallThreads + threadIdx.x;
        if (index < n) in_order[k] = args.order[index];
        own[k].read(args, index, n);
    }
    if (threadIdx.x < kRowWords) shared.kept_by_rank[threadIdx.x] = 0;
    settle<Policy>(args, shared, own, n);
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t rank = own[k].rank;
        if (own[k].is_kept) atomicOr(&shared.kept_by_rank[rank / 32], 1u << (rank % 32));
    }
    __syncthreads();
    static_assert(kRowWords == 2 * kLanes, "two words a lane");
    const uint32_t low = __popc(shared.kept_by_rank[2 * lane]);
    const uint32_t both = low + __popc(shared.kept_by_rank[2 * lane + 1]);
    uint32_t sum = both;
#pragma unroll
    for (uint32_t step = 1; step < kLanes; step *= 2) {
        const uint32_t other = __shfl_up_sync(kAllLanes, sum, step);
        if (lane >= step) sum += other;
    }
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t word = warp_of() + k * kSmallWarps;
        const uint32_t kept = shared.kept_by_rank[word];
        const uint32_t before_pair = __shfl_sync(kAllLanes, sum - both, word / 2);
        const uint32_t before_word = __shfl_sync(kAllLanes, low, word / 2);
        const uint32_t position =
            before_pair + (word % 2 != 0 ? before_word : 0) + num_lanes_before(kept);
        if ((kept >> lane & 1) == 0 || position >= max_num) continue;
        args.kept[position] = in_order[k];
        args.published[position] = in_order[k];
    }
    const uint32_t num_kept = __shfl_sync(kAllLanes, sum, kLanes - 1);
    if (threadIdx.x == 0) {
        const NmsCounts counts = {min(num_kept, max_num), shared.class_over};
        args.counts[0] = counts;
        args.published_counts[0] = counts;
        args.ticket[0] = 0;
        args.ticket[1] = 0;
    }
}
