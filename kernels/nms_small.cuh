// Greedy suppression of up to kSmallCapacity candidates in one kernel.
//
// A block owns a few candidates, its rows; all candidates are its columns. A
// thread holds some columns against a row: who comes before it gives the row's
// rank, who comes before and suppresses it a bit. A warp then lists the bits of
// a row. The block that ends last settles all in rounds: a candidate goes when
// one of its list is kept and stays when all are gone. No block waits for
// another.
//
// Column c of a block's half (kHalf candidates) is bit c / kPieces of piece
// c % kPieces, so that neighbouring threads read neighbouring columns.
#pragma once

#include "nms_args.cuh"

constexpr uint32_t kSmallCapacity = 2048;
constexpr uint32_t kSmallThreads = 512;
constexpr uint32_t kSmallWarps = kSmallThreads / kLanes;
// The most candidates that a block owns: a warp lists each.
constexpr uint32_t kMaxRows = kSmallWarps;
// Candidates that are in shared memory together.
constexpr uint32_t kHalf = 1024;
constexpr uint32_t kPieces = 64;
constexpr uint32_t kPieceBits = kHalf / kPieces;
constexpr uint32_t kRowWords = kSmallCapacity / 32;
constexpr uint32_t kRowGroups = kSmallThreads / kPieces;
constexpr uint32_t kRowsOfThread = kMaxRows / kRowGroups;
// Chunks of 32 candidates that a warp brings in for a half.
constexpr uint32_t kChunksOfWarp = kHalf / kSmallThreads;
// Columns that a thread settles.
constexpr uint32_t kSettled = kSmallCapacity / kSmallThreads;
constexpr uint32_t kNoRank = 0xffff;
// Better suppressors that a list holds; longer ones are read as bits.
constexpr uint32_t kListed = 16;

static_assert(kPieceBits == 16, "a piece is half a word");
static_assert(kListed == 16, "a list is two times 16 bytes");

// Between candidates and bits of a row.
__device__ inline uint32_t candidate_of(uint32_t bit) {
    const uint32_t piece = bit / kPieceBits;
    return piece / kPieces * kHalf + bit % kPieceBits * kPieces + piece % kPieces;
}

__device__ inline uint32_t bit_of(uint32_t candidate) {
    const uint32_t column = candidate % kHalf;
    const uint32_t piece = candidate / kHalf * kPieces + column % kPieces;
    return piece * kPieceBits + column / kPieces;
}

// A note: rank, number of better suppressors, score.
__device__ inline uint64_t make_note(uint32_t rank, uint32_t num_listed, float score) {
    return static_cast<uint64_t>(__float_as_uint(score)) << 32 | num_listed << 16 | rank;
}

__device__ inline uint32_t rank_of(uint64_t note) { return note & 0xffff; }
__device__ inline uint32_t num_listed_of(uint64_t note) { return note >> 16 & 0xffff; }
__device__ inline float score_of(uint64_t note) {
    return __uint_as_float(static_cast<uint32_t>(note >> 32));
}

template <typename Candidate>
struct Comparison {
    static constexpr uint32_t kWords = sizeof(Candidate) / 4;
    float4 items[kHalf];
    uint32_t words[kHalf];  // `order_word`
    uint4 staged[kSmallWarps][kLanes * kWords / 4];
    float4 row_items[kMaxRows];
    Rank row_ranks[kMaxRows];
    uint32_t row_words[kMaxRows];  // 0 where the row takes no part: nobody is below
    uint32_t num_before[kMaxRows];
    uint32_t bits[kMaxRows][kRowWords];
};

// What a round reads and what it writes: by word of bits, kept and gone.
struct Settlement {
    alignas(16) uint2 states[2][kRowWords];
    uint32_t kept_by_rank[kRowWords];
};

