// More than kDenseCapacity candidates: a sparse bitmask.
//
// A row of the bitmask holds 16 columns in a word. Its nonzero words are a list of
// entries, each the word's position above its bits. The first entries are in the
// row's `BitmaskRow`, the others in `row_entries`.
#pragma once

#include "nms/bits.cuh"

// Rows that a warp compares between two sums.
constexpr uint32_t kRowsAtOnce = 4;
constexpr uint32_t kWordBits = 16;
// Words of 32 bits of a row.
constexpr uint32_t kRowWords = kBitmaskCapacity / 32;
// The rank of candidates that are not eligible.
constexpr uint32_t kNoRank = 0xffff;
constexpr uint32_t kFirstEntries = sizeof(BitmaskRow::first_entries) / 4;

static_assert(kMaxRows == kWordBits, "a thread's rows are half a word");

// An entry that is not in the `BitmaskRow`.
template <typename Candidate>
__device__ uint32_t& further_entry(const NmsArgs<Candidate>& args, uint32_t own,
                                   uint32_t position) {
    const uint32_t capacity = static_cast<uint32_t>(args.candidates.len);
    return args.scratch.row_entries[(position - kFirstEntries) * capacity + own];
}

template <typename Candidate>
struct SparseComparison {
    // Candidates in their memory layout, by warp.
    uint4 staged[kBitmaskWarps][Chunk<Candidate>::kVectors];
    float4 row_proxies[kMaxRows];
    float row_min_areas[kMaxRows];
    uint32_t row_words[kMaxRows];  // `order_word`; 0, which nothing ranks above: not eligible
    uint64_t row_groups[kMaxRows];
    float row_scores[kMaxRows];
    bool rows_tie;  // two rows have equal scores
    // By group of rows and warp: number of columns above, a byte per row.
    uint32_t num_above[kMaxRows / kRowsAtOnce][kBitmaskWarps];
    uint32_t bits[kMaxRows][kRowWords + 1];  // padded against bank conflicts
};

// The broad phase of a column and a row.
template <typename Policy, typename Candidate>
__device__ bool may_suppress(const NmsSettings& settings, const Column<Policy>& column,
                             const SparseComparison<Candidate>& shared, uint32_t row) {
    return Policy::may_suppress(settings, column.proxy, shared.row_proxies[row],
                                shared.row_min_areas[row]);
}

// The exact test of a column above a row that passed the broad phase.
template <typename Policy, typename Candidate>
__device__ bool suppresses(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                           const Column<Policy>& column, const SparseComparison<Candidate>& shared,
                           uint32_t row) {
    if (!Policy::suppresses(settings, column.proxy, shared.row_proxies[row])) return false;
    const bool same_group = settings.class_mode == 1 ||
                            group_of(args, settings, column.class_index) == shared.row_groups[row];
    return same_group &&
           suppresses_exactly<Policy>(args, settings, column.index, candidate_of_row(row));
}

// One warp stores the block's rows, a row per lane.
template <typename Policy, typename Candidate>
__device__ void store_rows(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                           SparseComparison<Candidate>& shared, const Candidate& candidate,
                           uint32_t n) {
    const uint32_t row = lane_of();
    uint32_t word = 0;
    if (row < kMaxRows && candidate_of_row(row) < n) {
        const float4 proxy = Policy::proxy(args, settings, candidate);
        shared.row_proxies[row] = proxy;
        shared.row_min_areas[row] = Policy::min_area(settings, proxy);
        shared.row_groups[row] = group_of(args, settings, candidate.rank.class_index);
        shared.row_scores[row] = candidate.rank.score;
        if (is_eligible<Policy>(settings, candidate)) {
            word = order_word(candidate.rank.score, true);
            check_class<Policy>(args, settings, candidate);
        }
    }
    if (row < kMaxRows) shared.row_words[row] = word;
    const uint32_t same = __match_any_sync(kAllLanes, word);
    const bool rows_tie = __any_sync(kAllLanes, word != 0 && same != 1u << row);
    if (row == 0) shared.rows_tie = rows_tie;
}

// A thread's columns against all rows: the rows they suppress, a bit per row (the
// second column's above the first's), and the number of columns above each row, a
// byte per row.
struct ColumnResult {
    uint32_t suppressed = 0;
    uint32_t num_above[kMaxRows / kRowsAtOnce] = {};
};

// The rows of the column's score that the column ranks above, by class and source.
// Adds those that pass the broad phase to `near`.
template <typename Policy, typename Candidate>
__device__ uint32_t ties_above(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                               const SparseComparison<Candidate>& shared,
                               const Column<Policy>& column, uint32_t n, uint32_t& near) {
    uint32_t rows = 0;
#pragma unroll 1
    for (uint32_t row = 0; row < kMaxRows && candidate_of_row(row) < n; ++row) {
        if (column.word != shared.row_words[row]) continue;
        const uint64_t score = static_cast<uint64_t>(column.word) << 32;
        const uint64_t own = score | candidate_of_row(row);
        if (!precedes(score | column.index, own, args.candidates.data)) continue;
        rows |= 1u << row;
        if (may_suppress(settings, column, shared, row)) near |= 1u << row;
    }
    return rows;
}

