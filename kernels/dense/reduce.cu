// Sums, means, products and extremes over dimensions: crates/ops/src/dense/reduce/mod.rs.
//
// A block has 16 rows, see dense/rows.cuh. Reads: the source. Writes: the target.

#include "dense/rows.cuh"

namespace dense_reduce {

enum Reduction : uint32_t {
    kSum = 0,
    kMean = 1,
    kMax = 2,
    kMin = 3,
    kProduct = 4,
};

// The struct in Rust: crates/ops/src/dense/reduce/kernels.rs.
struct Args {
    dense::Source source;
    dense::Target target;
    dense::RowDims dims;
    uint32_t reduction;
    uint32_t reserved;
};

template <typename Join>
__device__ void reduce(const Args& args, float first, Join join) {
    __shared__ dense::RowScratch<float> scratch;
    const dense::RowLane lane(args.dims);
    float value = first;
    if (lane.is_row) {
        const uint32_t from = dense::row_offset(args.dims, lane.row, args.source.strides);
#pragma unroll 4
        for (uint32_t i = lane.lane; i < args.dims.len; i += kLanes) {
            const uint32_t at = from + dense::element_offset(args.dims, i, args.source.strides);
            value = join(value, dense::load(args.source, at));
        }
    }
    value = lane.joined(value, scratch, join);
    if (args.reduction == kMean) value /= static_cast<float>(args.dims.len);
    if (lane.is_row && lane.lane == 0) {
        dense::store(args.target, dense::row_offset(args.dims, lane.row, args.target.strides),
                     value);
    }
}

}  // namespace dense_reduce

extern "C" __global__ void __launch_bounds__(dense::kRowThreads)
    dense_reduce_rows(const __grid_constant__ dense_reduce::Args args) {
    using namespace dense_reduce;
    pdl::trigger();
    pdl::wait();
    switch (args.reduction) {
        case kMax: reduce(args, -INFINITY, dense::larger); break;
        case kMin: reduce(args, INFINITY, dense::smaller); break;
        case kProduct: reduce(args, 1.0f, [](float a, float b) { return a * b; }); break;
        default: reduce(args, 0.0f, dense::sum_of); break;
    }
}
