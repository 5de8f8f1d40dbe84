// Letterboxes an image, in the layout of its message, into a network's input:
// crates/ops/src/image/letterbox/mod.rs.
//
// Thread mapping: a thread computes kColumns adjacent pixels in the three planes, a
// warp pixels of one row.
// Reads: the bytes of the image. Writes: every value of the three planes, kColumns
// per store where the width is a multiple of them.
// The order of operations is that of the CPU, without contraction. The launcher
// checks that the image holds all rows of its layout and kTailBytes more, and that
// the planes have network_width * network_height values.

#include <cuda_fp16.h>

#include "image/letterbox_antialias.cuh"
#include "image/wire.cuh"
#include "shared/slice.cuh"

namespace {

using namespace wire;

constexpr uint32_t kThreads = 128;
constexpr uint32_t kColumns = 2;
constexpr uint32_t kThreadsOfRow = 32;
constexpr uint32_t kRowsOfBlock = kThreads / kThreadsOfRow;
// Bytes after the image that may be read; their values are not used.
constexpr uint32_t kTailBytes = 16;

// The mapping of content pixels to source pixels along an axis.
struct Axis {
    uint32_t source;
    uint32_t content;
    uint32_t origin;
    uint32_t network;
    // ceil(2^48 / (2 * content)): n * reciprocal >> 48 is n / (2 * content).
    uint64_t reciprocal;
    // 1 / (2 * content), rounded to nearest.
    float inverse;
    uint32_t reserved;
};

template <typename T>
struct LetterboxArgs {
    Slice<const uint8_t> image;
    Slice<T> out;
    uint64_t step;
    Axis x;
    Axis y;
    uint32_t layout;
    uint32_t swapped;
    // By source channel.
    float alpha[3];
    float beta[3];
    float pad[3];
    uint32_t reserved;
};

struct Tap {
    uint32_t first;
    uint32_t second;
    float weight;
};

__device__ Tap tap(uint32_t i, const Axis& axis) {
    uint32_t scaled = (2 * i + 1) * axis.source;
    if (scaled < axis.content) return {0, min(1u, axis.source - 1), 0.0f};
    uint32_t numerator = scaled - axis.content;
    uint32_t denominator = 2 * axis.content;
    uint32_t first = static_cast<uint32_t>((numerator * axis.reciprocal) >> 48);
    if (first + 1 >= axis.source) return {axis.source - 1, axis.source - 1, 0.0f};
    uint32_t rest = numerator - first * denominator;
    // The quotient, rounded to nearest: for every rest and denominator below 2^24, one
    // correction of the product with the rounded inverse is enough.
    const float dividend = static_cast<float>(rest);
    const float quotient = dividend * axis.inverse;
    const float error = __fmaf_rn(-quotient, static_cast<float>(denominator), dividend);
    return {first, first + 1, __fmaf_rn(error, axis.inverse, quotient)};
}

__device__ float mix(float a, float b, float weight) { return a + (b - a) * weight; }

__device__ void store(float* out, float value) { *out = value; }
__device__ void store(__half* out, float value) { *out = __float2half_rn(value); }

// Stores adjacent values; the address is aligned to their size.
__device__ void store_all(float* out, const float (&values)[kColumns]) {
    *reinterpret_cast<float2*>(out) = make_float2(values[0], values[1]);
}

__device__ void store_all(__half* out, const float (&values)[kColumns]) {
    *reinterpret_cast<__half2*>(out) = __floats2half2_rn(values[0], values[1]);
}

// Stores the values of a channel from column `x` on.
template <typename T>
__device__ void store_row(const LetterboxArgs<T>& args, uint32_t x, uint32_t y, uint32_t channel,
                          const float (&values)[kColumns]) {
    const uint32_t width = args.x.network;
    const uint64_t plane = static_cast<uint64_t>(width) * args.y.network;
    T* out = args.out.data + plane * (args.swapped ? 2 - channel : channel) +
             static_cast<uint64_t>(y) * width + x;
    if (width % kColumns == 0) return store_all(out, values);
#pragma unroll
    for (uint32_t i = 0; i < kColumns; ++i) {
        if (x + i < width) store(out + i, values[i]);
    }
}

// The four source pixels of a position, by the taps of column and row.
template <uint32_t kLayout>
struct Corners {
    Pixel upper_left, lower_left, upper_right, lower_right;

    __device__ Corners(const WireImage<kLayout>& source, const Tap& across, const Tap& down) {
        if constexpr (kLayout == kPacked3) {
            pair(source.row(down.first) + 3 * across.first, upper_left, upper_right);
            pair(source.row(down.second) + 3 * across.first, lower_left, lower_right);
        } else {
            upper_left = source.at(across.first, down.first);
            lower_left = source.at(across.first, down.second);
            upper_right = source.at(across.second, down.first);
            lower_right = source.at(across.second, down.second);
        }
    }

    static_assert(kTailBytes >= 3 * sizeof(uint32_t), "pair() reads three words");

