// Letterbox: a picture as it lies in its message becomes a network's input.
//
// Thread mapping: a thread makes kRows pixels of one column, so that a warp
// stores 32 neighbours of a plane and the column's position is computed once.
// Reads: the image bytes. Writes: every value of the three planes.
// The order of operations is that of src/ops/letterbox/mod.rs, not contracted.
// The launcher checks that the image holds every row that its layout needs and
// that the planes have network_width * network_height values each.

#include <cuda_fp16.h>

#include "slice.cuh"

namespace {

// The mirror of `WireLayout` in src/device/cuda/abi/letterbox.rs.
enum Layout : uint32_t {
    kPacked3,
    kPacked4,
    kMono8,
    kMono16Little,
    kMono16Big,
    kUyvy,
    kYuy2,
    kNv12,
    kNv21,
    kBayerRedFirst,
    kBayerBlueFirst,
    kBayerGreenThenBlue,
    kBayerGreenThenRed,
};

constexpr int kThreads = 128;
constexpr int kRows = 4;
constexpr float kIntoMantissa = 8388608.0f;  // 2^23

// One axis: the position of content pixels in the source.
struct Axis {
    uint32_t source;
    uint32_t content;
    uint32_t origin;
    uint32_t network;
    // ceil(2^48 / (2 * content)): n * reciprocal >> 48 is n / (2 * content).
    uint64_t reciprocal;
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

struct Pixel {
    float c[3];
};

__device__ Tap tap(uint32_t i, const Axis& axis) {
    uint32_t scaled = (2 * i + 1) * axis.source;
    if (scaled < axis.content) return {0, min(1u, axis.source - 1), 0.0f};
    uint32_t numerator = scaled - axis.content;
    uint32_t denominator = 2 * axis.content;
    uint32_t first = static_cast<uint32_t>((numerator * axis.reciprocal) >> 48);
    if (first + 1 >= axis.source) return {axis.source - 1, axis.source - 1, 0.0f};
    uint32_t rest = numerator - first * denominator;
    float weight = __fdiv_rn(static_cast<float>(rest), static_cast<float>(denominator));
    return {first, first + 1, weight};
}

__device__ float mix(float a, float b, float weight) { return a + (b - a) * weight; }

// A byte as a float, exactly, without the slow conversion.
__device__ float byte_value(uint32_t byte) {
    return __uint_as_float(0x4b000000u | byte) - kIntoMantissa;
}

// BT.601 limited range in 20 fraction bits; the constants of
// src/ops/letterbox/wire.rs.
__device__ Pixel pixel_of_yuv(int32_t luma, int32_t u, int32_t v) {
    constexpr int32_t kHalf = 1 << 19;
    luma = max(luma - 16, 0) * 1220542;
    u -= 128;
    v -= 128;
    int32_t red = (luma + (kHalf + 1673527 * v)) >> 20;
    int32_t green = (luma + (kHalf - 852492 * v - 409993 * u)) >> 20;
    int32_t blue = (luma + (kHalf + 2116026 * u)) >> 20;
    return {{byte_value(min(max(red, 0), 255)), byte_value(min(max(green, 0), 255)),
             byte_value(min(max(blue, 0), 255))}};
}

template <uint32_t kLayout>
struct Picture {
    const uint8_t* data;
    uint64_t step;
    uint32_t width;
    uint32_t height;

    __device__ const uint8_t* row(uint32_t y) const { return data + y * step; }

    __device__ Pixel at(uint32_t x, uint32_t y) const {
        const uint8_t* line = row(y);
        if constexpr (kLayout == kPacked3 || kLayout == kPacked4) {
            const uint8_t* p = line + (kLayout == kPacked3 ? 3 : 4) * x;
            return {{byte_value(p[0]), byte_value(p[1]), byte_value(p[2])}};
        } else if constexpr (kLayout == kMono8) {
            float value = byte_value(line[x]);
            return {{value, value, value}};
        } else if constexpr (kLayout == kMono16Little || kLayout == kMono16Big) {
            uint32_t low = line[2 * x + (kLayout == kMono16Little ? 0 : 1)];
            uint32_t high = line[2 * x + (kLayout == kMono16Little ? 1 : 0)];
            float value = __fdiv_rn(static_cast<float>(high << 8 | low), 257.0f);
            return {{value, value, value}};
        } else if constexpr (kLayout == kUyvy || kLayout == kYuy2) {
            const uint8_t* pair = line + 4 * (x / 2);
            constexpr uint32_t kLuma = kLayout == kUyvy ? 1 : 0;
            return pixel_of_yuv(pair[2 * (x % 2) + kLuma], pair[1 - kLuma], pair[3 - kLuma]);
        } else if constexpr (kLayout == kNv12 || kLayout == kNv21) {
            const uint8_t* chroma = row(height + y / 2) + 2 * (x / 2);
            constexpr uint32_t kU = kLayout == kNv12 ? 0 : 1;
            return pixel_of_yuv(line[x], chroma[kU], chroma[1 - kU]);
        } else {
            return demosaic(x, y);
        }
    }