// Compares a warp's columns, the thread's column number `position`, with the rows.
template <typename Policy, typename Candidate>
__device__ void compare_columns(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                                const SparseComparison<Candidate>& shared,
                                const Column<Policy>& column, uint32_t position, uint32_t n,
                                ColumnResult& result) {
    // A row is also a column and would tie with itself.
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
            const bool is_above = column.word < word;
            if (is_above) result.num_above[row / kRowsAtOnce] += 1u << (8 * (row % kRowsAtOnce));
            if (is_above & may_suppress(settings, column, shared, row)) near |= 1u << row;
            ties |= tying == word;
        }
    }
    if (ties) {
        const uint32_t rows = ties_above(args, settings, shared, column, n, near);
#pragma unroll
        for (uint32_t row = 0; row < kMaxRows; ++row) {
            const uint32_t bit = rows >> row & 1;
            result.num_above[row / kRowsAtOnce] += bit << (8 * (row % kRowsAtOnce));
        }
    }
    for (uint32_t left = near; left != 0; left &= left - 1) {
        const uint32_t row = __ffs(left) - 1;
        if (!suppresses(args, settings, column, shared, row)) near &= ~(1u << row);
    }
    result.suppressed |= near << (position * kMaxRows);
}

// A warp writes a row: its rank and its entries.
template <typename Candidate>
__device__ void write_row(const NmsArgs<Candidate>& args, const SparseComparison<Candidate>& shared,
                          uint32_t row, uint32_t n) {
    const uint32_t lane = lane_of();
    const uint32_t own = candidate_of_row(row);
    BitmaskRow& header = args.scratch.rows[own];
    if (shared.row_words[row] == 0) {
        if (lane == 0) header.rank_and_num = kNoRank;
        return;
    }
    const uint32_t num_above = lane * kLanes < n ? shared.num_above[row / kRowsAtOnce][lane] : 0;
    uint32_t num_entries = 0;
#pragma unroll 1
    for (uint32_t word = lane; word - lane < (n + 31) / 32; word += kLanes) {
        const uint32_t bits = word * 32 < n ? shared.bits[row][word] : 0;
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half) {
            const uint32_t word_bits = bits >> (half * kWordBits) & 0xffff;
            const uint32_t votes = __ballot_sync(kAllLanes, word_bits != 0);
            const uint32_t position = num_entries + num_lanes_before(votes);
            uint32_t& entry = position < kFirstEntries ? header.first_entries[position]
                                                       : further_entry(args, own, position);
            if (word_bits != 0) entry = (2 * word + half) << kWordBits | word_bits;
            num_entries += __popc(votes);
        }
    }
    const uint32_t rank =
        __reduce_add_sync(kAllLanes, num_above >> (8 * (row % kRowsAtOnce)) & 0xff);
    if (lane == 0) header.rank_and_num = rank | num_entries << 16;
    if (lane == 0) args.scratch.order[rank] = {own, shared.row_scores[row]};
}

// A warp writes its words of all rows and its counts.
template <typename Candidate>
__device__ void write_columns(SparseComparison<Candidate>& shared, const ColumnResult& result,
                              uint32_t n) {
    const uint32_t lane = lane_of();
    const uint32_t word = transposed(result.suppressed);
    shared.bits[lane % kMaxRows][lane / kMaxRows * kBitmaskWarps + warp_of()] = word;
#pragma unroll
    for (uint32_t first = 0; first < kMaxRows; first += kRowsAtOnce) {
        if (candidate_of_row(first) >= n) break;
        const uint32_t at = first / kRowsAtOnce;
        const uint32_t num = __reduce_add_sync(kAllLanes, result.num_above[at]);
        if (lane == 0) shared.num_above[at][warp_of()] = num;
    }
}

// Writes the block's rows of the bitmask. The caller has fetched the first chunk and,
// for the last warp, the rows.
template <typename Policy, typename Candidate>
__device__ void compare_sparse(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                               SparseComparison<Candidate>& shared, Chunk<Candidate> chunk,
                               const Candidate& row_candidate, uint32_t n) {
    constexpr bool has_geometry = Policy::kGeometryVectors != 0;
    const uint32_t warp = warp_of();
    if (warp == kBitmaskWarps - 1) store_rows<Policy>(args, settings, shared, row_candidate, n);
    ColumnResult result;
#pragma unroll 1
    for (uint32_t position = 0; position * kBitmaskThreads < n; ++position) {
        const uint32_t first = position * kBitmaskThreads + warp * kLanes;
        Column<Policy> column;
        if (first < n) {
            const Candidate candidate = chunk.unpack(shared.staged[warp]);
            column = Column<Policy>(args, settings, candidate, first + lane_of(), n);
            const uint32_t next = first + kBitmaskThreads;
            if (!has_geometry && next < n) chunk.fetch(args.candidates.data, next, n);
        }
        if (position == 0) __syncthreads();
        if (first < n) compare_columns(args, settings, shared, column, position, n, result);
        // Prefetched no earlier: an exact test of geometry needs the registers.
        if (has_geometry) chunk.fetch(args.candidates.data, first + kBitmaskThreads, n);
    }
    if (warp * kLanes < n) write_columns(shared, result, n);
    __syncthreads();
    if (warp < kMaxRows && candidate_of_row(warp) < n) write_row(args, shared, warp, n);
}
