// Greedy suppression of up to kSmallCapacity candidates in one kernel.
//
// Blocks own a few candidates each. A thread holds a candidate of all and
// holds it against every own one of its block: who comes before it gives the
// rank, who comes before and suppresses it gives a row of bits. The block that
// ends last takes all rows and settles who is kept: a candidate goes when a
// bit of its row is kept and stays when all are gone. No block waits for
// another.
#pragma once

#include "nms.cuh"

constexpr uint32_t kSmallCapacity = 2048;
constexpr uint32_t kSmallThreads = 1024;
constexpr uint32_t kSmallWarps = kSmallThreads / kLanes;
// The most candidates that a block owns.
constexpr uint32_t kMaxOwn = 16;
// A row is made of chunks of 128 bits; chunk c of candidate i is
// rows[c * capacity + i].
constexpr uint32_t kChunk = 128;
constexpr uint32_t kMaxChunks = kSmallCapacity / kChunk;
constexpr uint32_t kRowWords = kSmallCapacity / 32;
// Candidates that a thread settles.
constexpr uint32_t kSettled = kSmallCapacity / kSmallThreads;
constexpr uint32_t kNoRank = 0xffff;
// Chunks of a row that a thread keeps in registers.
constexpr uint32_t kAheadChunks = 2;

// A note: rank, mask of the chunks that are not 0, score.
__device__ inline uint64_t make_note(uint32_t rank, uint32_t chunks, float score) {
    return static_cast<uint64_t>(__float_as_uint(score)) << 32 | chunks << 16 | rank;
}

// What a block knows of the candidates that it owns.
struct Owned {
    float4 items[kMaxOwn];
    uint64_t groups[kMaxOwn];
    Rank ranks[kMaxOwn];
    uint32_t words[kMaxOwn];
    uint32_t num_before[kMaxOwn];
    alignas(16) uint32_t rows[kMaxOwn][kRowWords];
};

// A candidate in the registers of a thread.
struct Held {
    float4 item;
    uint64_t group;
    Rank rank;
    uint32_t word;
    bool present;
};

// Whether the held candidate at position `i` comes before the owned one.
__device__ inline bool is_better(const Held& held, uint32_t i, const Owned& owned, uint32_t own,
                                 uint32_t first) {
    const uint32_t own_word = owned.words[own];
    if (held.word != own_word || !held.present) return held.word < own_word;
    const Rank own_rank = owned.ranks[own];
    if (held.rank.class_index != own_rank.class_index) {
        return held.rank.class_index < own_rank.class_index;
    }
    if (held.rank.source != own_rank.source) return held.rank.source < own_rank.source;
    return i < first + own;
}

// Holds candidate `i` against the owned; all lanes of the warp take part. A
// lane keeps the count and the row of one owned.
template <typename Policy>
__device__ void compare(const NmsSettings& settings, const Held& held, uint32_t i, uint32_t first,
                        uint32_t num_own, Owned& owned, uint32_t& num_before) {
    const uint32_t lane = threadIdx.x % kLanes;
    uint32_t row = 0;
#pragma unroll 4
    for (uint32_t own = 0; own < num_own; ++own) {
        const bool better = is_better(held, i, owned, own, first);
        const bool suppresses = Policy::suppresses(settings, held.item, owned.items[own]);
        bool hit = better & suppresses;
        if (hit) hit = held.group == owned.groups[own];
        const uint32_t hits = __ballot_sync(kAllLanes, hit);
        const uint32_t before = __popc(__ballot_sync(kAllLanes, better));
        if (lane == own) {
            num_before += before;
            row = hits;
        }
    }
    if (lane < num_own) owned.rows[lane][i / 32] = row;
}

template <typename Policy, typename Candidate>
__device__ Held hold(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                     const Candidate& candidate, bool is_one) {
    const bool present = is_one && takes_part<Policy>(settings, candidate);
    return {Policy::item(args, settings, candidate),
            group_of(args, settings, candidate.rank.class_index), candidate.rank,
            order_word(candidate.rank.score, present), present};
}