// 32 candidates as they lie in memory, a part in every lane.
template <typename Candidate>
struct Chunk {
    static constexpr uint32_t kWords = sizeof(Candidate) / 4;
    static constexpr uint32_t kVectors = kLanes * kWords / 4;
    static constexpr uint32_t kEach = (kVectors + kLanes - 1) / kLanes;
    uint4 vectors[kEach];

    // The chunk that begins with candidate `first`, of which `num` are read.
    __device__ void fetch(const Candidate* candidates, uint32_t first, uint32_t num) {
        const uint32_t* words = reinterpret_cast<const uint32_t*>(candidates + first);
        const uint32_t num_words = first < num ? (num - first) * kWords : 0;
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            const uint32_t w = (k * kLanes + lane_of()) * 4;
            vectors[k] = make_uint4(0, 0, 0, 0);
            if (k * kLanes + lane_of() >= kVectors) continue;
            if (w + 4 <= num_words) {
                vectors[k] = *reinterpret_cast<const uint4*>(words + w);
            } else if (w < num_words) {
                vectors[k].x = words[w];
                if (w + 1 < num_words) vectors[k].y = words[w + 1];
                if (w + 2 < num_words) vectors[k].z = words[w + 2];
            }
        }
    }

    // The lane's own candidate; all lanes of the warp take part.
    __device__ Candidate unpack(uint4* staged) const {
        __syncwarp();
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            if (k * kLanes + lane_of() < kVectors) staged[k * kLanes + lane_of()] = vectors[k];
        }
        __syncwarp();
        Candidate candidate;
        memcpy(&candidate, reinterpret_cast<const uint32_t*>(staged) + lane_of() * kWords,
               sizeof(Candidate));
        return candidate;
    }
};

// For `row`, below the number of candidates: what the columns are held against.
template <typename Policy, typename Candidate>
__device__ void bring_row(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                          Comparison<Candidate>& shared, uint32_t row, const Candidate& candidate) {
    const bool present = takes_part<Policy>(settings, candidate);
    shared.row_items[row] = Policy::item(args, settings, candidate);
    shared.row_ranks[row] = candidate.rank;
    shared.row_words[row] = present ? order_word(candidate.rank.score, true) : 0;
    shared.num_before[row] = 0;
    if (present) check_class<Policy>(args, settings, candidate);
}

// Among columns of the row's score: who comes before it by class and source.
template <typename Policy, typename Candidate>
__device__ void compare_equals(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                               const Comparison<Candidate>& shared, uint32_t row, uint32_t own,
                               uint32_t start, uint32_t& bits, uint32_t& num_before) {
    const uint32_t word = shared.row_words[row];
    const uint64_t key = static_cast<uint64_t>(word) << 32 | own;
    for (uint32_t k = 0; k < kPieceBits; ++k) {
        const uint32_t column = k * kPieces + threadIdx.x % kPieces;
        const uint64_t other = static_cast<uint64_t>(word) << 32 | (start + column);
        if (start + column >= args.candidates.len || shared.words[column] != word) continue;
        if (!precedes(other, key, args.candidates.data)) continue;
        ++num_before;
        const bool hit = Policy::suppresses(settings, shared.items[column], shared.row_items[row]);
        bits |= static_cast<uint32_t>(hit) << k;
    }
}

