// The first part of the step small: a block holds all candidates, its columns,
// against the few that it owns, its rows.
#pragma once

#include "chunk.cuh"
#include "nms_bits.cuh"

template <typename Candidate>
struct Comparison {
    union {
        // Candidates as they lie in memory, by warp; then what is compared.
        uint4 staged[kSmallWarps][Chunk<Candidate>::kVectors];
        struct {
            float4 items[kHalf];
            uint32_t words[kHalf];  // `order_word`
        };
    };
    float4 row_items[kMaxRows];
    Rank row_ranks[kMaxRows];
    uint32_t row_words[kMaxRows];  // 0 where the row takes no part: nobody is below
    uint32_t num_before[kMaxRows];
    uint32_t bits[kMaxRows][kRowWords];
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

// Among columns of the row's score: who comes before it by class and source,
// and which of these are near.
template <typename Policy, typename Candidate>
__device__ void compare_equals(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                               const Comparison<Candidate>& shared, uint32_t row, uint32_t own,
                               uint32_t start, uint32_t& bits, uint32_t& num_before) {
    const uint32_t word = shared.row_words[row];
    const float4 item = shared.row_items[row];
    const float least = Policy::least(settings, item);
    const uint64_t key = static_cast<uint64_t>(word) << 32 | own;
    for (uint32_t k = 0; k < kPieceBits; ++k) {
        const uint32_t column = k * kPieces + threadIdx.x % kPieces;
        const uint64_t other = static_cast<uint64_t>(word) << 32 | (start + column);
        if (start + column >= args.candidates.len || shared.words[column] != word) continue;
        if (!precedes(other, key, args.candidates.data)) continue;
        ++num_before;
        const bool near = Policy::is_near(settings, shared.items[column], item, least);
        bits |= static_cast<uint32_t>(near) << k;
    }
}

// Counts a word that is below another: a predicate and an addition.
__device__ inline void count_below(uint32_t word, uint32_t other, uint32_t& num) {
    asm("{\n\t.reg .pred below;\n\tsetp.lt.u32 below, %1, %2;\n\t@below add.u32 %0, %0, 1;\n\t}"
        : "+r"(num)
        : "r"(word), "r"(other));
}

// Holds a thread's piece of the half's columns against kNum rows, which lie
// kRowGroups apart; all lanes of a warp have the same rows.
template <typename Policy, uint32_t kNum, typename Candidate>
__device__ void compare_rows(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                             Comparison<Candidate>& shared, uint32_t first_row, uint32_t start,
                             uint32_t num_bits) {
    const uint32_t piece = threadIdx.x % kPieces;
    uint32_t word[kNum];
    float4 item[kNum];
    float least[kNum];
    uint32_t bits[kNum] = {};
    uint32_t num_below[kNum] = {};
    uint32_t num_at_most[kNum] = {};
#pragma unroll
    for (uint32_t r = 0; r < kNum; ++r) {
        word[r] = shared.row_words[first_row + r * kRowGroups];
        item[r] = shared.row_items[first_row + r * kRowGroups];
        least[r] = Policy::least(settings, item[r]);
    }
    // Columns past the last have the last word, also up to whole fours.
    for (uint32_t first = 0; first < num_bits; first += 4) {
        uint32_t four[kNum] = {};
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t column = (first + k) * kPieces + piece;
            const uint32_t other = shared.words[column];
            const float4 better = shared.items[column];
#pragma unroll
            for (uint32_t r = 0; r < kNum; ++r) {
                count_below(other, word[r], num_below[r]);
                count_below(other, word[r] + 1, num_at_most[r]);
                const bool near = Policy::is_near(settings, better, item[r], least[r]);
                if ((other < word[r]) & near) four[r] |= 1u << k;
            }
        }
#pragma unroll
        for (uint32_t r = 0; r < kNum; ++r) bits[r] |= four[r] << first;
    }
#pragma unroll
    for (uint32_t r = 0; r < kNum; ++r) {
        const uint32_t row = first_row + r * kRowGroups;
        const uint32_t own = blockIdx.x + row * gridDim.x;
        const bool is_own_here = own - start < kHalf && (own - start) % kPieces == piece;
        if (word[r] != 0 && num_at_most[r] - num_below[r] > is_own_here) {
            compare_equals<Policy>(args, settings, shared, row, own, start, bits[r], num_below[r]);
        }
        for (uint32_t left = bits[r]; left != 0; left &= left - 1) {
            const uint32_t k = __ffs(left) - 1;
            const float4 better = shared.items[k * kPieces + piece];
            if (!Policy::suppresses(settings, better, item[r])) bits[r] &= ~(1u << k);
        }
        reinterpret_cast<uint16_t*>(shared.bits[row])[start / kHalf * kPieces + piece] =
            static_cast<uint16_t>(bits[r]);
        const uint32_t sum = __reduce_add_sync(kAllLanes, num_below[r]);
        if (lane_of() == 0 && sum != 0) atomicAdd(&shared.num_before[row], sum);
    }
}

