// The step small for up to kFewCapacity candidates.
//
// Every block says of its rows which columns come before and which of these
// suppress, a bit a column, and the last block settles all: it waits for each word
// until it is not zero. So no block lists what fits into registers, or waits until
// what it wrote is seen. Blocks begin in the order of their numbers (CUDA does not
// promise it; CUB's scans rely on it, too), so that all that the last one waits for
// have begun, and they wait for nobody.
#pragma once

#include "nms_bitmask_sparse.cuh"

// The most candidates, and the most that a block owns; src/device/cuda/abi/nms.rs
// refuses a grid of fewer blocks than that asks for.
constexpr uint32_t kFewCapacity = 512;
constexpr uint32_t kFewRows = 4;
constexpr uint32_t kFewWords = kFewCapacity / 32;

static_assert(kFewCapacity <= kSmallThreads, "a candidate a thread");

// Of 32 columns, which come before a row, and above that which do not suppress
// it. Who suppresses a row comes before it, so that not both halves are zero.
struct FewColumns {
    uint64_t word;

    __device__ static FewColumns of(uint32_t before, uint32_t suppressing) {
        return {static_cast<uint64_t>(~suppressing) << 32 | before};
    }

    __device__ bool is_written() const { return word != 0; }
    __device__ uint32_t before() const { return static_cast<uint32_t>(word); }
    __device__ uint32_t suppressing() const { return ~static_cast<uint32_t>(word >> 32); }
};

// What the columns of word `word` are to row `row`; zero between launches.
template <typename Candidate>
__device__ uint64_t* few_columns(const NmsArgs<Candidate>& args, uint32_t word, uint32_t row) {
    return args.columns.data + word * kFewCapacity + row;
}

// A column, and what else a row is told apart by.
template <typename Policy>
struct FewColumn : Column<Policy> {
    using Candidate = typename Policy::Candidate;
    uint64_t group;
    uint32_t source;

    __device__ FewColumn(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                         const Candidate& candidate, uint32_t own, uint32_t n)
        : Column<Policy>(args, settings, candidate, own, n),
          group(group_of(args, settings, candidate.rank.class_index)),
          source(candidate.rank.source) {}
};

// What is compared of the block's rows.
struct FewRows {
    float4 items[kFewRows];
    uint64_t groups[kFewRows];
    float leasts[kFewRows];
    uint32_t words[kFewRows];  // `order_word`; 0 of who takes no part: nobody is below
    uint2 ties[kFewRows];      // class and source

    // For the thread whose column is a row of the block, too.
    template <typename Policy>
    __device__ void bring(const NmsSettings& settings, const FewColumn<Policy>& own) {
        // There are a power of two of blocks.
        const uint32_t row = own.index >> (__ffs(gridDim.x) - 1);
        items[row] = own.item;
        groups[row] = own.group;
        leasts[row] = Policy::least(settings, own.item);
        words[row] = own.word == kLast ? 0 : own.word;
        ties[row] = make_uint2(own.class_index, own.source);
    }

    // Whether a column comes before a row, which is candidate `index`.
    template <typename Policy>
    __device__ bool is_after(const FewColumn<Policy>& column, uint32_t row, uint32_t index) const {
        if (column.word != words[row]) return column.word < words[row];
        const uint2 tie = ties[row];
        if (column.class_index != tie.x) return column.class_index < tie.x;
        return column.source != tie.y ? column.source < tie.y : column.index < index;
    }
};

// Compares a warp's columns with the block's rows.
template <typename Policy, typename Candidate>
__device__ void few_compare(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                            const FewRows& rows, const FewColumn<Policy>& column, uint32_t n) {
    // Rolled up, for instructions that are new to a multiprocessor are waited for.
#pragma unroll 1
    for (uint32_t row = 0; row < kFewRows; ++row) {
        const uint32_t own = candidate_of_row(row);
        if (own >= n) break;
        const float4 item = rows.items[row];
        const bool is_before = rows.is_after(column, row, own);
        const bool suppresses =
            is_before && Policy::is_near(settings, column.item, item, rows.leasts[row]) &&
            Policy::suppresses(settings, column.item, item) &&
            (settings.class_mode == 1 || column.group == rows.groups[row]) &&
            surely_suppresses<Policy>(args, settings, column.index, own);
        const uint32_t before = __ballot_sync(kAllLanes, is_before);
        const uint32_t suppressing = __ballot_sync(kAllLanes, suppresses);
        if (lane_of() != 0) continue;
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;"
                     :
                     : "l"(few_columns(args, warp_of(), own)),
                       "l"(FewColumns::of(before, suppressing).word)
                     : "memory");
    }
}

// Waits for all columns of a row.
template <uint32_t kWords, typename Candidate>
__device__ void take_columns(const NmsArgs<Candidate>& args, uint32_t row, uint32_t num_words,
                             FewColumns (&columns)[kWords]) {
    bool are_written;
    do {
        // All on their way before one is looked at.
#pragma unroll
        for (uint32_t w = 0; w < kWords; ++w) {
            columns[w] = FewColumns::of(0, 0);
            asm volatile(
                "{ .reg .pred is_there; setp.lt.u32 is_there, %2, %3;\n"
                "@is_there ld.relaxed.gpu.global.u64 %0, [%1]; }"
                : "+l"(columns[w].word)
                : "l"(few_columns(args, w, row)), "r"(w), "r"(num_words)
                : "memory");
        }
        are_written = true;
#pragma unroll
        for (uint32_t w = 0; w < kWords; ++w) are_written &= columns[w].is_written();
    } while (!are_written);
}