// Holds the half's columns against the rows: a thread one piece against some
// rows, all lanes of a warp the same.
template <typename Policy, typename Candidate>
__device__ void compare(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                        Comparison<Candidate>& shared, uint32_t start, uint32_t n) {
    const uint32_t piece = threadIdx.x % kPieces;
    const uint32_t first_row = threadIdx.x / kPieces;
    const uint32_t num_bits = (min(n - start, kHalf) + kPieces - 1) / kPieces;
#pragma unroll 1
    for (uint32_t r = 0; r < kRowsOfThread; ++r) {
        const uint32_t row = first_row + r * kRowGroups;
        const uint32_t own = blockIdx.x + row * gridDim.x;
        if (own >= n) return;
        const uint32_t word = shared.row_words[row];
        const float4 item = shared.row_items[row];
        uint32_t bits = 0;
        uint32_t num_below = 0;
        uint32_t num_at_most = 0;
#pragma unroll 4
        for (uint32_t k = 0; k < num_bits; ++k) {
            const uint32_t column = k * kPieces + piece;
            const uint32_t other = shared.words[column];
            const bool below = other < word;
            const bool hit = below & Policy::suppresses(settings, shared.items[column], item);
            num_below += below;
            num_at_most += other <= word;
            bits |= static_cast<uint32_t>(hit) << k;
        }
        const bool is_own_here = own - start < kHalf && (own - start) % kPieces == piece;
        if (word != 0 && num_at_most - num_below > is_own_here) {
            compare_equals<Policy>(args, settings, shared, row, own, start, bits, num_below);
        }
        reinterpret_cast<uint16_t*>(shared.bits[row])[start / kHalf * kPieces + piece] =
            static_cast<uint16_t>(bits);
        const uint32_t sum = __reduce_add_sync(kAllLanes, num_below);
        if (lane_of() == 0 && sum != 0) atomicAdd(&shared.num_before[row], sum);
    }
}

// For a warp: lists the bits of its row, those of other groups left out.
template <typename Policy, typename Candidate>
__device__ void list_row(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                         const Comparison<Candidate>& shared, uint32_t row, uint32_t own,
                         uint32_t n) {
    const uint32_t lane = lane_of();
    const uint32_t own_bit = bit_of(own);
    const uint32_t num_words = n > kHalf ? kRowWords : kRowWords / 2;
    const uint32_t* words = shared.bits[row];
    const Rank rank = shared.row_ranks[row];
    if (shared.row_words[row] == 0) {
        if (lane == 0) args.notes[own_bit] = kNoRank;
        return;
    }
    const bool agnostic = settings.class_mode == 1;
    const uint64_t group = group_of(args, settings, rank.class_index);
    uint16_t* list = reinterpret_cast<uint16_t*>(&args.lists[2 * own_bit]);
    uint32_t num_listed = 0;
    // The lane's words of what is left.
    uint32_t left[kRowWords / kLanes] = {};
#pragma unroll
    for (uint32_t k = 0; k < kRowWords / kLanes; ++k) {
        const uint32_t mine = k * kLanes < num_words ? words[k * kLanes + lane] : 0;
        uint32_t some = __ballot_sync(kAllLanes, mine != 0);
        for (; some != 0; some &= some - 1) {
            const uint32_t w = __ffs(some) - 1;
            const uint32_t bit = (k * kLanes + w) * 32 + lane;
            bool hit = (__shfl_sync(kAllLanes, mine, w) >> lane & 1) != 0;
            const uint32_t better = candidate_of(bit);
            if (hit && !agnostic) {
                const uint32_t class_index = args.candidates[better].rank.class_index;
                hit = group_of(args, settings, class_index) == group;
            }
            if (hit) hit = surely_suppresses<Policy>(args, settings, better, own);
            const uint32_t hits = __ballot_sync(kAllLanes, hit);
            if (lane == w) left[k] = hits;
            const uint32_t position = num_listed + num_lanes_before(hits);
            if (hit && position < kListed) list[position] = static_cast<uint16_t>(bit);
            num_listed += __popc(hits);
        }
    }
    if (num_listed > kListed) {
        uint32_t* row_words = reinterpret_cast<uint32_t*>(&args.rows[own_bit * (kRowWords / 4)]);
#pragma unroll
        for (uint32_t k = 0; k < kRowWords / kLanes; ++k) row_words[k * kLanes + lane] = left[k];
    }
    if (lane == 0) {
        const uint32_t before = shared.num_before[row];
        args.notes[own_bit] = make_note(before, num_listed, rank.score);
        args.order[before] = {own, rank.score};
    }
}