// Rows and notes of the block's own candidates.
template <typename Policy, typename Candidate>
__device__ void nms_small_compare(const NmsArgs<Candidate>& args, uint32_t first, uint32_t num_own,
                                  uint32_t* staged) {
    constexpr uint32_t kWords = sizeof(Candidate) / 4;
    __shared__ Owned owned;
    const uint32_t capacity = min(static_cast<uint32_t>(args.candidates.len), kSmallCapacity);
    const uint32_t lane = threadIdx.x % kLanes;
    const NmsSettings settings = args.settings[0];
    const uint32_t n = min(num_candidates(args), kSmallCapacity);
    const bool is_owner = threadIdx.x < num_own && first + threadIdx.x < capacity;
    Candidate mine{};
    if (is_owner) mine = args.candidates[first + threadIdx.x];
    uint32_t num_before = 0;
    for (uint32_t piece = 0; piece < max(n, 1u); piece += kSmallThreads) {
        if (piece != 0) __syncthreads();
        // Of the first piece what lies past the number of candidates is read
        // with the others, so as not to wait for the number, and left out.
        const uint32_t* words = reinterpret_cast<const uint32_t*>(args.candidates.data + piece);
        const uint32_t num_words = min(kSmallThreads, capacity - piece) * kWords;
        uint32_t coming[kWords];
#pragma unroll
        for (uint32_t k = 0; k < kWords; ++k) {
            const uint32_t w = k * kSmallThreads + threadIdx.x;
            coming[k] = w < num_words ? words[w] : 0;
        }
#pragma unroll
        for (uint32_t k = 0; k < kWords; ++k) staged[k * kSmallThreads + threadIdx.x] = coming[k];
        if (piece == 0 && is_owner) {
            const uint32_t own = threadIdx.x;
            const Held held = hold<Policy>(args, settings, mine, true);
            owned.items[own] = held.item;
            owned.groups[own] = held.group;
            owned.ranks[own] = held.rank;
            owned.words[own] = held.word;
            if (held.present && first + own < n) check_class<Policy>(args, settings, mine);
        }
        if (piece == 0 && threadIdx.x < kMaxOwn) owned.num_before[threadIdx.x] = 0;
        __syncthreads();
        const uint32_t i = piece + threadIdx.x;
        Candidate candidate;
        memcpy(&candidate, &staged[threadIdx.x * kWords], sizeof(Candidate));
        const Held held = hold<Policy>(args, settings, candidate, i < n);
        compare<Policy>(settings, held, i, first, num_own, owned, num_before);
    }
    if (first >= n) return;
    if (lane < num_own) atomicAdd(&owned.num_before[lane], num_before);
    __syncthreads();
    // 16 lanes store one row.
    const uint32_t own = threadIdx.x / kMaxChunks;
    const uint32_t chunk = threadIdx.x % kMaxChunks;
    const bool here = own < num_own && first + own < n;
    uint4 bits = make_uint4(0, 0, 0, 0);
    if (here && chunk * kChunk < n) bits = reinterpret_cast<uint4*>(owned.rows[own])[chunk];
    const bool some = (bits.x | bits.y | bits.z | bits.w) != 0;
    if (some) args.rows[chunk * args.candidates.len + first + own] = bits;
    const uint32_t chunks = __ballot_sync(kAllLanes, some) >> (lane & 16) & 0xffff;
    if (here && chunk == 0) {
        const uint32_t rank = owned.words[own] == kLast ? kNoRank : owned.num_before[own];
        args.notes[first + own] = make_note(rank, chunks, owned.ranks[own].score);
    }
}

// Four words that other warps may be changing.
__device__ inline uint4 load_now(const uint32_t* words) {
    uint4 now;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(now.x), "=r"(now.y), "=r"(now.z), "=r"(now.w)
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(words)))
                 : "memory");
    return now;
}

__device__ inline void touch(const uint4* row) {
    uint32_t unused;
    asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(unused) : "l"(row));
}

