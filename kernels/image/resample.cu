// Resamples the image of a camera, in the layout of its message, into an image of a
// network's input: crates/ops/src/image/resample/mod.rs.
//
// Thread mapping: a thread computes a pixel in the three planes, a warp pixels of one row.
// Reads: the bytes of the image, positions. Writes: every value of one image
// of the input.
// The order of operations is that of the CPU, without contraction. The launcher checks
// that the image holds all rows of its layout, that there is a position for every column and
// row or for every pixel, and that the planes hold the output. No position makes a thread
// read outside the image.

#include <cuda_fp16.h>

#include "image/wire.cuh"
#include "shared/slice.cuh"

namespace resample {

using namespace wire;

constexpr uint32_t kThreads = 128;
constexpr uint32_t kThreadsOfRow = 32;
constexpr uint32_t kRowsOfBlock = kThreads / kThreadsOfRow;
constexpr int32_t kFractionBits = 16;
constexpr int32_t kOne = 1 << kFractionBits;

// The struct in Rust: crates/ops/src/image/resample/kernels.rs.
template <typename T>
struct Args {
    Slice<const uint8_t> image;
    // In units of 2^-16 pixels: of all columns, then of all rows; or x and y of each pixel.
    Slice<const int32_t> positions;
    // All images.
    Slice<T> out;
    uint64_t step;
    // The first value of the image.
    uint64_t first;
    uint32_t width;
    uint32_t height;
    uint32_t network_width;
    uint32_t network_height;
    // Half the width of the filter, in units of 2^-16 pixels.
    uint32_t reach_x;
    uint32_t reach_y;
    uint32_t per_pixel;
    uint32_t layout;
    uint32_t swapped;
    // By source channel.
    float alpha[3];
    float beta[3];
    float pad[3];
};

// The pixels of an axis around a position.
struct Taps {
    int32_t first;
    int32_t last;
    // From the position to the first pixel.
    int32_t distance;
    int32_t reach;

    __device__ int32_t weight(int32_t pixel) const {
        return reach - abs(distance + (pixel - first) * kOne);
    }

