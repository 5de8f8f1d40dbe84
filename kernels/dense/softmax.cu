// Softmax along a dimension: crates/ops/src/dense/softmax/mod.rs.
//
// A block has 16 rows, see dense/rows.cuh; of rows up to 32 elements a thread has one, and adds
// its elements in the same order. Reads: the source, before a store of the same row. Writes: the
// target.

#include "dense/activation.cuh"
#include "dense/rows.cuh"

namespace dense_softmax {

constexpr uint32_t kShortThreads = 128;

// The struct in Rust: crates/ops/src/dense/softmax/kernels.rs.
struct Args {
    dense::Source source;
    dense::Source weights;  // empty: none
    dense::Target target;   // with weights, an element for each row
    dense::RowDims dims;
    uint32_t is_log;
    uint32_t is_fast;  // exponentials within the precision of f16
    // Of short rows: the elements of a row are neighbours, at addresses of 16 bytes.
    uint32_t is_vector;
    uint32_t reserved;
};

template <bool kFast>
__device__ inline float term(float value, float largest) {
    return dense::exponential<kFast>(value - largest);
}

template <bool kFast, typename T>
__device__ void rows(const Args& args) {
    __shared__ dense::RowScratch<float> scratch;
    const dense::RowLane lane(args.dims);
    const auto& strides = args.source.strides;
    const uint32_t len = lane.is_row ? args.dims.len : 0;
    const uint32_t from = lane.is_row ? dense::row_offset(args.dims, lane.row, strides) : 0;
    const auto value_of = [&](uint32_t i) {
        return dense::load_of<T>(args.source, from + i * strides[args.dims.num_kept]);
    };
    float largest = -INFINITY;
#pragma unroll 4
    for (uint32_t i = lane.lane; i < len; i += kLanes) {
        largest = dense::larger(largest, value_of(i));
    }
    largest = lane.joined(largest, scratch, dense::larger);
    float sum = 0.0f;
#pragma unroll 4
    for (uint32_t i = lane.lane; i < len; i += kLanes) sum += term<kFast>(value_of(i), largest);
    sum = lane.joined(sum, scratch, dense::sum_of);
    const uint32_t to =
        lane.is_row ? dense::row_offset(args.dims, lane.row, args.target.strides) : 0;
    if (args.weights.bytes.len != 0) {
        const auto& of_weights = args.weights.strides;
        const uint32_t first = lane.is_row ? dense::row_offset(args.dims, lane.row, of_weights) : 0;
        float mean = 0.0f;
#pragma unroll 2
        for (uint32_t i = lane.lane; i < len; i += kLanes) {
            const uint32_t at = first + dense::element_offset(args.dims, i, of_weights);
            mean += term<kFast>(value_of(i), largest) / sum * dense::load(args.weights, at);
        }
        mean = lane.joined(mean, scratch, dense::sum_of);
        if (lane.is_row && lane.lane == 0) dense::store(args.target, to, mean);
        return;
    }
    const bool is_log = args.is_log != 0;
    const float logarithm = logf(sum);
#pragma unroll 2
    for (uint32_t i = lane.lane; i < len; i += kLanes) {
        const uint32_t at = dense::element_offset(args.dims, i, args.target.strides);
        const float value = value_of(i);
        dense::store(args.target, to + at,
                     is_log ? (value - largest) - logarithm : term<kFast>(value, largest) / sum);
    }
}

// The sum of the lanes, in the first; lanes that are not there are zeros.
template <uint32_t kLen>
__device__ inline void add_up(float (&lanes)[kLen]) {
    // Constant trips, so that the lanes stay in registers.
#pragma unroll
    for (uint32_t level = 1; level < 6; ++level) {
#pragma unroll
        for (uint32_t i = 0; i < kLen / 2; ++i) {
            if (i < kLen >> level) lanes[i] += lanes[i + (kLen >> level)];
        }
    }
}

// The elements of a row, -infinity behind the last.
template <uint32_t kLen, typename T>
__device__ void load_row(const Args& args, uint32_t from, float (&values)[kLen]) {
    const uint32_t len = args.dims.len;
    if (args.is_vector != 0 && len == kLen) {
#pragma unroll
        for (uint32_t i = 0; i < kLen; i += dense::kVector) {
            float eight[dense::kVector];
            dense::load_floats<T>(args.source, from + i, eight);
#pragma unroll
            for (uint32_t j = 0; j < dense::kVector; ++j) values[i + j] = eight[j];
        }
        return;
    }
    const uint32_t step = args.source.strides[args.dims.num_kept];
#pragma unroll
    for (uint32_t i = 0; i < kLen; ++i) {
        values[i] = i < len ? dense::load_of<T>(args.source, from + i * step) : -INFINITY;
    }
}

// Of up to kLen elements along one dimension, without a logarithm, to f16 if kFast, else f32.
template <uint32_t kLen, bool kFast>
__device__ void short_row(const Args& args) {
    const uint32_t row = blockIdx.x * kShortThreads + threadIdx.x;
    if (row >= args.dims.num_rows) return;
    const uint32_t len = args.dims.len;
    const uint32_t from = dense::row_offset(args.dims, row, args.source.strides);
    float values[kLen], sums[kLen];
    if (args.source.element == dense::kF16)
        load_row<kLen, __half>(args, from, values);
    else
        load_row<kLen, float>(args, from, values);
    float largest = -INFINITY;
#pragma unroll
    for (uint32_t i = 0; i < kLen; ++i) largest = dense::larger(largest, values[i]);
#pragma unroll
    for (uint32_t i = 0; i < kLen; ++i) {
        values[i] = term<kFast>(values[i], largest);
        sums[i] = i < len ? values[i] : 0.0f;
    }
    add_up(sums);
    const float sum = sums[0];
    const uint32_t to = dense::row_offset(args.dims, row, args.target.strides);
    const auto store = [&](uint32_t at, float value) {
        if constexpr (kFast)
            reinterpret_cast<__half*>(args.target.bytes.data)[at] = __float2half_rn(value);
        else
            reinterpret_cast<float*>(args.target.bytes.data)[at] = value;
    };
    if (args.weights.bytes.len != 0) {
        const auto& of_weights = args.weights.strides;
        const uint32_t first = dense::row_offset(args.dims, row, of_weights);
        const uint32_t of_element = of_weights[args.dims.num_kept];
        uint32_t raw[kLen];
#pragma unroll
        for (uint32_t i = 0; i < kLen; ++i) {
            if (i < len) raw[i] = dense::load_raw(args.weights, first + i * of_element);
        }
#pragma unroll
        for (uint32_t i = 0; i < kLen; ++i) {
            sums[i] = 0.0f;
            if (i < len) {
                const float weight = __uint_as_float(dense::widened(args.weights, raw[i]));
                sums[i] = dense::quotient<kFast>(values[i], sum) * weight;
            }
        }
        add_up(sums);
        return store(to, sums[0]);
    }
    const uint32_t step = args.target.strides[args.dims.num_kept];
#pragma unroll
    for (uint32_t i = 0; i < kLen; ++i) {
        if (i < len) store(to + i * step, dense::quotient<kFast>(values[i], sum));
    }
}

__device__ void rows(const Args& args) {
    if (args.source.element == dense::kF16) {
        args.is_fast != 0 ? rows<true, __half>(args) : rows<false, __half>(args);
    } else {
        args.is_fast != 0 ? rows<true, float>(args) : rows<false, float>(args);
    }
}

template <uint32_t kLen>
__device__ void short_row(const Args& args) {
    args.is_fast != 0 ? short_row<kLen, true>(args) : short_row<kLen, false>(args);
}

}  // namespace dense_softmax

extern "C" __global__ void __launch_bounds__(dense::kRowThreads)
    dense_softmax_rows(const __grid_constant__ dense_softmax::Args args) {
    pdl::trigger();
    pdl::wait();
    dense_softmax::rows(args);
}
extern "C" __global__ void __launch_bounds__(dense_softmax::kShortThreads)
    dense_softmax_short_16(const __grid_constant__ dense_softmax::Args args) {
    pdl::trigger();
    pdl::wait();
    dense_softmax::short_row<16>(args);
}
extern "C" __global__ void __launch_bounds__(dense_softmax::kShortThreads)
    dense_softmax_short_32(const __grid_constant__ dense_softmax::Args args) {
    pdl::trigger();
    pdl::wait();
    dense_softmax::short_row<32>(args);
}
