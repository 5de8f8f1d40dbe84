// Values written at indices: crates/ops/src/dense/scatter_nd/mod.rs.
//
// A thread has an element of the updates; no two have the same place. Reads: indices and updates.
// Writes: the target at the indices.

#include "dense/tensor.cuh"
#include "shared/pdl.cuh"

namespace dense_scatter_nd {

constexpr uint32_t kThreads = 256;

// The struct in Rust: crates/ops/src/dense/scatter_nd/kernels.rs.
struct Args {
    dense::Source indices;  // strides of the first number of a tuple
    dense::Source updates;
    dense::Target target;  // strides without the indexed dimensions
    dense::Dims dims;      // of the updates
    uint32_t axis_lens[dense::kMaxRank];
    uint32_t axis_strides[dense::kMaxRank];
    uint32_t num_axes;
    uint32_t number_stride;  // from a number of a tuple to the next
    uint32_t num_items;
    uint32_t reserved;
};

__device__ void scatter(const Args& args) {
    pdl::trigger();
    pdl::wait();
    const uint32_t item = blockIdx.x * kThreads + threadIdx.x;
    if (item >= args.num_items) return;
    const uint32_t first = dense::offset_of(args.dims, item, args.indices.strides);
    uint32_t to = dense::offset_of(args.dims, item, args.target.strides);
    for (uint32_t axis = 0; axis < args.num_axes; ++axis) {
        const auto index =
            static_cast<int32_t>(dense::load_word(args.indices, first + axis * args.number_stride));
        const uint32_t len = args.axis_lens[axis];
        // From the end.
        const uint32_t at = static_cast<uint32_t>(index) + (index < 0 ? len : 0);
        if (at >= len) return;
        to += at * args.axis_strides[axis];
    }
    const uint32_t from = dense::offset_of(args.dims, item, args.updates.strides);
    dense::store_word(args.target, to, dense::load_word(args.updates, from));
}

}  // namespace dense_scatter_nd

extern "C" __global__ void __launch_bounds__(dense_scatter_nd::kThreads)
    dense_scatter_nd_elements(const __grid_constant__ dense_scatter_nd::Args args) {
    dense_scatter_nd::scatter(args);
}
