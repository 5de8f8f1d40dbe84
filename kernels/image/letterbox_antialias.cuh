// Letterboxes with antialiasing: crates/ops/src/image/letterbox/antialias.rs.
//
// Thread mapping: a thread computes a pixel in the three planes, a warp pixels of one row.
// Reads: the bytes of the image. Writes: every value of the three planes.
// Operations are in the order of the CPU, without contraction. The launcher checks that the
// image holds all rows of its layout, that sides are at most 32768, and that the planes have
// network_width * network_height values.
#pragma once

#include <cuda_fp16.h>

#include "image/wire.cuh"
#include "shared/slice.cuh"

namespace antialias {

using namespace wire;

constexpr uint32_t kThreads = 128;
constexpr uint32_t kThreadsOfRow = 32;
constexpr uint32_t kRowsOfBlock = kThreads / kThreadsOfRow;
// Bits of the fraction of a whole weight.
constexpr uint32_t kWeightBits = 22;
// Weights of a column that are computed once for all rows of a block.
constexpr uint32_t kSharedTaps = 16;

struct Side {
    uint32_t source;
    uint32_t content;
    // The first pixel of the content, modulo 2^32.
    uint32_t origin;
    uint32_t network;
};

// The struct in Rust: `AntialiasArgs` in crates/ops/src/image/letterbox/kernels.rs.
template <typename T>
struct Args {
    Slice<const uint8_t> image;
    Slice<T> out;
    uint64_t step;
    Side x;
    Side y;
    uint32_t layout;
    uint32_t swapped;
    // By source channel.
    float alpha[3];
    float beta[3];
    float pad[3];
    // Not 0: samples of 8 bits, rounded after columns and after rows.
    uint32_t rounded;
};

// `Window` in Rust: the pixels of an axis that a pixel of the content is made of.
struct Window {
    uint32_t first;
    uint32_t num;
    uint32_t sum;
    uint32_t center;
    uint32_t reach;
    uint32_t content;

    __device__ Window(uint32_t i, const Side& side) : sum(0), content(side.content) {
        center = (2 * i + 1) * side.source;
        reach = 2 * max(side.source, content);
        const uint32_t before = reach + content;
        first = center < before ? 0 : (center - before) / (2 * content) + 1;
        num = min((center + before - 1) / (2 * content), side.source) - first;
        for (uint32_t k = 0; k < num; ++k) sum += weight(first + k);
    }

    __device__ uint32_t weight(uint32_t pixel) const {
        const uint32_t at = (2 * pixel + 1) * content;
        const uint32_t distance = at > center ? at - center : center - at;
        return distance < reach ? reach - distance : 0;
    }
};

// Sums in f32.
struct Unrounded {
    using Number = float;
    static constexpr float kZero = 0.0f;

    float inverse;

    __device__ explicit Unrounded(const Window& window)
        : inverse(__fdiv_rn(1.0f, __uint2float_rn(window.sum))) {}

    __device__ float weight(const Window& window, uint32_t pixel) const {
        return __uint2float_rn(window.weight(pixel)) * inverse;
    }

    __device__ static uint32_t bits(float weight) { return __float_as_uint(weight); }
    __device__ static float of_bits(uint32_t bits) { return __uint_as_float(bits); }
    __device__ static float sample(float value) { return value; }
    __device__ static float value(float sum) { return sum; }
};

// Sums in whole numbers, rounded to 8 bits.
struct Rounded {
    using Number = uint32_t;
    static constexpr uint32_t kZero = 1u << (kWeightBits - 1);

    __device__ explicit Rounded(const Window&) {}

    __device__ uint32_t weight(const Window& window, uint32_t pixel) const {
        const uint64_t sum = window.sum;
        const uint64_t twice = static_cast<uint64_t>(window.weight(pixel)) << (kWeightBits + 1);
        return static_cast<uint32_t>((twice + sum) / (2 * sum));
    }

