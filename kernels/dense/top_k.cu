// The largest elements along a dimension, in order: crates/ops/src/dense/top_k/mod.rs.
//
// A block has a row. An element is a key of 64 bits, unique and the smaller the earlier it comes:
// a word that falls while the value rises, then the position. In passes over the digits of the
// keys, the first first, a histogram tells in which bin the last chosen key is, until the keys up
// to a prefix are as many as are chosen. These are gathered, and each counts those before it.
// Reads: the source. Writes: values and positions.

#include "dense/order.cuh"
#include "dense/rows.cuh"

namespace dense_top_k {

constexpr uint32_t kThreads = 1024;
constexpr uint32_t kMaxChosen = 2048;
constexpr uint32_t kBins = 2048;

// The struct in Rust: crates/ops/src/dense/top_k/kernels.rs.
struct Args {
    dense::Source source;
    dense::Target values;     // empty: none
    dense::Target positions;  // empty: none
    dense::RowDims dims;
    uint32_t num_chosen;
    uint32_t is_smallest;
};

struct Scratch {
    uint64_t keys[kMaxChosen];
    uint32_t bins[kBins];
    uint32_t warps[kLanes];
    uint32_t num_keys;
    // Of the bin that has the last chosen key: its digit, its keys, and those chosen of them.
    uint32_t digit, in_bin, chosen_in_bin;
};

struct Keys {
    const Args& args;
    uint32_t from;

    __device__ uint64_t operator[](uint32_t i) const {
        const float value = dense::load(
            args.source, from + dense::element_offset(args.dims, i, args.source.strides));
        const uint32_t rank = dense::ascending(args.is_smallest != 0 ? -value : value);
        return static_cast<uint64_t>(~rank) << 32 | i;
    }
};

// Finds the bin of key `num`, counted from 1: two neighbouring bins a thread.
__device__ inline void find_bin(Scratch& scratch, uint32_t num) {
    const uint32_t first = scratch.bins[2 * threadIdx.x],
                   second = scratch.bins[2 * threadIdx.x + 1];
    uint32_t sum = first + second;
#pragma unroll
    for (uint32_t step = 1; step < kLanes; step *= 2) {
        const uint32_t before = __shfl_up_sync(kAllLanes, sum, step);
        if (lane_of() >= step) sum += before;
    }
    if (lane_of() == kLanes - 1) scratch.warps[warp_of()] = sum;
    __syncthreads();
    for (uint32_t warp = 0; warp < warp_of(); ++warp) sum += scratch.warps[warp];
    const uint32_t before = sum - first - second;
    if (before < num && num <= sum) {
        const bool is_first = num <= before + first;
        scratch.digit = 2 * threadIdx.x + (is_first ? 0 : 1);
        scratch.in_bin = is_first ? first : second;
        scratch.chosen_in_bin = num - before - (is_first ? 0 : first);
    }
    __syncthreads();
}

// The shift below which chosen keys are not told apart, and the largest of their prefixes.
__device__ inline uint64_t find_prefix(const Keys& keys, uint32_t len, Scratch& scratch,
                                       uint32_t& shift) {
    uint64_t prefix = 0;
    uint32_t remaining = keys.args.num_chosen;
    shift = 64;
    while (shift != 0) {
        const uint32_t bits = shift == 42 || shift == 10 ? 10 : 11;
        const uint32_t next = shift - bits;
        for (uint32_t i = threadIdx.x; i < kBins; i += kThreads) scratch.bins[i] = 0;
        __syncthreads();
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < len; i += kThreads) {
            const uint64_t key = keys[i];
            // A shift by 64 is none.
            if (shift == 64 || key >> shift == prefix) {
                atomicAdd(&scratch.bins[key >> next & ((1u << bits) - 1)], 1);
            }
        }
        __syncthreads();
        find_bin(scratch, remaining);
        prefix = prefix << bits | scratch.digit;
        remaining = scratch.chosen_in_bin;
        shift = next;
        if (remaining == scratch.in_bin) break;
        __syncthreads();
    }
    return prefix;
}

__device__ void choose(const Args& args) {
    __shared__ Scratch scratch;
    pdl::trigger();
    pdl::wait();
    const uint32_t len = args.dims.len, row = blockIdx.x;
    const Keys keys{args, dense::row_offset(args.dims, row, args.source.strides)};
    uint32_t shift = 0;
    uint64_t prefix = ~uint64_t{0};
    if (threadIdx.x == 0) scratch.num_keys = 0;
    if (len > kMaxChosen) prefix = find_prefix(keys, len, scratch, shift);
    __syncthreads();
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < len; i += kThreads) {
        const uint64_t key = keys[i];
        if (key >> shift <= prefix) scratch.keys[atomicAdd(&scratch.num_keys, 1)] = key;
    }
    __syncthreads();
    const uint32_t num_keys = scratch.num_keys;
    const uint32_t to_values = dense::row_offset(args.dims, row, args.values.strides),
                   to_positions = dense::row_offset(args.dims, row, args.positions.strides);
    for (uint32_t k = threadIdx.x; k < num_keys; k += kThreads) {
        const uint64_t own = scratch.keys[k];
        uint32_t rank = 0;
#pragma unroll 8
        for (uint32_t i = 0; i < num_keys; ++i) rank += scratch.keys[i] < own ? 1 : 0;
        if (rank >= args.num_chosen) continue;
        const auto position = static_cast<uint32_t>(own);
        if (args.values.bytes.len != 0) {
            const uint32_t from =
                keys.from + dense::element_offset(args.dims, position, args.source.strides);
            dense::store_word(
                args.values,
                to_values + dense::element_offset(args.dims, rank, args.values.strides),
                dense::load_word(args.source, from));
        }
        if (args.positions.bytes.len != 0) {
            dense::store_word(
                args.positions,
                to_positions + dense::element_offset(args.dims, rank, args.positions.strides),
                position);
        }
    }
}

}  // namespace dense_top_k

extern "C" __global__ void __launch_bounds__(dense_top_k::kThreads)
    dense_top_k_rows(const __grid_constant__ dense_top_k::Args args) {
    dense_top_k::choose(args);
}