    // Neighbours are mirrored at the borders; width and height are at least 2.
    __device__ Pixel demosaic(uint32_t x, uint32_t y) const {
        constexpr bool kRedFirst = kLayout == kBayerRedFirst || kLayout == kBayerGreenThenRed;
        constexpr uint32_t kFirstX =
            kLayout == kBayerGreenThenBlue || kLayout == kBayerGreenThenRed ? 1 : 0;
        const uint8_t* here = row(y);
        const uint8_t* above = row(y == 0 ? 1 : y - 1);
        const uint8_t* below = row(y + 1 == height ? height - 2 : y + 1);
        uint32_t left = x == 0 ? 1 : x - 1;
        uint32_t right = x + 1 == width ? width - 2 : x + 1;
        uint32_t odd = y % 2;
        uint32_t own, green, other;
        if (x % 2 == (kFirstX + odd) % 2) {
            own = here[x];
            green = (above[x] + below[x] + here[left] + here[right] + 2) >> 2;
            other = (above[left] + above[right] + below[left] + below[right] + 2) >> 2;
        } else {
            own = (here[left] + here[right] + 1) >> 1;
            green = here[x];
            other = (above[x] + below[x] + 1) >> 1;
        }
        bool own_is_red = kRedFirst == (odd == 0);
        return {{byte_value(own_is_red ? own : other), byte_value(green),
                 byte_value(own_is_red ? other : own)}};
    }
};

__device__ void store(float* out, float value) { *out = value; }
__device__ void store(__half* out, float value) { *out = __float2half_rn(value); }

template <uint32_t kLayout, typename T>
__device__ void make_pixels(const LetterboxArgs<T>& args, uint32_t x, uint32_t y) {
    const Picture<kLayout> picture{args.image.data, args.step, args.x.source, args.y.source};
    const uint64_t plane = static_cast<uint64_t>(args.x.network) * args.y.network;
    const uint32_t column = x - args.x.origin;
    const bool in_columns = column < args.x.content;
    const Tap across = in_columns ? tap(column, args.x) : Tap{0, 0, 0.0f};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        if (y + r >= args.y.network) return;
        float value[3] = {args.pad[0], args.pad[1], args.pad[2]};
        const uint32_t line = y + r - args.y.origin;
        if (in_columns && line < args.y.content) {
            const Tap down = tap(line, args.y);
            const Pixel a = picture.at(across.first, down.first);
            const Pixel b = picture.at(across.first, down.second);
            const Pixel c = picture.at(across.second, down.first);
            const Pixel d = picture.at(across.second, down.second);
#pragma unroll
            for (int k = 0; k < 3; ++k) {
                float left = mix(a.c[k], b.c[k], down.weight);
                float right = mix(c.c[k], d.c[k], down.weight);
                value[k] = mix(left, right, across.weight) * args.alpha[k] + args.beta[k];
            }
        }
        T* out = args.out.data + static_cast<uint64_t>(y + r) * args.x.network + x;
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            store(out + plane * (args.swapped ? 2 - k : k), value[k]);
        }
    }
}

template <typename T>
__device__ void letterbox(const LetterboxArgs<T>& args) {
    const uint32_t x = blockIdx.x * kThreads + threadIdx.x;
    const uint32_t y = blockIdx.y * kRows;
    if (x >= args.x.network) return;
    switch (args.layout) {
        case kPacked3: return make_pixels<kPacked3>(args, x, y);
        case kPacked4: return make_pixels<kPacked4>(args, x, y);
        case kMono8: return make_pixels<kMono8>(args, x, y);
        case kMono16Little: return make_pixels<kMono16Little>(args, x, y);
        case kMono16Big: return make_pixels<kMono16Big>(args, x, y);
        case kUyvy: return make_pixels<kUyvy>(args, x, y);
        case kYuy2: return make_pixels<kYuy2>(args, x, y);
        case kNv12: return make_pixels<kNv12>(args, x, y);
        case kNv21: return make_pixels<kNv21>(args, x, y);
        case kBayerRedFirst: return make_pixels<kBayerRedFirst>(args, x, y);
        case kBayerBlueFirst: return make_pixels<kBayerBlueFirst>(args, x, y);
        case kBayerGreenThenBlue: return make_pixels<kBayerGreenThenBlue>(args, x, y);
        case kBayerGreenThenRed: return make_pixels<kBayerGreenThenRed>(args, x, y);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    letterbox_f32(const __grid_constant__ LetterboxArgs<float> args) {
    letterbox(args);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    letterbox_f16(const __grid_constant__ LetterboxArgs<__half> args) {
    letterbox(args);
}
