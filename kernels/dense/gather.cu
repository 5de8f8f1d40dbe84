// Elements at indices along a dimension: crates/ops/src/dense/gather/mod.rs.
//
// A thread has an element of the target. Reads: the indices, then the source. Writes: the target.

#include "dense/tensor.cuh"
#include "shared/pdl.cuh"

namespace dense_gather {

constexpr uint32_t kThreads = 256;

// The struct in Rust: crates/ops/src/dense/gather/kernels.rs.
struct Args {
    dense::Source source;  // strides without the indexed dimension
    dense::Source indices;
    dense::Target target;
    dense::Dims dims;
    uint32_t axis_len;
    uint32_t axis_stride;
    uint32_t num_items;
    uint32_t absent;  // the word for an index that is not there
};

__device__ void gather(const Args& args) {
    pdl::trigger();
    pdl::wait();
    const uint32_t item = blockIdx.x * kThreads + threadIdx.x;
    if (item >= args.num_items) return;
    const auto index = static_cast<int32_t>(
        dense::load_word(args.indices, dense::offset_of(args.dims, item, args.indices.strides)));
    // From the end.
    const uint32_t at = static_cast<uint32_t>(index) + (index < 0 ? args.axis_len : 0);
    const uint32_t from =
        dense::offset_of(args.dims, item, args.source.strides) + at * args.axis_stride;
    const uint32_t word = at < args.axis_len ? dense::load_word(args.source, from) : args.absent;
    dense::store_word(args.target, dense::offset_of(args.dims, item, args.target.strides), word);
}

}  // namespace dense_gather

extern "C" __global__ void __launch_bounds__(dense_gather::kThreads)
    dense_gather_elements(const __grid_constant__ dense_gather::Args args) {
    dense_gather::gather(args);
}
