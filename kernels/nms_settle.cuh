// The second part of the step small: one block settles all candidates in
// rounds, and writes the survivors.
#pragma once

#include "nms_bits.cuh"

// What a round reads and what it writes. By bit, who is kept and who is open;
// and the same as states of two bits, behind which stands that of nobody.
struct Settlement {
    uint32_t kept[2][kRowWords];
    uint32_t open[2][kRowWords];
    uint32_t states[2][kStateWords];
    uint32_t kept_by_rank[kRowWords];
};

constexpr uint32_t kIsKept = 1;
constexpr uint32_t kIsOpen = 2;

// What a thread knows of a candidate that it settles.
template <uint32_t kWords>
struct Settled {
    uint32_t bit;
    uint32_t rank;
    uint32_t num_listed;
    uint32_t list[kWords];  // entries, two a word

    template <typename Candidate>
    __device__ void read(const NmsArgs<Candidate>& args, uint32_t own_bit, uint32_t n) {
        bit = own_bit;
        uint4 note = make_uint4(kNoRank, 0, 0, 0);
        if (candidate_of(bit) < n) note = reinterpret_cast<const uint4*>(args.notes.data)[bit];
        rank = note.x & 0xffff;
        num_listed = note.x >> 16;
        list[0] = note.y;
        list[1] = note.z;
        list[2] = note.w;
#pragma unroll
        for (uint32_t w = kNotedWords; w < kWords; ++w) {
            list[w] = entry_for(kNoBit) * 0x10001u;
            if (num_listed > 2 * w) list[w] = args.pairs[(w - kNotedWords) * num_bits_of(n) + bit];
        }
    }

    // The states of two in the list, one over the other.
    __device__ uint32_t states_of(const uint32_t* states, uint32_t w) const {
        uint32_t two = list[w];
        // Taken apart anew in every round: there are no registers to remember
        // all parts.
        asm volatile("" : "+r"(two));
        const uint32_t first = two & 0xffff;
        const uint32_t second = two >> 16;
        return states[first / 32] >> (first % 32) | states[second / 32] >> (second % 32);
    }
};

// Of a candidate with more suppressors than a list has room for: the states of
// all, one over the other.
template <typename Candidate>
__device__ uint32_t states_of_row(const NmsArgs<Candidate>& args, uint32_t bit, uint32_t n,
                                  const uint32_t* kept, const uint32_t* open) {
    const uint4* row = &args.rows[bit * kRowVectors];
    uint32_t some_kept = 0;
    uint32_t some_open = 0;
#pragma unroll 1
    for (uint32_t v = 0; v < num_bits_of(n) / 128; ++v) {
        const uint4 bits = row[v];
        const uint32_t w = 4 * v;
        some_kept |= (bits.x & kept[w]) | (bits.y & kept[w + 1]) | (bits.z & kept[w + 2]) |
                     (bits.w & kept[w + 3]);
        some_open |= (bits.x & open[w]) | (bits.y & open[w + 1]) | (bits.z & open[w + 2]) |
                     (bits.w & open[w + 3]);
    }
    return (some_kept != 0 ? kIsKept : 0) | (some_open != 0 ? kIsOpen : 0);
}

// For a warp: writes the states of its word of candidates.
__device__ inline void store_states(Settlement& shared, uint32_t to, uint32_t word, uint32_t kept,
                                    uint32_t open) {
    const uint32_t lane = lane_of();
    const uint32_t own = (kept >> lane & 1) * kIsKept | (open >> lane & 1) * kIsOpen;
    const uint32_t shifted = own << 2 * (lane % 16);
    const uint32_t low = __reduce_or_sync(kAllLanes, lane < 16 ? shifted : 0);
    const uint32_t high = __reduce_or_sync(kAllLanes, lane < 16 ? 0 : shifted);
    if (lane < 2) shared.states[to][2 * word + lane] = lane == 0 ? low : high;
    if (lane == 2) shared.kept[to][word] = kept;
    if (lane == 3) shared.open[to][word] = open;
}