    // Loads six bytes by words. The right neighbour of the last pixel of a row has a
    // weight of 0: any bytes may follow. The launcher checks that kTailBytes do.
    __device__ static void pair(const uint8_t* bytes, Pixel& left, Pixel& right) {
        const uint64_t address = reinterpret_cast<uint64_t>(bytes);
        const uint32_t* words = reinterpret_cast<const uint32_t*>(address & ~3ull);
        const uint32_t shift = 8 * static_cast<uint32_t>(address & 3);
        const uint32_t second = words[1];
        const uint32_t third = shift == 24 ? words[2] : 0;
        const uint32_t low = __funnelshift_r(words[0], second, shift);
        const uint32_t high = __funnelshift_r(second, third, shift);
        left = {
            {byte_value(low & 0xff), byte_value(low >> 8 & 0xff), byte_value(low >> 16 & 0xff)}};
        right = {{byte_value(low >> 24), byte_value(high & 0xff), byte_value(high >> 8 & 0xff)}};
    }
};

template <uint32_t kLayout, typename T>
__device__ void make_pixels(const LetterboxArgs<T>& args, uint32_t x, uint32_t y) {
    const WireImage<kLayout> source{args.image.data, args.step, args.x.source, args.y.source};
    const Tap down = tap(y - args.y.origin, args.y);
    float values[3][kColumns];
#pragma unroll
    for (uint32_t i = 0; i < kColumns; ++i) {
        // Columns outside the content compute a pixel inside it, which is not used, so
        // that the loads of all columns are in flight together.
        const uint32_t column = x + i - args.x.origin;
        const bool inside = column < args.x.content;
        const Tap across = tap(inside ? column : 0, args.x);
        const Corners<kLayout> corners(source, across, down);
#pragma unroll
        for (uint32_t c = 0; c < 3; ++c) {
            const float left = mix(corners.upper_left.c[c], corners.lower_left.c[c], down.weight);
            const float right =
                mix(corners.upper_right.c[c], corners.lower_right.c[c], down.weight);
            const float made = mix(left, right, across.weight) * args.alpha[c] + args.beta[c];
            values[c][i] = inside ? made : args.pad[c];
        }
    }
#pragma unroll
    for (uint32_t c = 0; c < 3; ++c) store_row(args, x, y, c, values[c]);
}

// Stores the padding of a row without content.
template <typename T>
__device__ void pad(const LetterboxArgs<T>& args, uint32_t x, uint32_t y) {
#pragma unroll
    for (uint32_t c = 0; c < 3; ++c) {
        const float value = args.pad[c];
        const float values[kColumns] = {value, value};
        store_row(args, x, y, c, values);
    }
}

// Calls `make(x, y)` in rows with content.
template <typename T, typename Make>
__device__ void letterbox(const LetterboxArgs<T>& args, const Make& make) {
    const uint32_t x = (blockIdx.x * kThreadsOfRow + threadIdx.x % kThreadsOfRow) * kColumns;
    const uint32_t y = blockIdx.y * kRowsOfBlock + threadIdx.x / kThreadsOfRow;
    if (x >= args.x.network || y >= args.y.network) return;
    if (y - args.y.origin >= args.y.content) return pad(args, x, y);
    make(x, y);
}

// Layouts of similar cost share a kernel, so that none needs the registers of all.
template <typename T>
__device__ void letterbox_packed3(const LetterboxArgs<T>& args) {
    letterbox(args, [&](uint32_t x, uint32_t y) { make_pixels<kPacked3>(args, x, y); });
}

template <typename T>
__device__ void letterbox_plain(const LetterboxArgs<T>& args) {
    letterbox(args, [&](uint32_t x, uint32_t y) {
        switch (args.layout) {
            case kPacked4: return make_pixels<kPacked4>(args, x, y);
            case kMono8: return make_pixels<kMono8>(args, x, y);
            case kMono16Little: return make_pixels<kMono16Little>(args, x, y);
            case kMono16Big: return make_pixels<kMono16Big>(args, x, y);
        }
    });
}

template <typename T>
__device__ void letterbox_yuv(const LetterboxArgs<T>& args) {
    letterbox(args, [&](uint32_t x, uint32_t y) {
        switch (args.layout) {
            case kUyvy: return make_pixels<kUyvy>(args, x, y);
            case kYuy2: return make_pixels<kYuy2>(args, x, y);
            case kNv12: return make_pixels<kNv12>(args, x, y);
            case kNv21: return make_pixels<kNv21>(args, x, y);
        }
    });
}

template <typename T>
__device__ void letterbox_bayer(const LetterboxArgs<T>& args) {
    letterbox(args, [&](uint32_t x, uint32_t y) {
        switch (args.layout) {
            case kBayerRedFirst: return make_pixels<kBayerRedFirst>(args, x, y);
            case kBayerBlueFirst: return make_pixels<kBayerBlueFirst>(args, x, y);
            case kBayerGreenThenBlue: return make_pixels<kBayerGreenThenBlue>(args, x, y);
            case kBayerGreenThenRed: return make_pixels<kBayerGreenThenRed>(args, x, y);
        }
    });
}

}  // namespace

// letterbox_packed3_*, letterbox_plain_*, letterbox_yuv_*, letterbox_bayer_*: _f32 and _f16.
#define LETTERBOX_KERNELS(layouts)                                                      \
    extern "C" __global__ void __launch_bounds__(kThreads)                              \
        letterbox_##layouts##_f32(const __grid_constant__ LetterboxArgs<float> args) {  \
        letterbox_##layouts(args);                                                      \
    }                                                                                   \
    extern "C" __global__ void __launch_bounds__(kThreads)                              \
        letterbox_##layouts##_f16(const __grid_constant__ LetterboxArgs<__half> args) { \
        letterbox_##layouts(args);                                                      \
    }

LETTERBOX_KERNELS(packed3)
LETTERBOX_KERNELS(plain)
LETTERBOX_KERNELS(yuv)
LETTERBOX_KERNELS(bayer)

ANTIALIAS_KERNELS(packed3)
ANTIALIAS_KERNELS(plain)
ANTIALIAS_KERNELS(yuv)
ANTIALIAS_KERNELS(bayer)