__device__ inline bool meet(uint4 a, uint4 b) {
    return ((a.x & b.x) | (a.y & b.y) | (a.z & b.z) | (a.w & b.w)) != 0;
}

// Settles all candidates and writes the survivors, which are put in order in
// shared memory first: one after the other they reach the host much faster.
template <typename Candidate>
__device__ void nms_small_settle(const NmsArgs<Candidate>& args, uint32_t n, Kept* survivors) {
    __shared__ uint32_t num_kept;
    __shared__ __align__(16) uint32_t kept_bits[kRowWords];
    __shared__ __align__(16) uint32_t gone_bits[kRowWords];
    __shared__ uint32_t kept_by_rank[kRowWords];
    __shared__ uint32_t positions[kRowWords];
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    // Word w of the bits is written by warp w % kSmallWarps alone.
    uint64_t notes[kSettled];
    uint32_t pending[kSettled];
    // The rows' first chunks that are not 0.
    uint4 ahead[kSettled][kAheadChunks];
#pragma unroll
    for (uint32_t k = 0; k < kSettled; ++k) {
        const uint32_t i = threadIdx.x + k * kSmallThreads;
        notes[k] = i < n ? args.notes[i] : kNoRank;
    }
#pragma unroll
    for (uint32_t k = 0; k < kSettled; ++k) {
        const bool present = (notes[k] & 0xffff) != kNoRank;
        pending[k] = present ? static_cast<uint32_t>(notes[k]) >> 16 : 0;
        const uint32_t kept = __ballot_sync(kAllLanes, present && pending[k] == 0);
        const uint32_t gone = __ballot_sync(kAllLanes, !present);
        if (lane == 0) {
            kept_bits[warp + k * kSmallWarps] = kept;
            gone_bits[warp + k * kSmallWarps] = gone;
            kept_by_rank[warp + k * kSmallWarps] = 0;
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < kSettled; ++k) {
        uint32_t chunks = pending[k];
#pragma unroll
        for (uint32_t c = 0; c < kAheadChunks; ++c, chunks &= chunks - 1) {
            if (chunks == 0) continue;
            const uint32_t i = threadIdx.x + k * kSmallThreads;
            ahead[k][c] = args.rows[(__ffs(chunks) - 1) * args.candidates.len + i];
        }
        // The others come into the first level cache, which nobody waits for.
        for (; chunks != 0; chunks &= chunks - 1) {
            const uint32_t i = threadIdx.x + k * kSmallThreads;
            touch(&args.rows[(__ffs(chunks) - 1) * args.candidates.len + i]);
        }
    }
    __syncthreads();
    bool waiting = true;
    while (waiting) {
        uint32_t left = 0;
#pragma unroll
        for (uint32_t k = 0; k < kSettled; ++k) {
            if (!__any_sync(kAllLanes, pending[k] != 0)) continue;
            const uint32_t i = threadIdx.x + k * kSmallThreads;
            const bool was_pending = pending[k] != 0;
            bool goes = false;
            // One chunk: whether one of the row is kept, or all are gone.
            const auto look = [&](uint32_t chunk, uint4 row) {
                goes |= meet(row, load_now(&kept_bits[4 * chunk]));
                const uint4 gone = load_now(&gone_bits[4 * chunk]);
                if (!meet(row, make_uint4(~gone.x, ~gone.y, ~gone.z, ~gone.w))) {
                    pending[k] &= ~(1u << chunk);
                }
            };
            uint32_t chunks = was_pending ? static_cast<uint32_t>(notes[k]) >> 16 : 0;
#pragma unroll
            for (uint32_t c = 0; c < kAheadChunks; ++c, chunks &= chunks - 1) {
                const bool is_open = (pending[k] & chunks & (0u - chunks)) != 0;
                if (is_open && !goes) look(__ffs(chunks) - 1, ahead[k][c]);
            }
            for (; chunks != 0 && !goes; chunks &= chunks - 1) {
                const uint32_t chunk = __ffs(chunks) - 1;
                if ((pending[k] >> chunk & 1) == 0) continue;
                look(chunk, args.rows[chunk * args.candidates.len + i]);
            }
            if (goes) pending[k] = 0;
            const uint32_t stay =
                __ballot_sync(kAllLanes, was_pending && pending[k] == 0 && !goes);
            const uint32_t go = __ballot_sync(kAllLanes, goes);
            if (lane == 0) {
                volatile uint32_t* kept = &kept_bits[warp + k * kSmallWarps];
                volatile uint32_t* gone = &gone_bits[warp + k * kSmallWarps];
                if (stay != 0) *kept = *kept | stay;
                if (go != 0) *gone = *gone | go;
            }
            left |= pending[k];
        }
        waiting = __any_sync(kAllLanes, left != 0);
    }
    __syncwarp();
    bool is_kept[kSettled];
#pragma unroll
    for (uint32_t k = 0; k < kSettled; ++k) {
        is_kept[k] = (kept_bits[warp + k * kSmallWarps] >> lane & 1) != 0;
        const uint32_t rank = notes[k] & 0xffff;
        if (is_kept[k]) atomicOr(&kept_by_rank[rank / 32], 1u << (rank % 32));
    }
    __syncthreads();
    const uint32_t max_num = args.settings[0].max_num;
    if (warp == 0) {
        static_assert(kRowWords == 2 * kLanes, "two words a lane");
        const uint32_t low = __popc(kept_by_rank[2 * lane]);
        const uint32_t both = low + __popc(kept_by_rank[2 * lane + 1]);
        uint32_t sum = both;
#pragma unroll
        for (uint32_t step = 1; step < kLanes; step *= 2) {
            const uint32_t other = __shfl_up_sync(kAllLanes, sum, step);
            if (lane >= step) sum += other;
        }
        positions[2 * lane] = sum - both;
        positions[2 * lane + 1] = sum - both + low;
        if (lane == kLanes - 1) {
            num_kept = min(sum, max_num);
            const NmsCounts counts = {min(sum, max_num), args.ticket[1]};
            args.counts[0] = counts;
            args.published_counts[0] = counts;
            args.ticket[0] = 0;
            args.ticket[1] = 0;
        }
    }
    __syncthreads();
#pragma unroll
    for (uint32_t k = 0; k < kSettled; ++k) {
        if (!is_kept[k]) continue;
        const uint32_t rank = notes[k] & 0xffff;
        const uint32_t before = kept_by_rank[rank / 32] & ((1u << (rank % 32)) - 1);
        const uint32_t position = positions[rank / 32] + __popc(before);
        survivors[position] = {threadIdx.x + k * kSmallThreads,
                               __uint_as_float(static_cast<uint32_t>(notes[k] >> 32))};
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < num_kept; i += kSmallThreads) {
        args.kept[i] = survivors[i];
        args.published[i] = survivors[i];
    }
}

template <typename Policy, typename Candidate>
__device__ void nms_small(const NmsArgs<Candidate>& args) {
    __shared__ bool is_last;
    // First candidates, at the end survivors.
    __shared__ alignas(16) unsigned char scratch[kSmallThreads * sizeof(Candidate)];
    static_assert(sizeof(scratch) >= kSmallCapacity * sizeof(Kept), "room for all");
    const uint32_t capacity = min(static_cast<uint32_t>(args.candidates.len), kSmallCapacity);
    const uint32_t num_own = min((capacity + gridDim.x - 1) / gridDim.x, kMaxOwn);
    nms_small_compare<Policy>(args, blockIdx.x * num_own, num_own,
                              reinterpret_cast<uint32_t*>(scratch));
    __syncthreads();
    if (threadIdx.x == 0) {
        // What the other threads stored comes before the ticket for all.
        __threadfence();
        is_last = atomicAdd(&args.ticket[0], 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!is_last) return;
    nms_small_settle(args, min(num_candidates(args), kSmallCapacity),
                     reinterpret_cast<Kept*>(scratch));
}
