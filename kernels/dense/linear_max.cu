// Linear layers and the largest result of each group of rows, the PFN layers of PointPillars:
// crates/ops/src/dense/linear_max/mod.rs.
//
// A warp has groups one after the other and 32 columns, whose weights are in its registers, a
// column a lane; the rows of a group come through shared memory, 16 at a time. Reads: the source,
// weights, the bias. Writes: the target.

#include "dense/activation.cuh"
#include "dense/tensor.cuh"
#include "shared/pdl.cuh"
#include "shared/warp.cuh"

namespace dense_linear_max {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarpGroups = 4;
constexpr uint32_t kMaxInputs = 16;
constexpr uint32_t kTileRows = 16;
// Rows whose sums a lane has at once.
constexpr uint32_t kRows = 4;
// Loads of a lane on their way at once.
constexpr uint32_t kLoads = 4;

// The struct in Rust: crates/ops/src/dense/linear_max/kernels.rs.
struct Args {
    dense::Source source;
    dense::Target target;
    Slice<const float> weights;
    Slice<const float> bias;
    uint32_t num_groups;
    uint32_t num_rows;
    uint32_t num_inputs;
    uint32_t num_outputs;
    dense::Activation activation;
    uint32_t is_fast;
};

// Brings rows of a group side by side.
template <typename T>
__device__ inline void stage_rows(const Args& args, uint32_t from, uint32_t num_rows,
                                  float (*rows)[kMaxInputs]) {
    const uint32_t len = num_rows * args.num_inputs;
    const uint32_t rows_step = kLanes / args.num_inputs,
                   inputs_step = kLanes - rows_step * args.num_inputs;
    uint32_t row = lane_of() / args.num_inputs, input = lane_of() - row * args.num_inputs;
    for (uint32_t i = lane_of(); i < len; i += kLoads * kLanes) {
        float values[kLoads];
        uint32_t places[kLoads];
#pragma unroll
        for (uint32_t j = 0; j < kLoads; ++j) {
            places[j] = row * kMaxInputs + input;
            if (i + j * kLanes < len) {
                values[j] = dense::load_of<T>(args.source, from + row * args.source.strides[1] +
                                                               input * args.source.strides[2]);
            }
            row += rows_step, input += inputs_step;
            if (input >= args.num_inputs) ++row, input -= args.num_inputs;
        }
#pragma unroll
        for (uint32_t j = 0; j < kLoads; ++j) {
            if (i + j * kLanes < len) (&rows[0][0])[places[j]] = values[j];
        }
    }
}

template <typename T>
__device__ inline void run(const Args& args, float (*rows)[kMaxInputs]) {
    const uint32_t column = blockIdx.y * kLanes + lane_of();
    const bool is_column = column < args.num_outputs;
    float weights[kMaxInputs];
#pragma unroll
    for (uint32_t k = 0; k < kMaxInputs; ++k) {
        const bool exists = k < args.num_inputs && is_column;
        weights[k] = exists ? args.weights.data[k * args.num_outputs + column] : 0.0f;
    }
    const float bias = is_column ? args.bias.data[column] : 0.0f;
    pdl::wait();
    const uint32_t first = (blockIdx.x * (kThreads / kLanes) + warp_of()) * kWarpGroups;
    const uint32_t end = min(first + kWarpGroups, args.num_groups);
    for (uint32_t group = first; group < end; ++group) {
        float largest = -INFINITY;
        for (uint32_t first_row = 0; first_row < args.num_rows; first_row += kTileRows) {
            const uint32_t num_rows = min(kTileRows, args.num_rows - first_row);
            __syncwarp();
            stage_rows<T>(args, group * args.source.strides[0] + first_row * args.source.strides[1],
                          num_rows, rows);
            __syncwarp();
            for (uint32_t r = 0; r < num_rows; r += kRows) {
                float sums[kRows] = {};
#pragma unroll
                for (uint32_t k = 0; k < kMaxInputs; k += 4) {
                    if (k >= args.num_inputs) continue;
#pragma unroll
                    for (uint32_t j = 0; j < kRows; ++j) {
                        const float4 x = *reinterpret_cast<const float4*>(&rows[r + j][k]);
                        sums[j] = fmaf(x.x, weights[k], sums[j]);
                        if (k + 1 < args.num_inputs) sums[j] = fmaf(x.y, weights[k + 1], sums[j]);
                        if (k + 2 < args.num_inputs) sums[j] = fmaf(x.z, weights[k + 2], sums[j]);
                        if (k + 3 < args.num_inputs) sums[j] = fmaf(x.w, weights[k + 3], sums[j]);
                    }
                }
#pragma unroll
                for (uint32_t j = 0; j < kRows; ++j) {
                    if (r + j >= num_rows) continue;
                    float value = sums[j] + bias;
                    if (args.activation.kind == dense::kRelu) {
                        value = dense::clip_low(value, 0.0f);
                    } else if (args.activation.kind != dense::kNone) {
                        value = args.is_fast != 0 ? dense::activate<true>(args.activation, value)
                                                  : dense::activate<false>(args.activation, value);
                    }
                    largest = largest > value || largest != largest ? largest : value;
                }
            }
        }
        if (is_column) {
            dense::store(args.target,
                         group * args.target.strides[0] + column * args.target.strides[1], largest);
        }
    }
}

}  // namespace dense_linear_max

extern "C" __global__ void __launch_bounds__(dense_linear_max::kThreads)
    dense_linear_max_groups(const __grid_constant__ dense_linear_max::Args args) {
    using namespace dense_linear_max;
    __shared__ alignas(16) float rows[kThreads / kLanes][kTileRows][kMaxInputs];
    pdl::trigger();
    if (args.source.element == dense::kF16) {
        run<__half>(args, rows[warp_of()]);
    } else {
        run<float>(args, rows[warp_of()]);
    }
}