struct FewSettlement {
    // Of 32 candidates each, who is kept and who is open: what a round reads and
    // what it writes. Words that hold nobody say anything.
    alignas(16) uint2 states[2][kFewWords];
    uint32_t class_over[kFewWords];
    Kept in_order[kFewCapacity];
};

// The rounds, in which a thread's candidate is kept or goes. Returns the states
// that they end with, two words each.
template <typename Policy, uint32_t kWords>
__device__ const uint4* few_rounds(FewSettlement& shared, const FewColumns (&columns)[kWords],
                                   bool& is_kept, bool is_open) {
    for (uint32_t current = 0;; current ^= 1) {
        const uint2 votes = make_uint2(__ballot_sync(kAllLanes, is_kept),
                                       __ballot_sync(kAllLanes, is_open));
        if (lane_of() == 0) shared.states[current][warp_of()] = votes;
        const uint4* states = reinterpret_cast<const uint4*>(shared.states[current]);
        if (!__syncthreads_or(is_open && !Policy::kAnySuppresses)) return states;
        if (!is_open) continue;
        uint32_t kept = 0;
        uint32_t open = 0;
#pragma unroll
        for (uint32_t w = 0; w < kWords; w += 2) {
            const uint4 two = states[w / 2];
            kept |= columns[w].suppressing() & two.x | columns[w + 1].suppressing() & two.z;
            open |= columns[w].suppressing() & two.y | columns[w + 1].suppressing() & two.w;
        }
        is_kept = kept == 0 && open == 0;
        is_open = kept == 0 && open != 0;
    }
}

// For the warps of a block that have columns: settles all candidates of up to
// kWords words, one a thread, and writes the survivors by rank.
template <uint32_t kWords, typename Policy, typename Candidate>
__device__ void few_settle(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                           FewSettlement& shared, const FewColumn<Policy>& own, uint32_t n) {
    const uint32_t lane = lane_of();
    const uint32_t num_words = max((n + 31) / 32, 1u);
    FewColumns columns[kWords];
    take_columns(args, own.index, own.index < n ? num_words : 0, columns);
    uint32_t any = 0;
#pragma unroll
    for (uint32_t w = 0; w < kWords; ++w) any |= columns[w].suppressing();
    const bool is_present = own.word != kLast;
    bool is_kept = is_present && any == 0;
    const bool is_open = is_present && any != 0;
    const bool lacks = is_present && lacks_threshold<Policy>(settings, own.class_index);
    const uint32_t over = __reduce_max_sync(kAllLanes, lacks ? class_over(own.class_index) : 0);
    // Where candidates were staged, nobody reads any more.
    __syncthreads();
    if (lane == 0) shared.class_over[warp_of()] = over;
    const uint4* states = few_rounds<Policy>(shared, columns, is_kept, is_open);
    uint32_t position = 0;
#pragma unroll
    for (uint32_t w = 0; w < kWords; w += 2) {
        const uint4 two = states[w / 2];
        position += __popc(columns[w].before() & two.x) + __popc(columns[w + 1].before() & two.z);
    }
    if (is_kept) shared.in_order[position] = {own.index, score_of_word(own.word)};
    const uint32_t kept_of_lane =
        lane < num_words ? reinterpret_cast<const uint2*>(states)[lane].x : 0;
    const uint32_t num_kept =
        min(__reduce_add_sync(kAllLanes, __popc(kept_of_lane)), settings.max_num);
    __syncthreads();
    if (threadIdx.x < num_kept) {
        args.kept[threadIdx.x] = shared.in_order[threadIdx.x];
        args.published[threadIdx.x] = shared.in_order[threadIdx.x];
    }
    const uint32_t over_of_lane = lane < num_words ? shared.class_over[lane] : 0;
    const NmsCounts counts = {num_kept, __reduce_max_sync(kAllLanes, over_of_lane)};
    if (own.index == 0) args.counts[0] = counts;
    if (own.index == 0) args.published_counts[0] = counts;
    // As they were before.
#pragma unroll 1
    for (uint32_t w = 0; w < num_words && own.index < n; ++w) *few_columns(args, w, own.index) = 0;
}

// The whole of it. The first chunk was fetched before. Warps without columns
// leave, for they would only be in the way.
template <typename Policy, typename Candidate>
__device__ void nms_few(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                        uint4 (&staged)[Chunk<Candidate>::kVectors], FewSettlement& settlement,
                        const Chunk<Candidate>& chunk, uint32_t n) {
    __shared__ FewRows rows;
    const bool settles = blockIdx.x == gridDim.x - 1;
    if (blockIdx.x >= n && !settles) return;
    if (warp_of() * kLanes >= max(n, 1u)) return;
    const Candidate candidate = chunk.unpack(staged);
    const FewColumn<Policy> column(args, settings, candidate, threadIdx.x, n);
    const bool is_row = column.index < n && (column.index & (gridDim.x - 1)) == blockIdx.x;
    if (is_row) rows.bring(settings, column);
    __syncthreads();
    few_compare(args, settings, rows, column, n);
    if (!settles) return;
    if (n <= kFewCapacity / 2) {
        few_settle<kFewWords / 2>(args, settings, settlement, column, n);
    } else {
        few_settle<kFewWords>(args, settings, settlement, column, n);
    }
}
