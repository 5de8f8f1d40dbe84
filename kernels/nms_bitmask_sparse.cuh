// The first part of the step small: a block holds all candidates, its columns,
// against the few that it owns, its rows.
#pragma once

#include "chunk.cuh"
#include "nms_bits.cuh"

template <typename Candidate>
struct Comparison {
    // Candidates as they lie in memory, by warp.
    uint4 staged[kSmallWarps][Chunk<Candidate>::kVectors];
    float4 row_items[kMaxRows];
    float row_leasts[kMaxRows];
    uint32_t row_words[kMaxRows];  // `order_word`; 0 of who takes no part: nobody is below
    uint64_t row_groups[kMaxRows];
    float row_scores[kMaxRows];
    bool rows_tie;  // two rows have one score
    // By rows and warp: how many columns come before, a byte a row.
    uint32_t num_before[kMaxRows / kRowsAtOnce][kSmallWarps];
    uint32_t bits[kMaxRows][kRowWords + 1];  // a bank apart
};

// The rows of a block lie as many candidates apart as there are blocks.
__device__ inline uint32_t candidate_of_row(uint32_t row) { return blockIdx.x + row * gridDim.x; }

// What is held against a row.
template <typename Policy>
struct Column {
    using Candidate = typename Policy::Candidate;
    uint32_t index;
    uint32_t word;  // kLast of who takes no part
    uint32_t class_index;
    float4 item;

    Column() = default;

    __device__ Column(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                      const Candidate& candidate, uint32_t own, uint32_t n) {
        const bool present = own < n && takes_part<Policy>(settings, candidate);
        index = own;
        word = order_word(candidate.rank.score, present);
        class_index = candidate.rank.class_index;
        item = Policy::item(args, settings, candidate);
    }

    __device__ bool is_near(const NmsSettings& settings, const Comparison<Candidate>& shared,
                            uint32_t row) const {
        return Policy::is_near(settings, item, shared.row_items[row], shared.row_leasts[row]);
    }

    // Of a column that comes before and is near.
    __device__ bool suppresses(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                               const Comparison<Candidate>& shared, uint32_t row) const {
        if (!Policy::suppresses(settings, item, shared.row_items[row])) return false;
        const bool meets = settings.class_mode == 1 ||
                           group_of(args, settings, class_index) == shared.row_groups[row];
        return meets && surely_suppresses<Policy>(args, settings, index, candidate_of_row(row));
    }
};

// For a warp: brings the rows, one a lane.
template <typename Policy, typename Candidate>
__device__ void bring_rows(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                           Comparison<Candidate>& shared, const Candidate& candidate, uint32_t n) {
    const uint32_t row = lane_of();
    uint32_t word = 0;
    if (row < kMaxRows && candidate_of_row(row) < n) {
        const float4 item = Policy::item(args, settings, candidate);
        shared.row_items[row] = item;
        shared.row_leasts[row] = Policy::least(settings, item);
        shared.row_groups[row] = group_of(args, settings, candidate.rank.class_index);
        shared.row_scores[row] = candidate.rank.score;
        if (takes_part<Policy>(settings, candidate)) {
            word = order_word(candidate.rank.score, true);
            check_class<Policy>(args, settings, candidate);
        }
    }
    if (row < kMaxRows) shared.row_words[row] = word;
    const uint32_t same = __match_any_sync(kAllLanes, word);
    const bool rows_tie = __any_sync(kAllLanes, word != 0 && same != 1u << row);
    if (row == 0) shared.rows_tie = rows_tie;
}

// Of a thread's columns: which rows they suppress, a bit a row and the second
// column's above the first's, and how many come before each row, a byte a row.
struct Found {
    uint32_t suppressed = 0;
    uint32_t num_before[kMaxRows / kRowsAtOnce] = {};
};

// The rows before which a column of the same score comes by class and source;
// those that are near are added.
template <typename Policy, typename Candidate>
__device__ uint32_t equals_before(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                                  const Comparison<Candidate>& shared,
                                  const Column<Policy>& column, uint32_t n, uint32_t& near) {
    uint32_t rows = 0;
#pragma unroll 1
    for (uint32_t row = 0; row < kMaxRows && candidate_of_row(row) < n; ++row) {
        if (column.word != shared.row_words[row]) continue;
        const uint64_t score = static_cast<uint64_t>(column.word) << 32;
        const uint64_t own = score | candidate_of_row(row);
        if (!precedes(score | column.index, own, args.candidates.data)) continue;
        rows |= 1u << row;
        if (column.is_near(settings, shared, row)) near |= 1u << row;
    }
    return rows;
}

