// Normalization of rows to mean 0 and variance 1: crates/ops/src/dense/layer_norm/mod.rs.
//
// A block has 16 rows, see dense/rows.cuh. Reads: the source, before a store of the same row,
// scales and shifts. Writes: the target.

#include "dense/rows.cuh"

namespace dense_layer_norm {

// The struct in Rust: crates/ops/src/dense/layer_norm/kernels.rs.
struct Args {
    dense::Source source;
    dense::Source scales;
    dense::Source shifts;  // empty: 0
    dense::Target target;
    dense::RowDims dims;
    float epsilon;
    uint32_t reserved;
};

template <typename T>
__device__ void normalize(const Args& args) {
    __shared__ dense::RowScratch<float> scratch;
    const dense::RowLane lane(args.dims);
    const uint32_t len = lane.is_row ? args.dims.len : 0;
    const auto start = [&](const uint32_t (&strides)[dense::kMaxRank]) {
        return lane.is_row ? dense::row_offset(args.dims, lane.row, strides) : 0;
    };
    const uint32_t from = start(args.source.strides), to = start(args.target.strides);
    const auto value_of = [&](const dense::Source& source, uint32_t first, uint32_t i) {
        return dense::load(source, first + dense::element_offset(args.dims, i, source.strides));
    };
    const auto source_at = [&](uint32_t i) {
        return dense::load_of<T>(args.source,
                                 from + dense::element_offset(args.dims, i, args.source.strides));
    };
    float sum = 0.0f;
#pragma unroll 4
    for (uint32_t i = lane.lane; i < len; i += kLanes) sum += source_at(i);
    const auto num = static_cast<float>(args.dims.len);
    const float mean = lane.joined(sum, scratch, dense::sum_of) / num;
    sum = 0.0f;
#pragma unroll 4
    for (uint32_t i = lane.lane; i < len; i += kLanes) {
        const float distance = source_at(i) - mean;
        sum += distance * distance;
    }
    const float variance = lane.joined(sum, scratch, dense::sum_of) / num;
    const float factor = 1.0f / sqrtf(variance + args.epsilon);
    const bool has_shifts = args.shifts.bytes.len != 0;
    const uint32_t first_scale = start(args.scales.strides),
                   first_shift = start(args.shifts.strides);
#pragma unroll 2
    for (uint32_t i = lane.lane; i < len; i += kLanes) {
        const float value = (source_at(i) - mean) * factor;
        const float scale = value_of(args.scales, first_scale, i);
        const float shift = has_shifts ? value_of(args.shifts, first_shift, i) : 0.0f;
        dense::store(args.target, to + dense::element_offset(args.dims, i, args.target.strides),
                     fmaf(value, scale, shift));
    }
}

}  // namespace dense_layer_norm

extern "C" __global__ void __launch_bounds__(dense::kRowThreads)
    dense_layer_norm_rows(const __grid_constant__ dense_layer_norm::Args args) {
    pdl::trigger();
    pdl::wait();
    args.source.element == dense::kF16 ? dense_layer_norm::normalize<__half>(args)
                                       : dense_layer_norm::normalize<float>(args);
}
