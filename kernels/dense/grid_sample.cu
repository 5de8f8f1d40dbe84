// Maps sampled at places that another tensor names: crates/ops/src/dense/grid_sample/mod.rs.
//
// A thread has an element of the output, or 8 neighbouring channels. Reads: the grid, then the
// source. Writes: the target.

#include "dense/map.cuh"
#include "shared/pdl.cuh"

namespace dense_grid_sample {

constexpr uint32_t kThreads = 128;

// The struct in Rust: crates/ops/src/dense/grid_sample/kernels.rs. Pairs are rows and columns.
struct Args {
    dense::Source source;
    dense::Source grid;  // [N, rows, columns, x and y]
    dense::Target target;
    dense::MapDims dims;  // of the target
    uint32_t size[2];     // of the source
    uint32_t is_nearest;
    uint32_t has_border;
    uint32_t aligns_corners;
    uint32_t reserved;
};

// The place of a coordinate of the grid.
__device__ inline float place(const Args& args, float at, uint32_t size) {
    const auto len = static_cast<float>(size);
    const float x = args.aligns_corners != 0 ? (at + 1.0f) / 2.0f * (len - 1.0f)
                                             : ((at + 1.0f) * len - 1.0f) / 2.0f;
    return args.has_border != 0 ? fminf(fmaxf(x, 0.0f), len - 1.0f) : x;
}

template <uint32_t kWidth>
__device__ void sample(const Args& args) {
    pdl::trigger();
    pdl::wait();
    dense::Cell cell;
    if (!dense::find_cell<kWidth>(args.dims, blockIdx.x * kThreads + threadIdx.x, cell)) return;
    const auto& of_grid = args.grid.strides;
    const uint32_t at = cell.n * of_grid[0] + cell.y * of_grid[1] + cell.x * of_grid[2];
    const float x = place(args, dense::load(args.grid, at), args.size[1]),
                y = place(args, dense::load(args.grid, at + of_grid[3]), args.size[0]);
    const auto& strides = args.source.strides;
    const uint32_t first = cell.n * strides[0] + cell.c * strides[1];
    float sums[kWidth];
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i) sums[i] = 0.0f;
    const float left = args.is_nearest != 0 ? rintf(x) : floorf(x),
                top = args.is_nearest != 0 ? rintf(y) : floorf(y);
    const float right_share = x - left, lower_share = y - top;
#pragma unroll
    for (uint32_t corner = 0; corner < 4; ++corner) {
        if (args.is_nearest != 0 && corner != 0) continue;
        const float column = left + static_cast<float>(corner % 2),
                    row = top + static_cast<float>(corner / 2);
        const bool is_inside = row >= 0.0f && row <= static_cast<float>(args.size[0] - 1) &&
                               column >= 0.0f && column <= static_cast<float>(args.size[1] - 1);
        if (!is_inside) continue;
        const float across = corner % 2 != 0 ? right_share : 1.0f - right_share,
                    down = corner / 2 != 0 ? lower_share : 1.0f - lower_share;
        const float weight = args.is_nearest != 0 ? 1.0f : down * across;
        uint32_t words[kWidth];
        dense::load_words(args.source,
                          first + static_cast<uint32_t>(row) * strides[2] +
                              static_cast<uint32_t>(column) * strides[3],
                          words);
#pragma unroll
        for (uint32_t i = 0; i < kWidth; ++i) {
            sums[i] = fmaf(__uint_as_float(words[i]), weight, sums[i]);
        }
    }
    uint32_t words[kWidth];
#pragma unroll
    for (uint32_t i = 0; i < kWidth; ++i) words[i] = __float_as_uint(sums[i]);
    dense::store_words(args.target, cell.offset(args.target.strides), words);
}

}  // namespace dense_grid_sample

extern "C" __global__ void __launch_bounds__(dense_grid_sample::kThreads)
    dense_grid_sample_1(const __grid_constant__ dense_grid_sample::Args args) {
    dense_grid_sample::sample<1>(args);
}
extern "C" __global__ void __launch_bounds__(dense_grid_sample::kThreads)
    dense_grid_sample_8(const __grid_constant__ dense_grid_sample::Args args) {
    dense_grid_sample::sample<dense::kVector>(args);
}