// Holds the half's columns against the block's rows. Half of the threads hold
// what they read against two rows where there are so many: shared memory, not
// arithmetic, would limit all of them.
template <typename Policy, typename Candidate>
__device__ void compare(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                        Comparison<Candidate>& shared, uint32_t start, uint32_t n) {
    const uint32_t row = threadIdx.x / kPieces;
    if (row >= kRowGroups || blockIdx.x + row * gridDim.x >= n) return;
    const uint32_t num_bits = (min(n - start, kHalf) + kPieces - 1) / kPieces;
    if (blockIdx.x + (row + kRowGroups) * gridDim.x < n) {
        compare_rows<Policy, 2>(args, settings, shared, row, start, num_bits);
    } else {
        compare_rows<Policy, 1>(args, settings, shared, row, start, num_bits);
    }
}

// The bits of a word of row `own`, without those of other groups and those that
// the exact comparison parts.
template <typename Policy, typename Candidate>
__device__ uint32_t confirmed(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                              uint32_t own, uint64_t group, uint32_t word, uint32_t bits) {
    const bool agnostic = settings.class_mode == 1;
    if (agnostic && Policy::kNumParts == 0) return bits;
    for (uint32_t left = bits; left != 0; left &= left - 1) {
        const uint32_t bit = __ffs(left) - 1;
        const uint32_t better = candidate_of(word * 32 + bit);
        const uint32_t class_index = args.candidates[better].rank.class_index;
        const bool meets = agnostic || group_of(args, settings, class_index) == group;
        if (meets && surely_suppresses<Policy>(args, settings, better, own)) continue;
        bits &= ~(1u << bit);
    }
    return bits;
}

// Where an entry of a candidate's list stands: in its note, or among the pairs.
template <typename Candidate>
__device__ uint16_t* entry_of(const NmsArgs<Candidate>& args, uint32_t own_bit, uint32_t position,
                              uint32_t n) {
    if (position < 2 * kNotedWords) return &args.notes[own_bit].noted[position];
    const uint32_t pair = position / 2 - kNotedWords;
    uint32_t* word = &args.pairs[pair * num_bits_of(n) + own_bit];
    return reinterpret_cast<uint16_t*>(word) + position % 2;
}

// For a warp: writes the list of `num` bits that are in the lanes' words, own
// ones from `position` on, and fills up its last word and the note.
template <uint32_t kWords, typename Candidate>
__device__ void write_list(const NmsArgs<Candidate>& args, const uint32_t (&words)[kWords],
                           uint32_t position, uint32_t num, uint32_t own_bit, uint32_t n) {
    const uint32_t lane = lane_of();
    const uint32_t capacity = list_capacity(n);
#pragma unroll
    for (uint32_t k = 0; k < kWords; ++k) {
        for (uint32_t left = words[k]; left != 0 && position < capacity; left &= left - 1) {
            const uint32_t bit = (k * kLanes + lane) * 32 + __ffs(left) - 1;
            *entry_of(args, own_bit, position, n) = static_cast<uint16_t>(bit);
            ++position;
        }
    }
    const uint32_t filled = max(num + num % 2, 2 * kNotedWords);
    if (num + lane < min(filled, capacity)) *entry_of(args, own_bit, num + lane, n) = kNoBit;
}

