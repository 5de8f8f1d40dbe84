// Up to kDenseCapacity candidates: a dense bitmask, reduced by the last block.
//
// A warp writes a word per row: which of its 32 columns rank above the row, and
// which of those suppress it. No word is zero, and all are zero between launches,
// so that the last block reads each word until it is nonzero: no fence, no ticket.
//
// The last block waits for the others, which wait for nothing: they have started
// before it if blocks start in the order of their indices, and otherwise are resident
// beside it on every GPU that holds two blocks.
#pragma once

#include "nms/bits.cuh"

// `check_bitmask` in crates/ops/src/nms/cuda/kernels.rs refuses a grid with more rows per block.
constexpr uint32_t kDenseCapacity = 512;
constexpr uint32_t kDenseRows = 4;
constexpr uint32_t kDenseWords = kDenseCapacity / 32;

static_assert(kDenseCapacity <= kBitmaskThreads, "a thread per candidate");

// 32 columns of a row, a bit each: in the low half those that rank above the row,
// in the high half those that do not suppress it. A suppressor ranks above the row
// it suppresses, so that the halves are never both zero.
struct DenseWord {
    uint64_t word;

    __device__ static DenseWord of(uint32_t above, uint32_t suppressors) {
        return {static_cast<uint64_t>(~suppressors) << 32 | above};
    }

    __device__ bool is_written() const { return word != 0; }
    __device__ uint32_t above() const { return static_cast<uint32_t>(word); }
    __device__ uint32_t suppressors() const { return ~static_cast<uint32_t>(word >> 32); }
};

__device__ inline void store_relaxed(uint64_t* to, uint64_t value) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

// Loads a word unless `index` is past `num`. Predicated, not branched around: the
// loads of an unrolled loop are then all in flight at once.
__device__ inline void load_relaxed_if(uint64_t& word, const uint64_t* from, uint32_t index,
                                       uint32_t num) {
    asm volatile(
        "{ .reg .pred is_there; setp.lt.u32 is_there, %2, %3;\n"
        "@is_there ld.relaxed.gpu.global.u64 %0, [%1]; }"
        : "+l"(word)
        : "l"(from), "r"(index), "r"(num)
        : "memory");
}

template <typename Candidate>
__device__ uint64_t* dense_word(const NmsArgs<Candidate>& args, uint32_t word, uint32_t row) {
    return args.scratch.dense.data + word * kDenseCapacity + row;
}

// A column with what a row of the dense bitmask needs beside.
template <typename Policy>
struct DenseColumn : Column<Policy> {
    using Candidate = typename Policy::Candidate;
    uint64_t group;
    uint32_t source;

    __device__ DenseColumn(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                           const Candidate& candidate, uint32_t own, uint32_t n)
        : Column<Policy>(args, settings, candidate, own, n),
          group(group_of(args, settings, candidate.rank.class_index)),
          source(candidate.rank.source) {}
};

// The block's rows in shared memory.
struct DenseRows {
    float4 proxies[kDenseRows];
    uint64_t groups[kDenseRows];
    float min_areas[kDenseRows];
    uint32_t words[kDenseRows];  // `order_word`; 0, which nothing ranks above: not eligible
    uint2 ties[kDenseRows];      // class and source

    template <typename Policy>
    __device__ void store(const NmsSettings& settings, const DenseColumn<Policy>& own) {
        // The number of blocks is a power of two.
        const uint32_t row = own.index >> (__ffs(gridDim.x) - 1);
        proxies[row] = own.proxy;
        groups[row] = own.group;
        min_areas[row] = Policy::min_area(settings, own.proxy);
        words[row] = own.word == kLast ? 0 : own.word;
        ties[row] = make_uint2(own.class_index, own.source);
    }

    // Whether a column ranks above a row, candidate `index`, in the total order.
    template <typename Policy>
    __device__ bool is_below(const DenseColumn<Policy>& column, uint32_t row,
                             uint32_t index) const {
        if (column.word != words[row]) return column.word < words[row];
        const uint2 tie = ties[row];
        if (column.class_index != tie.x) return column.class_index < tie.x;
        return column.source != tie.y ? column.source < tie.y : column.index < index;
    }
};

// Compares a warp's columns with the block's rows.
template <typename Policy, typename Candidate>
__device__ void compare_dense(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                              const DenseRows& rows, const DenseColumn<Policy>& column,
                              uint32_t n) {
    // Not unrolled: a cold instruction cache costs more than the loop.
#pragma unroll 1
    for (uint32_t row = 0; row < kDenseRows; ++row) {
        const uint32_t own = candidate_of_row(row);
        if (own >= n) break;
        const float4 proxy = rows.proxies[row];
        const bool is_above = rows.is_below(column, row, own);
        const bool suppresses =
            is_above && Policy::may_suppress(settings, column.proxy, proxy, rows.min_areas[row]) &&
            Policy::suppresses(settings, column.proxy, proxy) &&
            (settings.class_mode == 1 || column.group == rows.groups[row]) &&
            suppresses_exactly<Policy>(args, settings, column.index, own);
        const uint32_t above = __ballot_sync(kAllLanes, is_above);
        const uint32_t suppressors = __ballot_sync(kAllLanes, suppresses);
        if (lane_of() != 0) continue;
        store_relaxed(dense_word(args, warp_of(), own), DenseWord::of(above, suppressors).word);
    }
}

