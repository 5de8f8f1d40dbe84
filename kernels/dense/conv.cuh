// What the kernels of convolutions share: arguments, tiles, the epilogue. The contract is in
// crates/ops/src/dense/conv/mod.rs.
#pragma once

#include <cuda_fp16.h>

#include "dense/activation.cuh"
#include "shared/pdl.cuh"
#include "shared/slice.cuh"
#include "shared/warp.cuh"

namespace dense_conv {

enum ResidualPlace : uint32_t {
    kNoResidual = 0,
    kBeforeActivation = 1,
    kAfterActivation = 2,
};

// A map in device memory. Strides are in elements; those of a vector map allow 16 bytes of
// neighbouring channels at once.
struct Map {
    uint32_t item, channel, row, pixel;  // strides
    uint32_t is_f32;
    uint32_t is_vector;
};

// The struct in Rust: crates/ops/src/dense/conv/kernels.rs.
struct Args {
    Slice<const uint8_t> input;
    Slice<const uint8_t> weights;
    Slice<const float> bias;  // by column
    Slice<const uint8_t> residual;
    Slice<const uint32_t> steps;  // f16: where each step of 16 products is in the patches
    Slice<uint8_t> output;
    Map in_map, res_map, out_map;
    dense::Activation activation;
    uint32_t residual_place;
    uint32_t num_items;
    int32_t in_height, in_width;  // of the map that is read, before it is enlarged
    uint32_t upsample_shift;      // 1: each pixel is there twice in both directions
    uint32_t out_height, out_width;
    uint32_t kernel_y, kernel_x;
    uint32_t stride_y, stride_x;
    uint32_t dilation_y, dilation_x;
    int32_t pad_y, pad_x;
    uint32_t num_inputs, num_outputs;  // channels of a group
    uint32_t tap_columns;              // columns of an output pixel; more are its neighbours:
    uint32_t shuffle_y, shuffle_x;     // an output pixel of the tile is so many of the map
    uint32_t num_columns;              // columns of a group, padded
    uint32_t column_blocks;            // of a group
    uint32_t tiles_y, tiles_x;         // tiles of an item
    uint32_t tile_x_log2;              // pixels of a tile along x
    uint32_t patch_height, patch_width;
    uint32_t pixel_bytes;  // of a patch
    uint32_t patch_bytes;
    uint32_t num_patches;     // in the ring
    uint32_t chunk_channels;  // of a patch
    uint32_t num_chunks;
    uint32_t chunk_steps;  // steps of a whole chunk
    uint32_t num_steps;
    uint32_t num_products;  // of an output, which the exact kernels sum
    uint32_t weights_item, weights_input, weights_column;  // exact: strides of any weights
    uint32_t weights_f32;
    uint32_t weights_vector;  // exact: packed by product and column
    uint32_t rounds;          // exact: factors to f16
};

// The tile of a block: output pixels from (y, x) on of an item, columns of a group.
struct Tile {
    uint32_t item, y, x, group, column;

    __device__ Tile(const Args& args, uint32_t tile_pixels, uint32_t tile_columns) {
        const uint32_t per_item = args.tiles_y * args.tiles_x;
        item = blockIdx.x / per_item;
        const uint32_t at = blockIdx.x - item * per_item;
        const uint32_t row = at / args.tiles_x;
        y = row * (tile_pixels >> args.tile_x_log2);
        x = (at - row * args.tiles_x) << args.tile_x_log2;
        group = blockIdx.y / args.column_blocks;
        column = (blockIdx.y - group * args.column_blocks) * tile_columns;
    }
};

__device__ inline uint32_t shared_address(const void* at) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
// Copies 16 bytes, of which those from `num_bytes` on are not read and become 0.
__device__ inline void copy_async(uint32_t to, const void* from, uint32_t num_bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(num_bytes)
                 : "memory");
}
__device__ inline void copy_async(uint32_t to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <uint32_t kPending>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
// An element of a map.
__device__ inline float load_element(const uint8_t* data, bool is_f32, uint32_t at) {
    return is_f32 ? reinterpret_cast<const float*>(data)[at]
                  : __half2float(reinterpret_cast<const __half*>(data)[at]);
}

struct alignas(16) Halves {
    __half2 pairs[4];
};

// Loads 8 neighbouring channels of a vector map.
__device__ inline void load_eight(const uint8_t* data, bool is_f32, uint32_t at,
                                  float (&values)[8]) {
    if (is_f32) {
        const float4* from = reinterpret_cast<const float4*>(data + at * 4ull);
        const float4 a = from[0], b = from[1];
        values[0] = a.x, values[1] = a.y, values[2] = a.z, values[3] = a.w;
        values[4] = b.x, values[5] = b.y, values[6] = b.z, values[7] = b.w;
    } else {
        const Halves halves = *reinterpret_cast<const Halves*>(data + at * 2ull);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            const float2 pair = __half22float2(halves.pairs[i]);
            values[2 * i] = pair.x, values[2 * i + 1] = pair.y;
        }
    }
}
__device__ inline void store_eight(uint8_t* data, bool is_f32, uint32_t at,
                                   const float (&values)[8]) {
    if (is_f32) {
        float4* to = reinterpret_cast<float4*>(data + at * 4ull);
        to[0] = make_float4(values[0], values[1], values[2], values[3]);
        to[1] = make_float4(values[4], values[5], values[6], values[7]);
    } else {
        Halves halves;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i)
            halves.pairs[i] = __floats2half2_rn(values[2 * i], values[2 * i + 1]);
        *reinterpret_cast<Halves*>(data + at * 2ull) = halves;
    }
}

