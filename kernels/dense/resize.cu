// Maps of another size: crates/ops/src/dense/resize/mod.rs.
//
// A thread has an element of the output, or 8 neighbouring channels. Reads: the source. Writes:
// the target.

#include "dense/map.cuh"
#include "shared/pdl.cuh"

namespace dense_resize {

constexpr uint32_t kThreads = 128;

enum Coordinates : uint32_t {
    kHalfPixel = 0,
    kHalfPixelSymmetric = 1,
    kPytorchHalfPixel = 2,
    kAlignCorners = 3,
    kAsymmetric = 4,
};

enum Nearest : uint32_t {
    kRoundPreferFloor = 0,
    kRoundPreferCeil = 1,
    kFloor = 2,
    kCeil = 3,
};

// The struct in Rust: crates/ops/src/dense/resize/kernels.rs. Pairs are rows and columns.
struct Args {
    dense::Source source;
    dense::Target target;
    dense::MapDims dims;  // of the target
    uint32_t size[2];     // of the source
    float scale[2];
    float shift[2];  // of half_pixel_symmetric
    uint32_t coordinates;
    uint32_t nearest;
    uint32_t is_linear;
    uint32_t reserved;
};

// The place in the source of an output coordinate.
__device__ inline float place(const Args& args, uint32_t axis, uint32_t at, uint32_t out_size) {
    const auto x = static_cast<float>(at);
    const float scale = args.scale[axis];
    switch (args.coordinates) {
        case kHalfPixel: return (x + 0.5f) / scale - 0.5f;
        case kHalfPixelSymmetric: return args.shift[axis] + (x + 0.5f) / scale - 0.5f;
        case kPytorchHalfPixel: return out_size > 1 ? (x + 0.5f) / scale - 0.5f : 0.0f;
        case kAlignCorners:
            return out_size > 1 ? x * static_cast<float>(args.size[axis] - 1) /
                                      static_cast<float>(out_size - 1)
                                : 0.0f;
        default: return x / scale;
    }
}

__device__ inline uint32_t clamped(float at, uint32_t size) {
    return static_cast<uint32_t>(fminf(fmaxf(at, 0.0f), static_cast<float>(size - 1)));
}

__device__ inline uint32_t nearest(const Args& args, uint32_t axis, uint32_t at,
                                   uint32_t out_size) {
    const float x = place(args, axis, at, out_size);
    const float below = floorf(x), rest = x - below;
    float rounded;
    switch (args.nearest) {
        case kRoundPreferFloor: rounded = rest > 0.5f ? below + 1.0f : below; break;
        case kRoundPreferCeil: rounded = rest >= 0.5f ? below + 1.0f : below; break;
        case kFloor: rounded = below; break;
        default: rounded = ceilf(x); break;
    }
    return clamped(rounded, args.size[axis]);
}

// The neighbours of a place, and the weight of the second.
struct Pair {
    uint32_t first, second;
    float weight;

    __device__ Pair(const Args& args, uint32_t axis, uint32_t at, uint32_t out_size) {
        const uint32_t size = args.size[axis];
        const float x =
            fminf(fmaxf(place(args, axis, at, out_size), 0.0f), static_cast<float>(size - 1));
        first = static_cast<uint32_t>(x);
        second = min(first + 1, size - 1);
        weight = x - static_cast<float>(first);
    }
};

__device__ inline float blend(uint32_t a, uint32_t b, float weight) {
    const float first = __uint_as_float(a), second = __uint_as_float(b);
    return first + (second - first) * weight;
}

template <uint32_t kWidth>
__device__ void resize(const Args& args) {
    pdl::trigger();
    pdl::wait();
    dense::Cell cell;
    if (!dense::find_cell<kWidth>(args.dims, blockIdx.x * kThreads + threadIdx.x, cell)) return;
    const auto& strides = args.source.strides;
    const uint32_t first = cell.n * strides[0] + cell.c * strides[1];
    const uint32_t height = args.dims.height, width = args.dims.width;
    uint32_t words[kWidth];
    if (args.is_linear == 0) {
        const uint32_t row = nearest(args, 0, cell.y, height),
                       column = nearest(args, 1, cell.x, width);
        dense::load_words(args.source, first + row * strides[2] + column * strides[3], words);
    } else {
        const Pair rows(args, 0, cell.y, height), columns(args, 1, cell.x, width);
        const uint32_t above = first + rows.first * strides[2],
                       below = first + rows.second * strides[2];
        const uint32_t left = columns.first * strides[3], right = columns.second * strides[3];
        uint32_t b[kWidth], c[kWidth], d[kWidth];
        dense::load_words(args.source, above + left, words);
        dense::load_words(args.source, above + right, b);
        dense::load_words(args.source, below + left, c);
        dense::load_words(args.source, below + right, d);
#pragma unroll
        for (uint32_t i = 0; i < kWidth; ++i) {
            const uint32_t upper = __float_as_uint(blend(words[i], b[i], columns.weight)),
                           lower = __float_as_uint(blend(c[i], d[i], columns.weight));
            words[i] = __float_as_uint(blend(upper, lower, rows.weight));
        }
    }
    dense::store_words(args.target, cell.offset(args.target.strides), words);
}

}  // namespace dense_resize

extern "C" __global__ void __launch_bounds__(dense_resize::kThreads)
    dense_resize_1(const __grid_constant__ dense_resize::Args args) {
    dense_resize::resize<1>(args);
}
extern "C" __global__ void __launch_bounds__(dense_resize::kThreads)
    dense_resize_8(const __grid_constant__ dense_resize::Args args) {
    dense_resize::resize<dense::kVector>(args);
}
