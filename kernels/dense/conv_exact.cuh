// Convolutions and products of matrices in f32: `fma` over kernel rows, kernel columns and
// channels ascending, as on the CPU; any maps. A tile of output pixels times a tile of columns;
// a thread has some rows and neighbouring columns of it in registers. A product of a tap outside
// the input is one of zeros, which leaves a sum as it is.
//
// The factors of 16 products are in shared memory at a time, the next ones on their way.
#pragma once

#include "dense/conv.cuh"

namespace dense_conv {

constexpr uint32_t kExactProducts = 16;
constexpr uint32_t kExactPitch = kExactProducts + 4;

template <uint32_t kTilePixels, uint32_t kTileColumns, uint32_t kThreadRows>
struct ExactShape {
    static constexpr uint32_t kPixels = kTilePixels;
    static constexpr uint32_t kColumns = kTileColumns;
    static constexpr uint32_t kRows = kThreadRows;
    static constexpr uint32_t kThreadsX = kTileColumns / 4;
    static constexpr uint32_t kThreadsY = kTilePixels / kThreadRows;
    static constexpr uint32_t kThreads = kThreadsX * kThreadsY;
    static constexpr uint32_t kInputFloats = kTilePixels * kExactPitch;
    static constexpr uint32_t kWeightFloats = kExactProducts * kTileColumns;
    static constexpr uint32_t kSumFloats = kTilePixels * (kTileColumns + kSumPadding);
    static constexpr uint32_t kStageFloats = 2 * (kInputFloats + kWeightFloats);
    static constexpr uint32_t kFloats = kStageFloats > kSumFloats ? kStageFloats : kSumFloats;
    static_assert(kThreads % kExactProducts == 0);
};

template <typename S>
struct alignas(16) ExactShared {
    float values[S::kFloats];
    // The first tap of each pixel of the tile, by row and column of the input.
    int2 firsts[S::kPixels];

    __device__ float* inputs(uint32_t stage) { return values + stage % 2 * S::kInputFloats; }
    __device__ float* weights(uint32_t stage) {
        return values + 2 * S::kInputFloats + stage % 2 * S::kWeightFloats;
    }
};

// Copies 4 bytes, or stores 0.
__device__ inline void copy_word(float* to, const void* from, bool exists) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(exists ? 4 : 0)
                 : "memory");
}
__device__ inline float rounded(const Args& args, float value) {
    return args.rounds != 0 ? __half2float(__float2half_rn(value)) : value;
}
// The element `at` of a map, or 0.
__device__ inline void copy_element(const Args& args, float* to, const uint8_t* data, bool is_f32,
                                    uint32_t at, bool exists) {
    if (is_f32 && args.rounds == 0)
        copy_word(to, reinterpret_cast<const float*>(data) + (exists ? at : 0), exists);
    else
        *to = exists ? rounded(args, load_element(data, is_f32, at)) : 0.0f;
}