// Where the 8 columns from `column` on of an output pixel are.
struct Place {
    uint32_t y, x;     // of the output
    uint32_t channel;  // of all groups
    uint32_t num;      // channels that there are, up to 8

    Place() = default;
    __device__ Place(const Args& args, const Tile& tile, uint32_t ty, uint32_t tx,
                     uint32_t column) {
        y = tile.y + ty, x = tile.x + tx;
        uint32_t in_group = column;
        if (args.shuffle_y * args.shuffle_x > 1) {
            const uint32_t tap = column / args.tap_columns;
            in_group = column - tap * args.tap_columns;
            const uint32_t tap_y = tap / args.shuffle_x;
            y = y * args.shuffle_y + tap_y;
            x = x * args.shuffle_x + tap - tap_y * args.shuffle_x;
            if (tap_y >= args.shuffle_y) in_group = args.num_outputs;
        }
        num = in_group < args.num_outputs ? min(args.num_outputs - in_group, 8u) : 0;
        channel = tile.group * args.num_outputs + in_group;
    }
    __device__ uint32_t in(const Map& map, const Tile& tile) const {
        return tile.item * map.item + y * map.row + x * map.pixel + channel * map.channel;
    }
};

// The bias of columns of a group.
__device__ inline const float* bias_of(const Args& args, const Tile& tile, uint32_t column) {
    return args.bias.data + tile.group * args.num_columns + column;
}

// The residual of 8 columns.
__device__ inline void load_residual(const Args& args, const Tile& tile, const Place& place,
                                     float (&residual)[8]) {
    const uint32_t at = place.in(args.res_map, tile);
    if (args.res_map.is_vector && place.num == 8)
        return load_eight(args.residual.data, args.res_map.is_f32, at, residual);
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
        residual[i] = 0.0f;
        if (i < place.num)
            residual[i] = load_element(args.residual.data, args.res_map.is_f32,
                                       at + i * args.res_map.channel);
    }
}
__device__ inline void store_columns(const Args& args, const Tile& tile, const Place& place,
                                     const float (&values)[8]) {
    const uint32_t at = place.in(args.out_map, tile);
    if (args.out_map.is_vector && place.num == 8)
        return store_eight(args.output.data, args.out_map.is_f32, at, values);
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
        if (i >= place.num) continue;
        const uint32_t to = at + i * args.out_map.channel;
        if (args.out_map.is_f32)
            reinterpret_cast<float*>(args.output.data)[to] = values[i];
        else
            reinterpret_cast<__half*>(args.output.data)[to] = __float2half_rn(values[i]);
    }
}