// Brings a half that was fetched into shared memory.
template <typename Policy, typename Candidate>
__device__ void bring_columns(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                              Comparison<Candidate>& shared,
                              const Chunk<Candidate> (&chunks)[kChunksOfWarp], uint32_t start,
                              uint32_t n) {
#pragma unroll
    for (uint32_t k = 0; k < kChunksOfWarp; ++k) {
        const uint32_t column = (k * kSmallWarps + warp_of()) * kLanes + lane_of();
        const Candidate candidate = chunks[k].unpack(shared.staged[warp_of()]);
        const bool present = start + column < n && takes_part<Policy>(settings, candidate);
        shared.items[column] = Policy::item(args, settings, candidate);
        shared.words[column] = order_word(candidate.rank.score, present);
    }
}

// Notes, lists and rows of the block's own candidates. The first chunk was
// fetched before.
template <typename Policy, typename Candidate>
__device__ void nms_small_compare(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                                  Comparison<Candidate>& shared,
                                  Chunk<Candidate> (&chunks)[kChunksOfWarp], uint32_t n) {
    const uint32_t warp = warp_of();
    const auto fetch = [&](uint32_t start, uint32_t first_chunk) {
#pragma unroll
        for (uint32_t k = 0; k < kChunksOfWarp; ++k) {
            const uint32_t first = start + (k * kSmallWarps + warp) * kLanes;
            if (k >= first_chunk) chunks[k].fetch(args.candidates.data, first, n);
        }
    };
    fetch(0, 1);
    const uint32_t row = blockIdx.x + threadIdx.x * gridDim.x;
    if (threadIdx.x < kMaxRows && row < n) {
        bring_row<Policy>(args, settings, shared, threadIdx.x, args.candidates[row]);
    }
    for (uint32_t start = 0; start < n; start += kHalf) {
        if (start != 0) __syncthreads();
        bring_columns<Policy>(args, settings, shared, chunks, start, n);
        __syncthreads();
        if (start + kHalf < n) fetch(start + kHalf, 0);
        compare<Policy>(args, settings, shared, start, n);
    }
    __syncthreads();
    const uint32_t own = blockIdx.x + warp * gridDim.x;
    if (own < n) list_row<Policy>(args, settings, shared, warp, own, n);
}

// Whether a candidate goes, and whether one of its list is open.
struct Look {
    bool goes = false;
    bool open = false;

    __device__ void at(uint2 state, uint32_t bits) {
        goes |= (state.x & bits) != 0;
        open |= (~state.y & bits) != 0;
    }
};

// For a warp: looks at the suppressors of each lane's candidate whose `bit` is
// pending.
template <typename Candidate>
__device__ Look look_at(const NmsArgs<Candidate>& args, const uint2* states, bool pending,
                        uint32_t bit, uint32_t num_words) {
    Look look;
    const uint32_t num = pending ? num_listed_of(args.notes[bit]) : 0;
    if (num > kListed) {
        for (uint32_t w = 0; w < num_words; w += 4) {
            const uint4 row = args.rows[(bit * kRowWords + w) / 4];
            const uint4 low = *reinterpret_cast<const uint4*>(&states[w]);
            const uint4 high = *reinterpret_cast<const uint4*>(&states[w + 2]);
            look.at(make_uint2(low.x, low.y), row.x);
            look.at(make_uint2(low.z, low.w), row.y);
            look.at(make_uint2(high.x, high.y), row.z);
            look.at(make_uint2(high.z, high.w), row.w);
        }
        return look;
    }
    for (uint32_t first = 0; first < num; first += kListed / 2) {
        const uint4 list = args.lists[2 * bit + first / (kListed / 2)];
        const uint32_t pairs[4] = {list.x, list.y, list.z, list.w};
#pragma unroll
        for (uint32_t k = 0; k < kListed / 2; ++k) {
            const uint32_t other = pairs[k / 2] >> (k % 2 * 16) & 0xffff;
            if (first + k < num) look.at(states[other / 32], 1u << (other % 32));
        }
    }
    return look;
}

