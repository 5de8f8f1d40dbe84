// Sparse levels and features from arrays and to arrays: crates/ops/src/arrays/sparse/mod.rs.
//
//   features   a thread per value: rows of float32 to rows of features, and the zeros in front
//   values     a thread per value: rows of features to rows of float32
//   sites      a thread per site: its cell, and the row of the input that it comes from
//   table      a thread per output row and tap: the input row, or -1
//
// The numbers of rows are those that the host has read.

#include "sparse/conv.cuh"
#include "sparse/site_index.cuh"

namespace sparse_arrays {

constexpr uint32_t kThreads = 256;

// The structs in Rust: crates/ops/src/arrays/sparse/kernels.rs.
struct FeaturesArgs {
    Slice<const float> values;         // rows of `num_channels`
    Slice<const uint32_t> input_rows;  // by row of features that of the values; empty: the same
    Slice<uint8_t> features;           // zeros, then rows
    uint32_t num_rows;
    uint32_t num_channels;
    uint32_t row_len;  // padded values of a row of features
    uint32_t reserved;
};

struct ValuesArgs {
    Slice<const uint8_t> features;  // zeros, then rows
    Slice<float> values;            // rows of `num_channels`
    uint32_t num_channels;
    uint32_t row_len;  // padded values of a row of features
};

struct SitesArgs {
    Slice<const uint32_t> sites;       // linear indices
    Slice<const uint32_t> input_rows;  // by site
    Slice<uint32_t> cells;             // scene, c0, c1, c2 by site; may be empty
    Slice<uint64_t> rows;              // by site; may be empty
    SiteGrid grid;
};

struct TableArgs {
    Slice<const uint32_t> words;
    Slice<uint32_t> rows;  // by tap and output row
    uint32_t num_rows;     // of the output
    uint32_t width;        // taps per word
    uint32_t stride;       // words from one group to the next
    uint32_t reserved;
};

template <typename E>
__device__ inline void write_features(const FeaturesArgs& args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (at < sparse_conv::kZeroBytes / sizeof(E)) {
        reinterpret_cast<E*>(args.features.data)[at] = E(0.0f);
    }
    const uint64_t row = at / args.row_len;
    const auto channel = static_cast<uint32_t>(at % args.row_len);
    if (row >= args.num_rows) return;
    E value = E(0.0f);
    if (channel < args.num_channels) {
        const uint64_t from = args.input_rows.len == 0 ? row : args.input_rows[row];
        const uint64_t place = from * args.num_channels + channel;
        if (place < args.values.len) sparse_conv::store(args.values[place], &value);
    }
    reinterpret_cast<E*>(args.features.data + sparse_conv::kZeroBytes)[at] = value;
}

template <typename E>
__device__ inline void write_values(const ValuesArgs& args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (at >= args.values.len) return;
    const uint64_t from = at / args.num_channels * args.row_len + at % args.num_channels;
    args.values[at] = sparse_conv::loaded(
        reinterpret_cast<const E*>(args.features.data + sparse_conv::kZeroBytes)[from]);
}

}  // namespace sparse_arrays

// sparse_arrays_features_* and sparse_arrays_values_*: _f32, _f16 and _bf16.
#define SPARSE_ARRAYS(E, suffix)                                                                \
    extern "C" __global__ void __launch_bounds__(sparse_arrays::kThreads)                       \
        sparse_arrays_features_##suffix(                                                        \
            const __grid_constant__ sparse_arrays::FeaturesArgs args) {                         \
        sparse_arrays::write_features<E>(args);                                                 \
    }                                                                                           \
    extern "C" __global__ void __launch_bounds__(sparse_arrays::kThreads)                       \
        sparse_arrays_values_##suffix(const __grid_constant__ sparse_arrays::ValuesArgs args) { \
        sparse_arrays::write_values<E>(args);                                                   \
    }

SPARSE_ARRAYS(float, f32)
SPARSE_ARRAYS(__half, f16)
SPARSE_ARRAYS(__nv_bfloat16, bf16)

extern "C" __global__ void __launch_bounds__(sparse_arrays::kThreads)
    sparse_arrays_sites(const __grid_constant__ sparse_arrays::SitesArgs args) {
    const uint64_t site = static_cast<uint64_t>(blockIdx.x) * sparse_arrays::kThreads + threadIdx.x;
    if (site < args.cells.len / 4) {
        const SiteCell found = cell_of(args.grid, args.sites[site]);
        args.cells[4 * site] = found.batch;
        for (uint32_t axis = 0; axis < 3; ++axis)
            args.cells[4 * site + 1 + axis] = found.cell[axis];
    }
    if (site < args.rows.len) args.rows[site] = args.input_rows[site];
}

// Grid: x by output row, y by tap.
extern "C" __global__ void __launch_bounds__(sparse_arrays::kThreads)
    sparse_arrays_table(const __grid_constant__ sparse_arrays::TableArgs args) {
    const uint32_t row = blockIdx.x * sparse_arrays::kThreads + threadIdx.x;
    if (row >= args.num_rows) return;
    const uint32_t tap = blockIdx.y;
    const uint32_t word = args.words[static_cast<uint64_t>(tap / args.width) * args.stride + row];
    // An absent row is -1.
    args.rows[static_cast<uint64_t>(tap) * args.num_rows + row] =
        sparse_conv::input_row(word, tap % args.width);
}