// Bias, residual and activation of some pieces of 8 columns, and their store. Of several, all
// loads come first; their activation is a short one.
template <bool kFast, uint32_t kNum>
__device__ inline void finish(const Args& args, const Tile& tile, const Place (&places)[kNum],
                              const float* const (&biases)[kNum], float (&values)[kNum][8]) {
    float residual[kNum][8] = {};
    if (args.residual_place != kNoResidual) {
#pragma unroll
        for (uint32_t j = 0; j < kNum; ++j)
            if (places[j].num != 0) load_residual(args, tile, places[j], residual[j]);
    }
#pragma unroll
    for (uint32_t j = 0; j < kNum; ++j) {
        float (&v)[8] = values[j];
        const float4* bias = reinterpret_cast<const float4*>(biases[j]);
        const float4 a = bias[0], b = bias[1];
        v[0] += a.x, v[1] += a.y, v[2] += a.z, v[3] += a.w;
        v[4] += b.x, v[5] += b.y, v[6] += b.z, v[7] += b.w;
        if (args.residual_place == kBeforeActivation) {
#pragma unroll
            for (uint32_t i = 0; i < 8; ++i) v[i] += residual[j][i];
        }
        if constexpr (kNum == 1)
            dense::activate_all<kFast>(args.activation, v);
        else
            dense::activate_short<kFast>(args.activation, v);
        if (args.residual_place == kAfterActivation) {
#pragma unroll
            for (uint32_t i = 0; i < 8; ++i) v[i] += residual[j][i];
        }
        if (places[j].num != 0) store_columns(args, tile, places[j], v);
    }
}

// Floats behind the columns of a row of sums, which avoid bank conflicts.
constexpr uint32_t kSumPadding = 8;

// Adds up the parts of the sums of `kNum` pieces of a tile and stores them.
template <uint32_t kPixels, uint32_t kColumns, uint32_t kParts, uint32_t kThreads, bool kFast,
          uint32_t kNum>
__device__ inline void store_pieces(const Args& args, const Tile& tile, const float* biases,
                                    const float* parts, uint32_t first) {
    constexpr uint32_t kPieces = kColumns / 8;
    constexpr uint32_t kPitch = kColumns + kSumPadding;
    const uint32_t mask = (1u << args.tile_x_log2) - 1;
    // Neighbouring threads have neighbouring channels, or pixels of planes.
    const bool by_channel = args.out_map.channel == 1;
    Place places[kNum];
    const float* of_columns[kNum];
    float values[kNum][8] = {};
#pragma unroll
    for (uint32_t j = 0; j < kNum; ++j) {
        const uint32_t i = first + j * kThreads;
        const uint32_t row = by_channel ? i / kPieces : i % kPixels;
        const uint32_t in_tile = (by_channel ? i % kPieces : i / kPixels) * 8;
        const uint32_t ty = row >> args.tile_x_log2, tx = row & mask;
        const bool is_inside = tile.y + ty < args.out_height && tile.x + tx < args.out_width;
        places[j] = Place(args, tile, ty, tx, tile.column + in_tile);
        if (!is_inside) places[j].num = 0;
        of_columns[j] = biases + in_tile;
        float (&v)[8] = values[j];
#pragma unroll
        for (uint32_t k = 0; k < kParts; ++k) {
            const float4* from =
                reinterpret_cast<const float4*>(parts + (k * kPixels + row) * kPitch + in_tile);
            // Fours of threads begin at different halves: no two of eight are at a bank.
            const uint32_t half = threadIdx.x / 4 % 2;
            const float4 x = from[half], y = from[1 - half];
            const float4 a = half == 0 ? x : y, b = half == 0 ? y : x;
            v[0] += a.x, v[1] += a.y, v[2] += a.z, v[3] += a.w;
            v[4] += b.x, v[5] += b.y, v[6] += b.z, v[7] += b.w;
        }
    }
    finish<kFast, kNum>(args, tile, places, of_columns, values);
}

// Adds up the parts of the sums of a tile, in their order, and stores it; `biases` are of its
// columns.
template <uint32_t kPixels, uint32_t kColumns, uint32_t kParts, uint32_t kThreads, bool kFast>
__device__ inline void store_sums(const Args& args, const Tile& tile, const float* biases,
                                  const float* parts) {
    constexpr uint32_t kNum = kPixels * kColumns / 8;
    constexpr uint32_t kEach = kNum % kThreads == 0 ? kNum / kThreads : 1;
    constexpr uint32_t kAtOnce = kEach % 4 == 0 ? 4 : kEach % 3 == 0 ? 3 : kEach % 2 == 0 ? 2 : 1;
    if (kAtOnce > 1 && dense::is_short(args.activation)) {
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < kNum; i += kAtOnce * kThreads)
            store_pieces<kPixels, kColumns, kParts, kThreads, kFast, kAtOnce>(args, tile, biases,
                                                                              parts, i);
        return;
    }
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < kNum; i += kThreads)
        store_pieces<kPixels, kColumns, kParts, kThreads, kFast, 1>(args, tile, biases, parts, i);
}

}  // namespace dense_conv