    __device__ float sum() const {
        uint32_t sum = 0;
        for (int32_t pixel = first; pixel <= last; ++pixel) sum += weight(pixel);
        return static_cast<float>(sum);
    }
};

// False when the position is more than half a pixel outside the image.
__device__ bool find_taps(int32_t position, int32_t reach, uint32_t length, Taps& taps) {
    const int64_t end = static_cast<int64_t>(length) << kFractionBits;
    if (position < -kOne / 2 || position > end - kOne / 2) return false;
    const int32_t whole = position >> kFractionBits;
    const int32_t fraction = position & (kOne - 1);
    const int32_t first = whole + ((fraction - reach) >> kFractionBits) + 1;
    const int32_t last = whole + ((fraction + reach + kOne - 1) >> kFractionBits) - 1;
    taps.first = max(first, 0);
    taps.last = min(last, static_cast<int32_t>(length) - 1);
    taps.distance = (taps.first - whole) * kOne - fraction;
    taps.reach = reach;
    return true;
}

__device__ void store(float* out, float value) { *out = value; }
__device__ void store(__half* out, float value) { *out = __float2half_rn(value); }

// Sums the filter around a position: rows, then columns.
template <uint32_t kLayout, typename T>
__device__ void gather(const Args<T>& args, const Taps& across, const Taps& down,
                       float (&values)[3]) {
    const WireImage<kLayout> source{args.image.data, args.step, args.width, args.height};
    float sums[3] = {0.0f, 0.0f, 0.0f};
    for (int32_t x = across.first; x <= across.last; ++x) {
        float column[3] = {0.0f, 0.0f, 0.0f};
        for (int32_t y = down.first; y <= down.last; ++y) {
            const float weight = static_cast<float>(down.weight(y));
            const Pixel pixel = source.at(x, y);
#pragma unroll
            for (uint32_t c = 0; c < 3; ++c) column[c] = column[c] + weight * pixel.c[c];
        }
        const float weight = static_cast<float>(across.weight(x));
#pragma unroll
        for (uint32_t c = 0; c < 3; ++c) sums[c] = sums[c] + weight * column[c];
    }
    const float scale = __fdiv_rn(1.0f, down.sum() * across.sum());
#pragma unroll
    for (uint32_t c = 0; c < 3; ++c) values[c] = sums[c] * scale * args.alpha[c] + args.beta[c];
}

// Computes a pixel; `make` sums the filter.
template <typename T, typename Make>
__device__ void pixel(const Args<T>& args, const Make& make) {
    const uint32_t x = blockIdx.x * kThreadsOfRow + threadIdx.x % kThreadsOfRow;
    const uint32_t y = blockIdx.y * kRowsOfBlock + threadIdx.x / kThreadsOfRow;
    if (x >= args.network_width || y >= args.network_height) return;
    const uint64_t at = static_cast<uint64_t>(y) * args.network_width + x;
    int2 position;
    if (args.per_pixel) {
        position = reinterpret_cast<const int2*>(args.positions.data)[at];
    } else {
        position = make_int2(args.positions.data[x], args.positions.data[args.network_width + y]);
    }
    float values[3] = {args.pad[0], args.pad[1], args.pad[2]};
    Taps across, down;
    if (find_taps(position.x, args.reach_x, args.width, across) &&
        find_taps(position.y, args.reach_y, args.height, down)) {
        make(across, down, values);
    }
    const uint64_t plane = static_cast<uint64_t>(args.network_width) * args.network_height;
    T* out = args.out.data + args.first + at;
#pragma unroll
    for (uint32_t c = 0; c < 3; ++c) {
        store(out + plane * (args.swapped ? 2 - c : c), values[c]);
    }
}

// Layouts of similar cost share a kernel, so that none needs the registers of all.
template <typename T>
__device__ void packed3(const Args<T>& args) {
    pixel(args, [&](const Taps& across, const Taps& down, float (&values)[3]) {
        gather<kPacked3>(args, across, down, values);
    });
}

template <typename T>
__device__ void plain(const Args<T>& args) {
    pixel(args, [&](const Taps& across, const Taps& down, float (&values)[3]) {
        switch (args.layout) {
            case kPacked4: return gather<kPacked4>(args, across, down, values);
            case kMono8: return gather<kMono8>(args, across, down, values);
            case kMono16Little: return gather<kMono16Little>(args, across, down, values);
            case kMono16Big: return gather<kMono16Big>(args, across, down, values);
        }
    });
}

template <typename T>
__device__ void yuv(const Args<T>& args) {
    pixel(args, [&](const Taps& across, const Taps& down, float (&values)[3]) {
        switch (args.layout) {
            case kUyvy: return gather<kUyvy>(args, across, down, values);
            case kYuy2: return gather<kYuy2>(args, across, down, values);
            case kNv12: return gather<kNv12>(args, across, down, values);
            case kNv21: return gather<kNv21>(args, across, down, values);
        }
    });
}

template <typename T>
__device__ void bayer(const Args<T>& args) {
    pixel(args, [&](const Taps& across, const Taps& down, float (&values)[3]) {
        switch (args.layout) {
            case kBayerRedFirst: return gather<kBayerRedFirst>(args, across, down, values);
            case kBayerBlueFirst: return gather<kBayerBlueFirst>(args, across, down, values);
            case kBayerGreenThenBlue:
                return gather<kBayerGreenThenBlue>(args, across, down, values);
            case kBayerGreenThenRed: return gather<kBayerGreenThenRed>(args, across, down, values);
        }
    });
}

}  // namespace resample

// resample_packed3_*, resample_plain_*, resample_yuv_*, resample_bayer_*: _f32 and _f16.
#define RESAMPLE_KERNELS(layouts)                                                       \
    extern "C" __global__ void __launch_bounds__(resample::kThreads)                    \
        resample_##layouts##_f32(const __grid_constant__ resample::Args<float> args) {  \
        resample::layouts(args);                                                        \
    }                                                                                   \
    extern "C" __global__ void __launch_bounds__(resample::kThreads)                    \
        resample_##layouts##_f16(const __grid_constant__ resample::Args<__half> args) { \
        resample::layouts(args);                                                        \
    }

RESAMPLE_KERNELS(packed3)
RESAMPLE_KERNELS(plain)
RESAMPLE_KERNELS(yuv)
RESAMPLE_KERNELS(bayer)