// For a warp: lists the bits of its row.
template <typename Policy, typename Candidate>
__device__ void list_row(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                         const Comparison<Candidate>& shared, uint32_t row, uint32_t own,
                         uint32_t n) {
    const uint32_t lane = lane_of();
    const uint32_t own_bit = bit_of(own);
    Note& note = args.notes[own_bit];
    if (shared.row_words[row] == 0) {
        if (lane == 0) note.rank = kNoRank;
        if (lane == 0) note.num_listed = 0;
        return;
    }
    const Rank rank = shared.row_ranks[row];
    const uint64_t group = group_of(args, settings, rank.class_index);
    constexpr uint32_t kWords = kRowWords / kLanes;
    uint32_t words[kWords];
    uint32_t own_num = 0;
#pragma unroll
    for (uint32_t k = 0; k < kWords; ++k) {
        const uint32_t w = k * kLanes + lane;
        const uint32_t bits = k * kHalf < n ? shared.bits[row][w] : 0;
        words[k] = confirmed<Policy>(args, settings, own, group, w, bits);
        own_num += __popc(words[k]);
    }
    uint32_t end = own_num;
#pragma unroll
    for (uint32_t step = 1; step < kLanes; step *= 2) {
        const uint32_t other = __shfl_up_sync(kAllLanes, end, step);
        if (lane >= step) end += other;
    }
    const uint32_t num_listed = __shfl_sync(kAllLanes, end, kLanes - 1);
    write_list(args, words, end - own_num, num_listed, own_bit, n);
    if (num_listed > list_capacity(n)) {
        uint32_t* to = reinterpret_cast<uint32_t*>(&args.rows[own_bit * kRowVectors]);
#pragma unroll
        for (uint32_t k = 0; k < kWords; ++k) to[k * kLanes + lane] = words[k];
    }
    if (lane == 0) {
        const uint32_t before = shared.num_before[row];
        note.rank = static_cast<uint16_t>(before);
        note.num_listed = static_cast<uint16_t>(num_listed);
        args.order[before] = {own, rank.score};
    }
}

// Notes, lists and rows of the block's own candidates. The first chunk was
// fetched before.
template <typename Policy, typename Candidate>
__device__ void nms_small_compare(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                                  Comparison<Candidate>& shared, Chunk<Candidate> chunk,
                                  uint32_t n) {
    const uint32_t row = blockIdx.x + threadIdx.x * gridDim.x;
    if (threadIdx.x < kMaxRows && row < n) {
        bring_row<Policy>(args, settings, shared, threadIdx.x, args.candidates[row]);
    }
#pragma unroll 1
    for (uint32_t start = 0; start < n; start += kHalf) {
        const Candidate candidate = chunk.unpack(shared.staged[warp_of()]);
        const bool present =
            start + threadIdx.x < n && takes_part<Policy>(settings, candidate);
        const float4 item = Policy::item(args, settings, candidate);
        __syncthreads();
        shared.items[threadIdx.x] = item;
        shared.words[threadIdx.x] = order_word(candidate.rank.score, present);
        __syncthreads();
        const uint32_t next = start + kHalf;
        if (next < n) chunk.fetch(args.candidates.data, next + warp_of() * kLanes, n);
        compare<Policy>(args, settings, shared, start, n);
        __syncthreads();
    }
    const uint32_t own = blockIdx.x + warp_of() * gridDim.x;
    if (warp_of() < kMaxRows && own < n) {
        list_row<Policy>(args, settings, shared, warp_of(), own, n);
    }
}
