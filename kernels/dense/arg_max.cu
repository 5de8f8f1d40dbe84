// The position of the largest element along a dimension: crates/ops/src/dense/arg_max/mod.rs.
//
// A block has 16 rows, see dense/rows.cuh. An element is a key that grows with its value and
// among equals with the precedence of its position. Reads: the source. Writes: the target.

#include "dense/order.cuh"
#include "dense/rows.cuh"

namespace dense_arg_max {

// The struct in Rust: crates/ops/src/dense/arg_max/kernels.rs.
struct Args {
    dense::Source source;
    dense::Target target;
    dense::RowDims dims;
    uint32_t is_smallest;
    uint32_t is_last;  // of equals
};

__device__ void find(const Args& args) {
    __shared__ dense::RowScratch<uint64_t> scratch;
    pdl::trigger();
    pdl::wait();
    const dense::RowLane lane(args.dims);
    uint64_t best = 0;
    if (lane.is_row) {
        const uint32_t from = dense::row_offset(args.dims, lane.row, args.source.strides);
#pragma unroll 4
        for (uint32_t i = lane.lane; i < args.dims.len; i += kLanes) {
            const float value = dense::load(
                args.source, from + dense::element_offset(args.dims, i, args.source.strides));
            const uint32_t rank = dense::ascending(args.is_smallest != 0 ? -value : value);
            const uint64_t key = static_cast<uint64_t>(rank) << 32 | (args.is_last != 0 ? i : ~i);
            best = key > best ? key : best;
        }
    }
    best = lane.joined(best, scratch, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
    if (lane.is_row && lane.lane == 0) {
        const auto position = static_cast<uint32_t>(best);
        dense::store_word(args.target, dense::row_offset(args.dims, lane.row, args.target.strides),
                          args.is_last != 0 ? position : ~position);
    }
}

}  // namespace dense_arg_max

extern "C" __global__ void __launch_bounds__(dense::kRowThreads)
    dense_arg_max_rows(const __grid_constant__ dense_arg_max::Args args) {
    dense_arg_max::find(args);
}