// Queues the copies of the factors of 16 products.
template <typename S>
__device__ inline void copy_factors(const Args& args, const Tile& tile, ExactShared<S>& shared,
                                    uint32_t stage) {
    constexpr uint32_t kRowsAtOnce = S::kThreads / kExactProducts;
    const uint32_t column = threadIdx.x % kExactProducts;
    const uint32_t k = stage * kExactProducts + column;
    const uint32_t tap = k / args.num_inputs, channel = k - tap * args.num_inputs;
    const uint32_t tap_y = tap / args.kernel_x;
    const int32_t dy = static_cast<int32_t>(tap_y * args.dilation_y);
    const int32_t dx = static_cast<int32_t>((tap - tap_y * args.kernel_x) * args.dilation_x);
    const int32_t height = args.in_height << args.upsample_shift;
    const int32_t width = args.in_width << args.upsample_shift;
    const uint32_t base = tile.item * args.in_map.item +
                          (tile.group * args.num_inputs + channel) * args.in_map.channel;
    float* inputs = shared.inputs(stage) + column;
#pragma unroll
    for (uint32_t i = 0; i < S::kPixels / kRowsAtOnce; ++i) {
        const uint32_t row = threadIdx.x / kExactProducts + i * kRowsAtOnce;
        const int2 first = shared.firsts[row];
        const int32_t y = first.x + dy, x = first.y + dx;
        const bool exists = k < args.num_products && y >= 0 && y < height && x >= 0 && x < width;
        const uint32_t at = base +
                            (static_cast<uint32_t>(y) >> args.upsample_shift) * args.in_map.row +
                            (static_cast<uint32_t>(x) >> args.upsample_shift) * args.in_map.pixel;
        copy_element(args, inputs + row * kExactPitch, args.input.data, args.in_map.is_f32 != 0, at,
                     exists);
    }
    const uint32_t first_k = stage * kExactProducts;
    float* weights = shared.weights(stage);
    if (args.weights_vector != 0) {
        const float* from =
            reinterpret_cast<const float*>(args.weights.data) +
            static_cast<uint64_t>(tile.group) * args.num_products * args.num_columns + tile.column;
        for (uint32_t i = threadIdx.x; i < S::kWeightFloats / 4; i += S::kThreads) {
            const uint32_t row = i / (S::kColumns / 4), at = i % (S::kColumns / 4) * 4;
            const bool exists = first_k + row < args.num_products;
            const uint64_t offset = static_cast<uint64_t>(first_k + row) * args.num_columns + at;
            copy_async(shared_address(weights + row * S::kColumns + at),
                       from + (exists ? offset : 0), exists ? 16 : 0);
        }
        return;
    }
    for (uint32_t i = threadIdx.x; i < S::kWeightFloats; i += S::kThreads) {
        const uint32_t row = i / S::kColumns, n = i % S::kColumns;
        const bool exists = first_k + row < args.num_products && tile.column + n < args.num_outputs;
        const uint32_t at = tile.item * args.weights_item + (first_k + row) * args.weights_input +
                            (tile.column + n) * args.weights_column;
        copy_element(args, weights + i, args.weights.data, args.weights_f32 != 0, at, exists);
    }
}

template <typename S>
__device__ inline void compute_exact(const Args& args) {
    __shared__ ExactShared<S> shared;
    const Tile tile(args, S::kPixels, S::kColumns);
    const uint32_t mask = (1u << args.tile_x_log2) - 1;
    for (uint32_t i = threadIdx.x; i < S::kPixels; i += S::kThreads) {
        const uint32_t y = tile.y + (i >> args.tile_x_log2), x = tile.x + (i & mask);
        shared.firsts[i] = make_int2(static_cast<int32_t>(y * args.stride_y) - args.pad_y,
                                     static_cast<int32_t>(x * args.stride_x) - args.pad_x);
    }
    pdl::wait();
    __syncthreads();
    const uint32_t tx = threadIdx.x % S::kThreadsX, ty = threadIdx.x / S::kThreadsX;
    float sums[S::kRows][4] = {};
    const uint32_t num_stages = (args.num_products + kExactProducts - 1) / kExactProducts;
    copy_factors<S>(args, tile, shared, 0);
    commit_copies();
    for (uint32_t stage = 0; stage < num_stages; ++stage) {
        if (stage + 1 < num_stages) copy_factors<S>(args, tile, shared, stage + 1);
        commit_copies();
        wait_for_copies<1>();
        __syncthreads();
        const float* inputs = shared.inputs(stage) + ty * kExactPitch;
        const float* weights = shared.weights(stage) + tx * 4;
#pragma unroll
        for (uint32_t k = 0; k < kExactProducts; k += 4) {
            float4 x[S::kRows], w[4];
#pragma unroll
            for (uint32_t i = 0; i < S::kRows; ++i)
                x[i] =
                    *reinterpret_cast<const float4*>(inputs + i * S::kThreadsY * kExactPitch + k);
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j)
                w[j] = *reinterpret_cast<const float4*>(weights + (k + j) * S::kColumns);
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                const float columns[4] = {w[j].x, w[j].y, w[j].z, w[j].w};
#pragma unroll
                for (uint32_t i = 0; i < S::kRows; ++i) {
                    const float value = j == 0   ? x[i].x
                                        : j == 1 ? x[i].y
                                        : j == 2 ? x[i].z
                                                 : x[i].w;
#pragma unroll
                    for (uint32_t c = 0; c < 4; ++c)
                        sums[i][c] = fmaf(value, columns[c], sums[i][c]);
                }
            }
        }
        __syncthreads();
    }
    constexpr uint32_t kPitch = S::kColumns + kSumPadding;
