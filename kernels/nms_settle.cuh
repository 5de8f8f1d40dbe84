// The second part of the step small: one block settles all candidates in
// rounds, and writes the survivors.
#pragma once

#include "nms_bits.cuh"

// What a round reads and what it writes: by word of bits, kept and gone.
struct Settlement {
    uint2 states[2][kRowWords];
    uint32_t kept_by_rank[kRowWords];
    // Pair p of the list of bit b at p * num_bits_of(n) + b.
    uint32_t pairs[kPairs];
};

// Whether a candidate goes, and whether one of its suppressors is open.
struct Look {
    bool goes = false;
    bool open = false;

    __device__ void at(uint2 state, uint32_t bits) {
        goes |= (state.x & bits) != 0;
        open |= (~state.y & bits) != 0;
    }
};

// Looks at the suppressors of each lane's candidate `bit`, if that is pending.
template <typename Candidate>
__device__ Look look_at(const NmsArgs<Candidate>& args, const uint2* states, const uint32_t* pairs,
                        bool pending, uint32_t bit, const Note& note, uint32_t n) {
    Look look;
    if (!pending) return look;
    const uint32_t num = min(static_cast<uint32_t>(note.num_listed), list_capacity(n));
    const uint32_t distance = num_bits_of(n);
#pragma unroll 2
    for (uint32_t first = 0; first < num; first += 2) {
        const uint32_t pair = pairs[first / 2 * distance + bit];
        const uint32_t a = pair & 0xffff;
        const uint32_t b = first + 1 < num ? pair >> 16 : a;
        look.at(states[a / 32], 1u << (a % 32));
        look.at(states[b / 32], 1u << (b % 32));
    }
    if (note.num_listed <= num || look.goes) return look;
    // Those that the list has no room for.
    for (uint32_t left = note.chunks; left != 0; left &= left - 1) {
        const uint32_t chunk = __ffs(left) - 1;
        const uint4 row = args.rows[bit * kMaxChunks + chunk];
        look.at(states[4 * chunk], row.x);
        look.at(states[4 * chunk + 1], row.y);
        look.at(states[4 * chunk + 2], row.z);
        look.at(states[4 * chunk + 3], row.w);
    }
    return look;
}

// Decides who is kept and who is gone; the answer is in the states returned.
template <typename Policy, typename Candidate>
__device__ const uint2* settle(const NmsArgs<Candidate>& args, Settlement& shared,
                               const Note (&notes)[kSettled], uint32_t n) {
    const uint32_t lane = lane_of();
    bool open = false;
#pragma unroll
    for (uint32_t k = 0; k < kSettled; ++k) {
        const uint32_t word = warp_of() + k * kSmallWarps;
        const bool present = notes[k].rank != kNoRank;
        const bool is_free = notes[k].num_listed == 0;
        const uint32_t kept = __ballot_sync(kAllLanes, present && is_free);
        const uint32_t gone =
            __ballot_sync(kAllLanes, !present || (Policy::kAnySuppresses && !is_free));
        open |= (kept | gone) != kAllLanes;
        if (lane == 0) {
            shared.states[0][word] = make_uint2(kept, gone);
            shared.kept_by_rank[word] = 0;
        }
    }
    uint32_t current = 0;
    while (__syncthreads_or(open)) {
        const uint2* before = shared.states[current];
        current ^= 1;
        open = false;
#pragma unroll
        for (uint32_t k = 0; k < kSettled; ++k) {
            const uint32_t word = warp_of() + k * kSmallWarps;
            uint2 state = before[word];
            if ((state.x | state.y) != kAllLanes) {
                const bool pending = ((state.x | state.y) >> lane & 1) == 0;
                const Look look =
                    look_at(args, before, shared.pairs, pending, word * 32 + lane, notes[k], n);
                state.x |= __ballot_sync(kAllLanes, pending && !look.goes && !look.open);
                state.y |= __ballot_sync(kAllLanes, pending && look.goes);
                open |= (state.x | state.y) != kAllLanes;
            }
            if (lane == 0) shared.states[current][word] = state;
        }
    }
    return shared.states[current];
}

// Settles all candidates and writes the survivors by rank.
template <typename Policy, typename Candidate>
__device__ void nms_small_settle(const NmsArgs<Candidate>& args, Settlement& shared, uint32_t n,
                                 uint32_t max_num) {
    const uint32_t lane = lane_of();
    Note notes[kSettled];
    Kept in_order[kSettled] = {};
#pragma unroll
    for (uint32_t k = 0; k < kSettled; ++k) {
        const uint32_t bit = (warp_of() + k * kSmallWarps) * 32 + lane;
        notes[k] = {kNoRank, 0, 0};
        if (candidate_of(bit) < n) notes[k] = args.notes[bit];
        if (bit < n) in_order[k] = args.order[bit];
    }
    constexpr uint32_t kVectors = kPairs / 4 / kSmallThreads;
    uint4 vectors[kVectors];
#pragma unroll
    for (uint32_t k = 0; k < kVectors; ++k) {
        const uint32_t v = k * kSmallThreads + threadIdx.x;
        vectors[k] = make_uint4(0, 0, 0, 0);
        if (candidate_of(4 * v % num_bits_of(n)) >= n) continue;
        vectors[k] = reinterpret_cast<const uint4*>(args.pairs.data)[v];
    }
#pragma unroll
    for (uint32_t k = 0; k < kVectors; ++k) {
        reinterpret_cast<uint4*>(shared.pairs)[k * kSmallThreads + threadIdx.x] = vectors[k];
    }
    const uint2* states = settle<Policy>(args, shared, notes, n);
#pragma unroll
    for (uint32_t k = 0; k < kSettled; ++k) {
        const uint32_t kept = states[warp_of() + k * kSmallWarps].x;
        const uint32_t rank = notes[k].rank;
        if ((kept >> lane & 1) != 0) atomicOr(&shared.kept_by_rank[rank / 32], 1u << (rank % 32));
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
    for (uint32_t k = 0; k < kSettled; ++k) {
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
    if (threadIdx.x == kLanes - 1) {
        const NmsCounts counts = {min(sum, max_num), args.ticket[1]};
        args.counts[0] = counts;
        args.published_counts[0] = counts;
        args.ticket[0] = 0;
        args.ticket[1] = 0;
    }
}
