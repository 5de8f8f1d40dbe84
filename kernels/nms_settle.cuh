// The second part of the step small: one block settles all candidates in
// rounds, and writes the survivors.
#pragma once

#include "nms_bits.cuh"

// By bit, who is kept and who is open: what a round reads and what it writes.
// Behind the bits of all stands that of nobody, neither kept nor open.
struct Settlement {
    uint32_t kept[2][kRowWords + 1];
    uint32_t open[2][kRowWords + 1];
    uint32_t kept_by_rank[kRowWords];
};

// What a thread knows of a candidate that it settles.
template <uint32_t kWords>
struct Settled {
    uint32_t bit;
    uint32_t rank;
    uint32_t num_listed;
    uint32_t list[kWords];  // bits of those who suppress it, two a word

    // All lanes of a warp have bits of one word.
    template <typename Candidate>
    __device__ void read(const NmsArgs<Candidate>& args, uint32_t own_bit, uint32_t n) {
        bit = own_bit;
        uint4 note = make_uint4(kNoRank, kNobodies, kNobodies, kNobodies);
        if (candidate_of(bit) < n) note = reinterpret_cast<const uint4*>(args.notes.data)[bit];
        rank = note.x & 0xffff;
        num_listed = note.x >> 16;
        list[0] = note.y;
        list[1] = note.z;
        list[2] = note.w;
#pragma unroll
        for (uint32_t w = kNotedWords; w < kWords; ++w) {
            list[w] = kNobodies;
            if (num_listed > 2 * w) list[w] = args.pairs[(w - kNotedWords) * num_bits_of(n) + bit];
        }
    }

    static constexpr uint32_t kNobodies = kNoBit << 16 | kNoBit;

    // Whether the bit of one in the list is set; the lists of all active lanes
    // have `most` at most.
    __device__ bool lists_one_of(const uint32_t* bits, uint32_t most) const {
        constexpr uint32_t kAtOnce = 2;
        uint32_t any = 0;
#pragma unroll
        for (uint32_t first = 0; first < kWords; first += kAtOnce) {
            if (2 * first >= most) break;
#pragma unroll
            for (uint32_t w = first; w < first + kAtOnce; ++w) {
                uint32_t two = list[w];
                // Taken apart anew in every round: there are no registers to
                // remember all parts.
                asm volatile("" : "+r"(two));
                const uint32_t a = two & 0xffff;
                const uint32_t b = two >> 16;
                any |= bits[a / 32] >> (a % 32);
                any |= bits[b / 32] >> (b % 32);
            }
        }
        return (any & 1) != 0;
    }
};

// Of a candidate with more suppressors than a list has room for: whether one is
// kept, and whether one is open.
template <typename Candidate>
__device__ void look_at_row(const NmsArgs<Candidate>& args, uint32_t bit, uint32_t n,
                            const uint32_t* kept, const uint32_t* open, bool& goes, bool& waits) {
    const uint4* row = &args.rows[bit * kRowVectors];
#pragma unroll 4
    for (uint32_t v = 0; v < num_bits_of(n) / 128; ++v) {
        const uint4 bits = row[v];
        const uint32_t w = 4 * v;
        goes |= ((bits.x & kept[w]) | (bits.y & kept[w + 1]) | (bits.z & kept[w + 2]) |
                 (bits.w & kept[w + 3])) != 0;
        waits |= ((bits.x & open[w]) | (bits.y & open[w + 1]) | (bits.z & open[w + 2]) |
                  (bits.w & open[w + 3])) != 0;
    }
}

// For a warp, a round of its word of candidates: whether one is still open.
template <uint32_t kWords, typename Candidate>
__device__ bool settle_word(const NmsArgs<Candidate>& args, Settlement& shared, uint32_t before,
                            const Settled<kWords>& own, uint32_t n) {
    const uint32_t* all_kept = shared.kept[before];
    const uint32_t* all_open = shared.open[before];
    const uint32_t word = own.bit / 32;
    uint32_t kept = all_kept[word];
    uint32_t open = all_open[word];
    if (open != 0) {
        const bool is_open = (open >> lane_of() & 1) != 0;
        bool goes = false;
        bool waits = false;
        const uint32_t most = __reduce_max_sync(kAllLanes, is_open ? own.num_listed : 0);
        if (is_open) goes = own.lists_one_of(all_kept, most);
        const bool may_wait = is_open && !goes;
        const uint32_t most_left = __reduce_max_sync(kAllLanes, may_wait ? own.num_listed : 0);
        if (may_wait && own.num_listed > 2 * kWords) {
            look_at_row(args, own.bit, n, all_kept, all_open, goes, waits);
        } else if (may_wait) {
            waits = own.lists_one_of(all_open, most_left);
        }
        kept |= __ballot_sync(kAllLanes, is_open && !goes && !waits);
        open = __ballot_sync(kAllLanes, is_open && !goes && waits);
    }
    if (lane_of() == 0) {
        shared.kept[before ^ 1][word] = kept;
        shared.open[before ^ 1][word] = open;
    }
    return open != 0;
}

// Decides who is kept; the answer is in the words returned.
template <typename Policy, uint32_t kEach, uint32_t kWords, typename Candidate>
__device__ const uint32_t* settle(const NmsArgs<Candidate>& args, Settlement& shared,
                                  const Settled<kWords> (&own)[kEach], uint32_t n) {
    bool is_open = false;
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t word = own[k].bit / 32;
        const bool is_free = own[k].num_listed == 0;
        const bool present = own[k].rank != kNoRank;
        const uint32_t kept = __ballot_sync(kAllLanes, present && is_free);
        const uint32_t open =
            __ballot_sync(kAllLanes, present && !is_free && !Policy::kAnySuppresses);
        is_open |= open != 0;
        if (lane_of() == 0) {
            shared.kept[0][word] = kept;
            shared.open[0][word] = open;
        }
    }
    if (threadIdx.x < kRowWords) shared.kept_by_rank[threadIdx.x] = 0;
    if (threadIdx.x < 2) {
        shared.kept[threadIdx.x][kRowWords] = 0;
        shared.open[threadIdx.x][kRowWords] = 0;
    }
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