// Decides who is kept and who is gone; the answer is in the states returned.
template <typename Policy, typename Candidate>
__device__ const uint2* settle(const NmsArgs<Candidate>& args, Settlement& shared, uint32_t n) {
    const uint32_t lane = lane_of();
    const uint32_t num_words = n > kHalf ? kRowWords : kRowWords / 2;
    bool open = false;
#pragma unroll
    for (uint32_t k = 0; k < kSettled; ++k) {
        const uint32_t word = warp_of() + k * kSmallWarps;
        const uint32_t bit = word * 32 + lane;
        const uint64_t note = candidate_of(bit) < n ? args.notes[bit] : kNoRank;
        const bool present = rank_of(note) != kNoRank;
        const bool is_free = num_listed_of(note) == 0;
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
#pragma unroll 1
        for (uint32_t word = warp_of(); word < kRowWords; word += kSmallWarps) {
            uint2 state = before[word];
            if ((state.x | state.y) != kAllLanes) {
                const bool pending = ((state.x | state.y) >> lane & 1) == 0;
                const Look look = look_at(args, before, pending, word * 32 + lane, num_words);
                const bool stays = pending && !look.goes && !look.open;
                state.x |= __ballot_sync(kAllLanes, stays);
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
    const uint2* states = settle<Policy>(args, shared, n);
#pragma unroll
    for (uint32_t k = 0; k < kSettled; ++k) {
        const uint32_t word = warp_of() + k * kSmallWarps;
        if ((states[word].x >> lane & 1) == 0) continue;
        const uint32_t rank = rank_of(args.notes[word * 32 + lane]);
        atomicOr(&shared.kept_by_rank[rank / 32], 1u << (rank % 32));
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
        if ((kept >> lane & 1) == 0) continue;
        const uint32_t position =
            before_pair + (word % 2 != 0 ? before_word : 0) + num_lanes_before(kept);
        if (position >= max_num) continue;
        const Kept survivor = args.order[word * 32 + lane];
        args.kept[position] = survivor;
        args.published[position] = survivor;
    }
    if (threadIdx.x == kLanes - 1) {
        const NmsCounts counts = {min(sum, max_num), args.ticket[1]};
        args.counts[0] = counts;
        args.published_counts[0] = counts;
        args.ticket[0] = 0;
        args.ticket[1] = 0;
    }
}

template <typename Policy, typename Candidate>
__device__ void nms_small(const NmsArgs<Candidate>& args) {
    __shared__ bool is_last;
    __shared__ union {
        Comparison<Candidate> comparison;
        Settlement settlement;
    } shared;
    const uint32_t capacity = min(static_cast<uint32_t>(args.candidates.len), kSmallCapacity);
    Chunk<Candidate> chunks[kChunksOfWarp];
    // Read without waiting for the number of candidates; what lies past it is
    // left out later.
    chunks[0].fetch(args.candidates.data, warp_of() * kLanes, capacity);
    const NmsSettings settings = args.settings[0];
    const uint32_t n = min(num_candidates(args), capacity);
    // Blocks without rows have no part in the settlement.
    const uint32_t num_blocks = max(min(n, gridDim.x), 1u);
    if (blockIdx.x >= num_blocks) return;
    nms_small_compare<Policy>(args, settings, shared.comparison, chunks, n);
    __syncthreads();
    if (threadIdx.x == 0) {
        // What the other threads stored comes before the ticket for all.
        __threadfence();
        is_last = atomicAdd(&args.ticket[0], 1) == num_blocks - 1;
        __threadfence();
    }
    __syncthreads();
    if (is_last) nms_small_settle<Policy>(args, shared.settlement, n, settings.max_num);
}