    __device__ static uint32_t bits(uint32_t weight) { return weight; }
    __device__ static uint32_t of_bits(uint32_t bits) { return bits; }
    __device__ static uint32_t sample(float value) { return __float2uint_rn(value); }
    __device__ static uint32_t value(uint32_t sum) { return min(sum >> kWeightBits, 255u); }
};

__device__ inline void store(float* out, float value) { *out = value; }
__device__ inline void store(__half* out, float value) { *out = __float2half_rn(value); }

// For all threads of a block, once. `shared`: kSharedTaps weights of each column of the block.
template <uint32_t kLayout, typename Rule, typename T>
__device__ void make_pixel(const Args<T>& args, uint32_t (*shared)[kThreadsOfRow]) {
    using Number = typename Rule::Number;
    const uint32_t lane = threadIdx.x % kThreadsOfRow;
    const uint32_t x = blockIdx.x * kThreadsOfRow + lane;
    const uint32_t y = blockIdx.y * kRowsOfBlock + threadIdx.x / kThreadsOfRow;
    const uint32_t column = x - args.x.origin;
    const uint32_t line = y - args.y.origin;
    const bool has_column = x < args.x.network && column < args.x.content;
    // Outside the content any column, which is not used.
    const Window across(has_column ? column : 0, args.x);
    const Rule of_columns(across);
    const uint32_t num_shared = min(across.num, kSharedTaps);
    for (uint32_t k = threadIdx.x / kThreadsOfRow; k < num_shared; k += kRowsOfBlock) {
        shared[k][lane] = Rule::bits(of_columns.weight(across, across.first + k));
    }
    __syncthreads();
    if (x >= args.x.network || y >= args.y.network) return;
    float values[3] = {args.pad[0], args.pad[1], args.pad[2]};
    if (has_column && line < args.y.content) {
        const WireImage<kLayout> source{args.image.data, args.step, args.x.source, args.y.source};
        const Window down(line, args.y);
        const Rule of_rows(down);
        Number sums[3] = {Rule::kZero, Rule::kZero, Rule::kZero};
        for (uint32_t row = down.first; row < down.first + down.num; ++row) {
            Number parts[3] = {Rule::kZero, Rule::kZero, Rule::kZero};
            for (uint32_t k = 0; k < across.num; ++k) {
                const Number weight = k < kSharedTaps ? Rule::of_bits(shared[k][lane])
                                                      : of_columns.weight(across, across.first + k);
                const Pixel pixel = source.at(across.first + k, row);
#pragma unroll
                for (uint32_t c = 0; c < 3; ++c) {
                    parts[c] = parts[c] + weight * Rule::sample(pixel.c[c]);
                }
            }
            const Number weight = of_rows.weight(down, row);
#pragma unroll
            for (uint32_t c = 0; c < 3; ++c) sums[c] = sums[c] + weight * Rule::value(parts[c]);
        }
#pragma unroll
        for (uint32_t c = 0; c < 3; ++c) {
            const float value = static_cast<float>(Rule::value(sums[c]));
            values[c] = value * args.alpha[c] + args.beta[c];
        }
    }
    const uint64_t plane = static_cast<uint64_t>(args.x.network) * args.y.network;
    T* out = args.out.data + static_cast<uint64_t>(y) * args.x.network + x;
#pragma unroll
    for (uint32_t c = 0; c < 3; ++c) store(out + plane * (args.swapped ? 2 - c : c), values[c]);
}

template <uint32_t kLayout, typename T>
__device__ void make(const Args<T>& args, uint32_t (*shared)[kThreadsOfRow]) {
    if (args.rounded != 0) return make_pixel<kLayout, Rounded>(args, shared);
    make_pixel<kLayout, Unrounded>(args, shared);
}

template <typename T>
__device__ void packed3(const Args<T>& args, uint32_t (*shared)[kThreadsOfRow]) {
    make<kPacked3>(args, shared);
}

template <typename T>
__device__ void plain(const Args<T>& args, uint32_t (*shared)[kThreadsOfRow]) {
    switch (args.layout) {
        case kPacked4: return make<kPacked4>(args, shared);
        case kMono8: return make<kMono8>(args, shared);
        case kMono16Little: return make<kMono16Little>(args, shared);
        case kMono16Big: return make<kMono16Big>(args, shared);
    }
}

template <typename T>
__device__ void yuv(const Args<T>& args, uint32_t (*shared)[kThreadsOfRow]) {
    switch (args.layout) {
        case kUyvy: return make<kUyvy>(args, shared);
        case kYuy2: return make<kYuy2>(args, shared);
        case kNv12: return make<kNv12>(args, shared);
        case kNv21: return make<kNv21>(args, shared);
    }
}

template <typename T>
__device__ void bayer(const Args<T>& args, uint32_t (*shared)[kThreadsOfRow]) {
    switch (args.layout) {
        case kBayerRedFirst: return make<kBayerRedFirst>(args, shared);
        case kBayerBlueFirst: return make<kBayerBlueFirst>(args, shared);
        case kBayerGreenThenBlue: return make<kBayerGreenThenBlue>(args, shared);
        case kBayerGreenThenRed: return make<kBayerGreenThenRed>(args, shared);
    }
}

}  // namespace antialias

// antialias_packed3_*, antialias_plain_*, antialias_yuv_*, antialias_bayer_*: _f32 and _f16.
#define ANTIALIAS_KERNEL(layouts, T, suffix)                                              \
    extern "C" __global__ void __launch_bounds__(antialias::kThreads)                     \
        antialias_##layouts##_##suffix(const __grid_constant__ antialias::Args<T> args) { \
        __shared__ uint32_t weights[antialias::kSharedTaps][antialias::kThreadsOfRow];    \
        antialias::layouts(args, weights);                                                \
    }
#define ANTIALIAS_KERNELS(layouts)        \
    ANTIALIAS_KERNEL(layouts, float, f32) \
    ANTIALIAS_KERNEL(layouts, __half, f16)