// For a warp, a round of its word of candidates: whether one is still open.
template <uint32_t kWords, typename Candidate>
__device__ bool settle_word(const NmsArgs<Candidate>& args, Settlement& shared, uint32_t before,
                            const Settled<kWords>& own, uint32_t n) {
    const uint32_t word = own.bit / 32;
    uint32_t kept = shared.kept[before][word];
    uint32_t open = shared.open[before][word];
    if (open != 0) {
        const uint32_t* states = shared.states[before];
        const bool is_open = (open >> lane_of() & 1) != 0;
        // The best comes first and mostly decides.
        uint32_t seen = is_open ? own.states_of(states, 0) : kIsKept;
        const bool looks_on = (seen & kIsKept) == 0;
        const uint32_t most = __reduce_max_sync(kAllLanes, looks_on ? own.num_listed : 0);
#pragma unroll
        for (uint32_t w = 1; w < kWords; w += 2) {
            if (2 * w >= most) break;
            if (looks_on) seen |= own.states_of(states, w);
            if (looks_on && w + 1 < kWords) seen |= own.states_of(states, w + 1);
        }
        if (own.num_listed > 2 * kWords && (seen & kIsKept) == 0) {
            seen = states_of_row(args, own.bit, n, shared.kept[before], shared.open[before]);
        }
        kept |= __ballot_sync(kAllLanes, is_open && (seen & (kIsKept | kIsOpen)) == 0);
        open = __ballot_sync(kAllLanes, is_open && (seen & (kIsKept | kIsOpen)) == kIsOpen);
    }
    store_states(shared, before ^ 1, word, kept, open);
    return open != 0;
}

// Decides who is kept; the answer is in the words returned.
template <typename Policy, uint32_t kEach, uint32_t kWords, typename Candidate>
__device__ const uint32_t* settle(const NmsArgs<Candidate>& args, Settlement& shared,
                                  const Settled<kWords> (&own)[kEach], uint32_t n) {
    bool is_open = false;
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const bool is_free = own[k].num_listed == 0;
        const bool present = own[k].rank != kNoRank;
        const uint32_t kept = __ballot_sync(kAllLanes, present && is_free);
        const uint32_t open =
            __ballot_sync(kAllLanes, present && !is_free && !Policy::kAnySuppresses);
        is_open |= open != 0;
        store_states(shared, 0, own[k].bit / 32, kept, open);
    }
    if (threadIdx.x < kRowWords) shared.kept_by_rank[threadIdx.x] = 0;
    if (threadIdx.x < 2) shared.states[threadIdx.x][kStateWords - 1] = 0;
    uint32_t current = 0;
    while (__syncthreads_or(is_open)) {
        is_open = false;
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            is_open |= settle_word(args, shared, current, own[k], n);
        }
        current ^= 1;
    }
    return shared.kept[current];
}

// Settles all candidates, kEach a thread, and writes the survivors by rank.
template <typename Policy, uint32_t kEach, typename Candidate>
__device__ void nms_small_settle(const NmsArgs<Candidate>& args, Settlement& shared, uint32_t n,
                                 uint32_t max_num) {
    const uint32_t lane = lane_of();
    // Known since the last ticket was taken.
    const uint32_t class_over = threadIdx.x == 0 ? args.ticket[1] : 0;
    Settled<kListWords / kEach> own[kEach];
    Kept in_order[kEach] = {};
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t bit = (warp_of() + k * kSmallWarps) * 32 + lane;
        own[k].read(args, bit, n);
        if (bit < n) in_order[k] = args.order[bit];
    }
    const uint32_t* all_kept = settle<Policy>(args, shared, own, n);
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t rank = own[k].rank;
        if ((all_kept[own[k].bit / 32] >> lane & 1) != 0) {
            atomicOr(&shared.kept_by_rank[rank / 32], 1u << (rank % 32));
        }
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
        const NmsCounts counts = {min(num_kept, max_num), class_over};
        args.counts[0] = counts;
        args.published_counts[0] = counts;
        args.ticket[0] = 0;
        args.ticket[1] = 0;
    }
}
