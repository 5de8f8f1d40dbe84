// What the kernels of sparse convolutions share: arguments, tables, stores.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "shared/slice.cuh"
#include "shared/warp.cuh"

namespace sparse_conv {

// Rows of a tile: a matrix instruction has as many.
constexpr uint32_t kTileRows = 16;
// Words per row that a warp holds at once, and their taps.
constexpr uint32_t kBatch = 9;
constexpr uint32_t kBatchTaps = 27;
// Features begin with zeros, which an absent row of a tap reads; rows follow.
constexpr uint32_t kZeroBytes = 16384;
constexpr uint32_t kAbsent = 0xffffffffu;

// The struct in Rust: crates/ops/src/sparse/conv/kernels.rs. Rows of features are padded
// to 16 channels or, above, to a multiple of 32.
struct Args {
    Slice<const uint8_t> features;  // zeros, then rows; so are residual and output
    Slice<const uint8_t> weights;   // packed: crates/ops/src/sparse/conv/pack.rs
    Slice<const float> bias;        // padded as rows are
    Slice<const uint8_t> residual;  // rows as those of the output; empty: none
    Slice<const uint32_t> words;
    Slice<const uint32_t> counts;  // of the output's level: the first is its sites
    Slice<uint8_t> output;
    uint32_t num_groups;   // words per row
    uint32_t width;        // taps per word: 3 or 1
    uint32_t stride;       // from one group of words to the next
    uint32_t num_inputs;   // channels
    uint32_t row_bytes;    // of the features
    uint32_t num_outputs;  // channels, padded
    uint32_t num_chunks;   // steps per tap along the channels
    uint32_t has_relu;
    uint32_t capacity;        // output rows
    uint32_t num_input_rows;  // that words name at most
    uint32_t opaque_zero;     // always 0, which the compiler does not know
    uint32_t max_rows;        // that a block of an f32 kernel sums at once
};

// A part of some tiles of 16 rows: part `index` of `num`.
struct Range {
    uint32_t begin, end;

    __device__ Range(uint32_t first, uint32_t num_tiles, uint32_t index, uint32_t num)
        : begin(first + static_cast<uint64_t>(num_tiles) * index / num),
          end(first + static_cast<uint64_t>(num_tiles) * (index + 1) / num) {}
};

__device__ inline uint32_t num_rows_of(const Args& args) {
    const uint32_t num = args.counts[0];
    return num < args.capacity ? num : args.capacity;
}

// The input row that tap `at` of a word reads.
__device__ inline uint32_t input_row(uint32_t word, uint32_t at) {
    const uint32_t bit = 1u << at;
    return (word & bit) != 0 ? (word >> 3) + __popc(word & (bit - 1)) : kAbsent;
}

__device__ inline float relu(float value) { return value < 0.0f ? 0.0f : value; }

__device__ inline void store(float value, float* at) { *at = value; }
__device__ inline void store(float value, __half* at) { *at = __float2half_rn(value); }
__device__ inline void store(float value, __nv_bfloat16* at) { *at = __float2bfloat16_rn(value); }
__device__ inline float loaded(float value) { return value; }
__device__ inline float loaded(__half value) { return __half2float(value); }
__device__ inline float loaded(__nv_bfloat16 value) { return __bfloat162float(value); }

// Neighbouring rows of a warp.
struct Rows {
    uint32_t first, end;

    __device__ bool has(uint32_t row) const { return row < end; }
};

// The rows of some tiles, none beyond the last row.
__device__ inline Rows rows_of(uint32_t first_tile, uint32_t end_tile, uint32_t num_rows) {
    const uint32_t end = end_tile * kTileRows;
    return {first_tile * kTileRows, end < num_rows ? end : num_rows};
}

// The epilogue of `kNum` neighbouring channels of `kRows` rows, of which those beyond the end
// are left out. The residuals of all rows are on their way at once.
template <typename E, uint32_t kNum, uint32_t kRows>
__device__ void epilogue(const Args& args, const Rows& rows, const uint32_t (&row)[kRows],
                         uint32_t channel, const float (&sums)[kRows][kNum]) {
    constexpr uint32_t kWide = 16 / sizeof(E) < kNum ? 16 / sizeof(E) : kNum;
    struct alignas(kWide * sizeof(E)) Wide {
        E values[kWide];
    };
    // Features have less than 2^32 bytes.
    const uint32_t row_bytes = args.num_outputs * sizeof(E);
    const uint32_t first_byte = kZeroBytes + channel * sizeof(E);
    const bool has_residual = args.residual.len != 0;
    Wide wide[kRows][kNum / kWide] = {};
#pragma unroll
    for (uint32_t i = 0; i < kRows; ++i) {
        if (!has_residual || !rows.has(row[i])) continue;
        const uint8_t* at = args.residual.data + (first_byte + row[i] * row_bytes);
#pragma unroll
        for (uint32_t w = 0; w < kNum / kWide; ++w)
            wide[i][w] = reinterpret_cast<const Wide*>(at)[w];
    }
#pragma unroll
    for (uint32_t w = 0; w < kNum / kWide; ++w) {
        float bias[kWide];
#pragma unroll
        for (uint32_t c = 0; c < kWide; ++c) bias[c] = __ldg(&args.bias[channel + w * kWide + c]);
#pragma unroll
        for (uint32_t i = 0; i < kRows; ++i) {
#pragma unroll
            for (uint32_t c = 0; c < kWide; ++c) {
                float value = sums[i][w * kWide + c] + bias[c];
                if (has_residual) value += loaded(wide[i][w].values[c]);
                if (args.has_relu != 0) value = relu(value);
                store(value, &wide[i][w].values[c]);
            }
            if (!rows.has(row[i])) continue;
            uint8_t* at = args.output.data + (first_byte + row[i] * row_bytes);
            reinterpret_cast<Wide*>(at)[w] = wide[i][w];
        }
    }
}

}  // namespace sparse_conv