#pragma unroll
    for (uint32_t i = 0; i < S::kRows; ++i)
        *reinterpret_cast<float4*>(shared.values + (ty + i * S::kThreadsY) * kPitch + tx * 4) =
            make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
    __syncthreads();
    store_sums<S::kPixels, S::kColumns, 1, S::kThreads, false>(
        args, tile, bias_of(args, tile, tile.column), shared.values);
}

// A depthwise convolution: a thread has 8 channels of a pixel. Weights are f32 by tap and channel,
// padded to a multiple of 8 channels.
constexpr uint32_t kDepthwiseThreads = 128;

__device__ inline void compute_depthwise(const Args& args) {
    pdl::trigger();
    const uint32_t num_pieces = (args.num_outputs + 7) / 8;
    const uint32_t index = blockIdx.x * kDepthwiseThreads + threadIdx.x;
    const uint32_t piece = index % num_pieces, pixel = index / num_pieces;
    const uint32_t row = pixel / args.out_width;
    const uint32_t ox = pixel - row * args.out_width;
    Tile tile(args, 1, 8);
    tile.item = row / args.out_height;
    tile.y = row - tile.item * args.out_height, tile.x = ox, tile.group = 0;
    const uint32_t column = piece * 8;
    pdl::wait();
    if (tile.item >= args.num_items) return;
    const Place place(args, tile, 0, 0, column);
    const int32_t first_y = static_cast<int32_t>(tile.y * args.stride_y) - args.pad_y;
    const int32_t first_x = static_cast<int32_t>(tile.x * args.stride_x) - args.pad_x;
    const int32_t height = args.in_height << args.upsample_shift;
    const int32_t width = args.in_width << args.upsample_shift;
    const float* weights = reinterpret_cast<const float*>(args.weights.data) + column;
    float sums[1][8] = {};
    for (uint32_t ky = 0; ky < args.kernel_y; ++ky) {
        const int32_t y = first_y + static_cast<int32_t>(ky * args.dilation_y);
        if (y < 0 || y >= height) continue;
#pragma unroll 3
        for (uint32_t kx = 0; kx < args.kernel_x; ++kx) {
            const int32_t x = first_x + static_cast<int32_t>(kx * args.dilation_x);
            if (x < 0 || x >= width) continue;
            const uint32_t at =
                tile.item * args.in_map.item + (y >> args.upsample_shift) * args.in_map.row +
                (x >> args.upsample_shift) * args.in_map.pixel + column * args.in_map.channel;
            float values[8] = {};
            if (args.in_map.is_vector && place.num == 8) {
                load_eight(args.input.data, args.in_map.is_f32 != 0, at, values);
            } else {
#pragma unroll
                for (uint32_t i = 0; i < 8; ++i)
                    if (i < place.num)
                        values[i] = load_element(args.input.data, args.in_map.is_f32 != 0,
                                                 at + i * args.in_map.channel);
            }
            const float4* w = reinterpret_cast<const float4*>(weights + (ky * args.kernel_x + kx) *
                                                                            args.num_columns);
            const float4 a = __ldg(w), b = __ldg(w + 1);
            const float factors[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
            for (uint32_t i = 0; i < 8; ++i)
                sums[0][i] = fmaf(rounded(args, values[i]), factors[i], sums[0][i]);
        }
    }
    const Place places[1] = {place};
    const float* const biases[1] = {bias_of(args, tile, column)};
    if (args.rounds != 0)
        finish<true, 1>(args, tile, places, biases, sums);
    else
        finish<false, 1>(args, tile, places, biases, sums);
}

}  // namespace dense_conv