// Waits for all words of a row.
template <uint32_t kWords, typename Candidate>
__device__ void wait_for_row(const NmsArgs<Candidate>& args, uint32_t row, uint32_t num_words,
                             DenseWord (&words)[kWords]) {
    bool are_written;
    do {
#pragma unroll
        for (uint32_t w = 0; w < kWords; ++w) {
            words[w] = DenseWord::of(0, 0);
            load_relaxed_if(words[w].word, dense_word(args, w, row), w, num_words);
        }
        are_written = true;
#pragma unroll
        for (uint32_t w = 0; w < kWords; ++w) are_written &= words[w].is_written();
    } while (!are_written);
}

struct DenseReduction {
    // Of 32 candidates each, kept in x and undecided in y. An iteration reads one
    // buffer and writes the other. Words past the last candidate are undefined.
    alignas(16) uint2 states[2][kDenseWords];
    uint32_t class_over[kDenseWords];
    Kept in_order[kDenseCapacity];
};

// Iterates until every candidate, one per thread, is decided: suppressed if one of
// its suppressors is kept, kept if all are suppressed. Returns the final states,
// two words each.
template <typename Policy, uint32_t kWords>
__device__ const uint4* reduce_dense(DenseReduction& shared, const DenseWord (&words)[kWords],
                                     bool& is_kept, bool is_undecided) {
    for (uint32_t current = 0;; current ^= 1) {
        const uint2 votes =
            make_uint2(__ballot_sync(kAllLanes, is_kept), __ballot_sync(kAllLanes, is_undecided));
        if (lane_of() == 0) shared.states[current][warp_of()] = votes;
        const uint4* states = reinterpret_cast<const uint4*>(shared.states[current]);
        if (!__syncthreads_or(is_undecided && !Policy::kAnySuppresses)) return states;
        if (!is_undecided) continue;
        uint32_t kept = 0;
        uint32_t undecided = 0;
#pragma unroll
        for (uint32_t w = 0; w < kWords; w += 2) {
            const uint4 two = states[w / 2];
            kept |= words[w].suppressors() & two.x | words[w + 1].suppressors() & two.z;
            undecided |= words[w].suppressors() & two.y | words[w + 1].suppressors() & two.w;
        }
        is_kept = kept == 0 && undecided == 0;
        is_undecided = kept == 0 && undecided != 0;
    }
}

// The last block: reduces up to kWords words of columns and writes the survivors.
// Warps without columns have returned.
template <uint32_t kWords, typename Policy, typename Candidate>
__device__ void finish_dense(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                             DenseReduction& shared, const DenseColumn<Policy>& own, uint32_t n) {
    const uint32_t lane = lane_of();
    const uint32_t num_words = max((n + 31) / 32, 1u);
    DenseWord words[kWords];
    wait_for_row(args, own.index, own.index < n ? num_words : 0, words);
    uint32_t any = 0;
#pragma unroll
    for (uint32_t w = 0; w < kWords; ++w) any |= words[w].suppressors();
    const bool is_present = own.word != kLast;
    bool is_kept = is_present && any == 0;
    const bool is_undecided = is_present && any != 0;
    const bool lacks = is_present && lacks_threshold<Policy>(settings, own.class_index);
    const uint32_t over = __reduce_max_sync(kAllLanes, lacks ? class_over(own.class_index) : 0);
    // The staged candidates, in the same shared memory, are no longer read.
    __syncthreads();
    if (lane == 0) shared.class_over[warp_of()] = over;
    const uint4* states = reduce_dense<Policy>(shared, words, is_kept, is_undecided);
    uint32_t position = 0;
#pragma unroll
    for (uint32_t w = 0; w < kWords; w += 2) {
        const uint4 two = states[w / 2];
        position += __popc(words[w].above() & two.x) + __popc(words[w + 1].above() & two.z);
    }
    if (is_kept) shared.in_order[position] = {own.index, score_of_word(own.word)};
    const uint32_t kept_of_lane =
        lane < num_words ? reinterpret_cast<const uint2*>(states)[lane].x : 0;
    const uint32_t num_kept =
        min(__reduce_add_sync(kAllLanes, __popc(kept_of_lane)), settings.max_num);
    __syncthreads();
    if (threadIdx.x < num_kept) args.output.write(threadIdx.x, shared.in_order[threadIdx.x]);
    const uint32_t over_of_lane = lane < num_words ? shared.class_over[lane] : 0;
    const NmsCounts counts = {num_kept, __reduce_max_sync(kAllLanes, over_of_lane)};
    if (own.index == 0) args.output.write_counts(counts);
#pragma unroll 1
    for (uint32_t w = 0; w < num_words && own.index < n; ++w) *dense_word(args, w, own.index) = 0;
}

template <typename Policy, typename Candidate>
__device__ void dense_bitmask(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                              uint4 (&staged)[Chunk<Candidate>::kVectors],
                              DenseReduction& reduction, const Chunk<Candidate>& chunk,
                              uint32_t n) {
    __shared__ DenseRows rows;
    const bool is_last = blockIdx.x == gridDim.x - 1;
    if (blockIdx.x >= n && !is_last) return;
    if (warp_of() * kLanes >= max(n, 1u)) return;
    const Candidate candidate = chunk.unpack(staged);
    const DenseColumn<Policy> column(args, settings, candidate, threadIdx.x, n);
    const bool is_row = column.index < n && (column.index & (gridDim.x - 1)) == blockIdx.x;
    if (is_row) rows.store(settings, column);
    __syncthreads();
    compare_dense(args, settings, rows, column, n);
    if (!is_last) return;
    if (n <= kDenseCapacity / 2) {
        finish_dense<kDenseWords / 2>(args, settings, reduction, column, n);
    } else {
        finish_dense<kDenseWords>(args, settings, reduction, column, n);
    }
}
