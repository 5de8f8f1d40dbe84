// Pooling of maps: crates/ops/src/dense/pool/mod.rs.
//
// A thread has an element of the output, or 8 neighbouring channels, and goes through the taps
// row by row. Reads: the source. Writes: the target.

#include "dense/map.cuh"
#include "shared/pdl.cuh"

namespace dense_pool {

constexpr uint32_t kThreads = 128;

// The struct in Rust: crates/ops/src/dense/pool/kernels.rs. Pairs are rows and columns.
struct Args {
    dense::Source source;
    dense::Target target;
    dense::MapDims dims;  // of the target
    uint32_t size[2];     // of the source
    uint32_t padded[2];   // its end with the padding behind it
    uint32_t kernel[2];
    uint32_t steps[2];
    uint32_t dilations[2];
    uint32_t pads[2];  // before the source
    uint32_t is_average;
    uint32_t counts_padding;
};

// Taps of an output coordinate: the first that is in the source, the end of those in it, and
// how many are in the source and its padding.
struct Taps {
    uint32_t first, end, num_padded;
    int32_t start;

    __device__ Taps(const Args& args, uint32_t axis, uint32_t at) {
        start = static_cast<int32_t>(at * args.steps[axis]) - static_cast<int32_t>(args.pads[axis]);
        first = args.kernel[axis], end = 0, num_padded = 0;
        for (uint32_t k = 0; k < args.kernel[axis]; ++k) {
            const int32_t position = start + static_cast<int32_t>(k * args.dilations[axis]);
            if (position < static_cast<int32_t>(args.padded[axis])) ++num_padded;
            if (position < 0 || position >= static_cast<int32_t>(args.size[axis])) continue;
            first = min(first, k), end = k + 1;
        }
    }
    __device__ uint32_t position(uint32_t k, uint32_t dilation) const {
        return static_cast<uint32_t>(start + static_cast<int32_t>(k * dilation));
    }
};

template <uint32_t kWidth, bool kIsAverage, typename T>
__device__ void pool(const Args& args) {
    // Taps whose loads are on their way at once.
    constexpr uint32_t kTaps = kWidth == 1 ? 11 : 5;
    dense::Cell cell;
    if (!dense::find_cell<kWidth>(args.dims, blockIdx.x * kThreads + threadIdx.x, cell)) return;
    const Taps rows(args, 0, cell.y), columns(args, 1, cell.x);
    float values[kWidth];
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i) values[i] = kIsAverage ? 0.0f : -INFINITY;
    const auto& strides = args.source.strides;
    const uint32_t first = cell.n * strides[0] + cell.c * strides[1];
    for (uint32_t ky = rows.first; ky < rows.end; ++ky) {
        const uint32_t row = first + rows.position(ky, args.dilations[0]) * strides[2];
#pragma unroll kTaps
        for (uint32_t kx = columns.first; kx < columns.end; ++kx) {
            float taps[kWidth];
            dense::load_floats<T>(args.source,
                                  row + columns.position(kx, args.dilations[1]) * strides[3], taps);
#pragma unroll
            for (uint32_t i = 0; i < kWidth; ++i) {
                const float value = taps[i];
                // Not fmaxf, which drops NaN.
                const bool is_larger = value > values[i] || value != value;
                values[i] = kIsAverage ? values[i] + value : is_larger ? value : values[i];
            }
        }
    }
    const uint32_t count = args.counts_padding != 0
                               ? rows.num_padded * columns.num_padded
                               : max(static_cast<int32_t>(rows.end - rows.first), 0) *
                                     max(static_cast<int32_t>(columns.end - columns.first), 0);
    uint32_t words[kWidth];
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i) {
        const float value = kIsAverage ? values[i] / static_cast<float>(count) : values[i];
        words[i] = __float_as_uint(value);
    }
    dense::store_words(args.target, cell.offset(args.target.strides), words);
}

template <uint32_t kWidth, bool kIsAverage>
__device__ void pool(const Args& args) {
    args.source.element == dense::kF16 ? pool<kWidth, kIsAverage, __half>(args)
                                       : pool<kWidth, kIsAverage, float>(args);
}

template <uint32_t kWidth>
__device__ void pool(const Args& args) {
    pdl::trigger();
    pdl::wait();
    args.is_average != 0 ? pool<kWidth, true>(args) : pool<kWidth, false>(args);
}

}  // namespace dense_pool

extern "C" __global__ void __launch_bounds__(dense_pool::kThreads)
    dense_pool_1(const __grid_constant__ dense_pool::Args args) {
    dense_pool::pool<1>(args);
}
extern "C" __global__ void __launch_bounds__(dense_pool::kThreads)
    dense_pool_8(const __grid_constant__ dense_pool::Args args) {
    dense_pool::pool<dense::kVector>(args);
}
