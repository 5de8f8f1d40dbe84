// Running sums along a dimension: crates/ops/src/dense/cumsum/mod.rs.
//
// A thread has a row and adds its elements in their order. Reads: the source, an element before
// it is written. Writes: the target.

#include "dense/rows.cuh"

namespace dense_cumsum {

constexpr uint32_t kThreads = 64;

// The struct in Rust: crates/ops/src/dense/cumsum/kernels.rs.
struct Args {
    dense::Source source;
    dense::Target target;
    dense::RowDims dims;
    uint32_t is_exclusive;
    uint32_t is_reversed;
};

__device__ void sum(const Args& args) {
    pdl::trigger();
    pdl::wait();
    const uint32_t row = blockIdx.x * kThreads + threadIdx.x;
    if (row >= args.dims.num_rows) return;
    const uint32_t len = args.dims.len;
    const uint32_t from = dense::row_offset(args.dims, row, args.source.strides),
                   to = dense::row_offset(args.dims, row, args.target.strides);
    const bool is_integer = args.source.element == dense::kI32;
    uint32_t sum = 0;  // +0, too
#pragma unroll 4
    for (uint32_t n = 0; n < len; ++n) {
        const uint32_t i = args.is_reversed != 0 ? len - 1 - n : n;
        const uint32_t word = dense::load_word(
            args.source, from + dense::element_offset(args.dims, i, args.source.strides));
        const uint32_t next =
            is_integer ? sum + word : __float_as_uint(__uint_as_float(sum) + __uint_as_float(word));
        dense::store_word(args.target,
                          to + dense::element_offset(args.dims, i, args.target.strides),
                          args.is_exclusive != 0 ? sum : next);
        sum = next;
    }
}

}  // namespace dense_cumsum

extern "C" __global__ void __launch_bounds__(dense_cumsum::kThreads)
    dense_cumsum_rows(const __grid_constant__ dense_cumsum::Args args) {
    dense_cumsum::sum(args);
}