// For a warp: its columns, `position` of each thread's, against the rows.
template <typename Policy, typename Candidate>
__device__ void compare(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                        const Comparison<Candidate>& shared, const Column<Policy>& column,
                        uint32_t position, uint32_t n, Found& found) {
    // A row is among the columns, where it would tie with itself.
    const bool is_row = (column.index & (gridDim.x - 1)) == blockIdx.x;
    const uint32_t tying = is_row ? kLast : column.word;
    bool ties = shared.rows_tie;
    uint32_t near = 0;
#pragma unroll
    for (uint32_t first = 0; first < kMaxRows; first += kRowsAtOnce) {
        if (candidate_of_row(first) >= n) break;
#pragma unroll
        for (uint32_t row = first; row < first + kRowsAtOnce; ++row) {
            const uint32_t word = shared.row_words[row];
            const bool before = column.word < word;
            if (before) found.num_before[row / kRowsAtOnce] += 1u << (8 * (row % kRowsAtOnce));
            if (before & column.is_near(settings, shared, row)) near |= 1u << row;
            ties |= tying == word;
        }
    }
    if (ties) {
        const uint32_t rows = equals_before(args, settings, shared, column, n, near);
#pragma unroll
        for (uint32_t row = 0; row < kMaxRows; ++row) {
            const uint32_t bit = rows >> row & 1;
            found.num_before[row / kRowsAtOnce] += bit << (8 * (row % kRowsAtOnce));
        }
    }
    for (uint32_t left = near; left != 0; left &= left - 1) {
        const uint32_t row = __ffs(left) - 1;
        if (!column.suppresses(args, settings, shared, row)) near &= ~(1u << row);
    }
    found.suppressed |= near << (position * kMaxRows);
}

// For a warp: the note of a row and its list.
template <typename Candidate>
__device__ void list_row(const NmsArgs<Candidate>& args, const Comparison<Candidate>& shared,
                         uint32_t row, uint32_t n) {
    const uint32_t lane = lane_of();
    const uint32_t own = candidate_of_row(row);
    Note& note = args.notes[own];
    if (shared.row_words[row] == 0) {
        if (lane == 0) note.rank_and_num = kNoRank;
        return;
    }
    const uint32_t num_before = lane * kLanes < n ? shared.num_before[row / kRowsAtOnce][lane] : 0;
    uint32_t num_entries = 0;
#pragma unroll 1
    for (uint32_t word = lane; word - lane < (n + 31) / 32; word += kLanes) {
        const uint32_t bits = word * 32 < n ? shared.bits[row][word] : 0;
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half) {
            const uint32_t of_piece = bits >> (half * kPieceBits) & 0xffff;
            const uint32_t votes = __ballot_sync(kAllLanes, of_piece != 0);
            const uint32_t position = num_entries + num_lanes_before(votes);
            uint32_t& entry = position < kNotedEntries ? note.noted[position]
                                                       : further_entry(args, own, position);
            if (of_piece != 0) entry = (2 * word + half) << kPieceBits | of_piece;
            num_entries += __popc(votes);
        }
    }
    const uint32_t rank =
        __reduce_add_sync(kAllLanes, num_before >> (8 * (row % kRowsAtOnce)) & 0xff);
    if (lane == 0) note.rank_and_num = rank | num_entries << 16;
    if (lane == 0) args.order[rank] = {own, shared.row_scores[row]};
}

// For a warp: its words of all rows and what it counted for them.
template <typename Candidate>
__device__ void write_found(Comparison<Candidate>& shared, const Found& found, uint32_t n) {
    const uint32_t lane = lane_of();
    const uint32_t word = transposed(found.suppressed);
    shared.bits[lane % kMaxRows][lane / kMaxRows * kSmallWarps + warp_of()] = word;
#pragma unroll
    for (uint32_t first = 0; first < kMaxRows; first += kRowsAtOnce) {
        if (candidate_of_row(first) >= n) break;
        const uint32_t at = first / kRowsAtOnce;
        const uint32_t num = __reduce_add_sync(kAllLanes, found.num_before[at]);
        if (lane == 0) shared.num_before[at][warp_of()] = num;
    }
}

// Notes and lists of the block's own candidates. The first chunk, and for the
// last warp the rows, were fetched before. Warps without columns have no part.
template <typename Policy, typename Candidate>
__device__ void nms_small_compare(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                                  Comparison<Candidate>& shared, Chunk<Candidate> chunk,
                                  const Candidate& row_candidate, uint32_t n) {
    const uint32_t warp = warp_of();
    if (warp == kSmallWarps - 1) bring_rows<Policy>(args, settings, shared, row_candidate, n);
    Found found;
#pragma unroll 1
    for (uint32_t position = 0; position * kSmallThreads < n; ++position) {
        const uint32_t first = position * kSmallThreads + warp * kLanes;
        Column<Policy> column;
        if (first < n) {
            const Candidate candidate = chunk.unpack(shared.staged[warp]);
            column = Column<Policy>(args, settings, candidate, first + lane_of(), n);
            const uint32_t next = first + kSmallThreads;
            if (Policy::kNumParts == 0 && next < n) chunk.fetch(args.candidates.data, next, n);
        }
        if (position == 0) __syncthreads();
        if (first < n) compare(args, settings, shared, column, position, n, found);
        // An exact comparison needs the registers.
        if (Policy::kNumParts != 0) chunk.fetch(args.candidates.data, first + kSmallThreads, n);
    }
    if (warp * kLanes < n) write_found(shared, found, n);
    __syncthreads();
    if (warp < kMaxRows && candidate_of_row(warp) < n) list_row(args, shared, warp, n);
}
