// Sums in f32 in the order of the CPU, without matrix instructions.
#pragma once

#include "sparse_conv_tiles.cuh"

namespace sparse_conv {

constexpr uint32_t kF32Threads = 128;

// What a lane multiplies next in f32: 4 channels of its rows.
template <uint32_t kRows>
struct ExactStep {
    float x[kRows][4];
    const float* weights;

    __device__ void load(const uint8_t* features, const uint32_t (&offsets)[kRows]) {
#pragma unroll
        for (uint32_t i = 0; i < kRows; ++i) {
            const float4 v = __ldg(reinterpret_cast<const float4*>(features + offsets[i]));
            x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
        }
    }
};

// Of 64 or 32 channels 8 lanes have 8 or 4 each, of 16 channels 4 lanes have 4 each; with 8
// channels these are two runs of 4. A lane has every fourth or eighth of 32 rows.
template <uint32_t kChannels>
__device__ void exact(const Args& args) {
    constexpr uint32_t kColumns = kChannels == 16 ? 4 : 8;
    constexpr uint32_t kParts = kChannels / kColumns / 4;
    constexpr uint32_t kRowStep = kLanes / kColumns;
    constexpr uint32_t kRows = kLanes / kRowStep;
    constexpr uint32_t kTiles = kLanes / kTileRows;
    using ExactStep = ExactStep<kRows>;
    __shared__ Offsets<4> shared[kF32Threads / kLanes][kBatchTaps][8];
    auto* offsets = shared[warp_of()];
    const uint32_t first_channel = blockIdx.y * kChannels + lane_of() % kColumns * 4;
    const auto* packed = reinterpret_cast<const float*>(args.weights.data) + first_channel;
    const uint32_t num_columns = args.num_outputs;
    const uint32_t num_steps = (args.num_inputs + 3) / 4;
    const uint32_t num_rows = num_rows_of(args);
    const Range range(0, (num_rows + kTileRows - 1) / kTileRows,
                      blockIdx.x * (kF32Threads / kLanes) + warp_of(),
                      gridDim.x * (kF32Threads / kLanes));
    for (uint32_t tile = range.begin; tile < range.end; tile += kTiles) {
        const Rows rows(tile, tile + kTiles < range.end ? tile + kTiles : range.end, num_rows);
        float sums[kRows][kParts][4] = {};
        for (uint32_t group = 0; group < args.num_groups; group += kBatch) {
            const Taps<4> taps(args, rows, group, offsets);
            uint32_t rest = taps.any, step_of_tap = num_steps - 1;
            uint32_t of_tap[kRows];
            const float* weights = nullptr;
            const auto next = [&](ExactStep& step) {
                if (++step_of_tap == num_steps) {
                    if (rest == 0) return false;
                    const uint32_t tap = __ffs(rest) - 1;
                    rest &= rest - 1;
                    step_of_tap = 0;
#pragma unroll
                    for (uint32_t i = 0; i < kRows; ++i) {
                        const uint32_t slot = lane_of() / kColumns + i * kRowStep;
                        const auto* of_rows = reinterpret_cast<const uint32_t*>(offsets[tap]);
                        of_tap[i] = of_rows[slot % 8 * 4 + slot / 8];
                    }
                    weights = packed +
                              static_cast<uint64_t>(group * args.width + tap) * num_steps * 4 * num_columns;
                }
                step.load(args.features.data + step_of_tap * 16, of_tap);
                step.weights = weights;
                weights += 4 * num_columns;
                return true;
            };
            const auto multiply_step = [&](const ExactStep& step) {
#pragma unroll
                for (uint32_t c = 0; c < 4; ++c) {
#pragma unroll
                    for (uint32_t part = 0; part < kParts; ++part) {
                        const float4 w = __ldg(reinterpret_cast<const float4*>(
                            step.weights + c * num_columns + part * 32));
#pragma unroll
                        for (uint32_t i = 0; i < kRows; ++i) {
                            float* sum = sums[i][part];
                            sum[0] = fmaf(step.x[i][c], w.x, sum[0]);
                            sum[1] = fmaf(step.x[i][c], w.y, sum[1]);
                            sum[2] = fmaf(step.x[i][c], w.z, sum[2]);
                            sum[3] = fmaf(step.x[i][c], w.w, sum[3]);
                        }
                    }
                }
            };
            ExactStep even, odd;
            bool has_even = next(even);
            while (has_even) {
                const bool has_odd = next(odd);
                multiply_step(even);
                if (!has_odd) break;
                has_even = next(even);
                multiply_step(odd);
            }
        }
#pragma unroll
        for (uint32_t part = 0; part < kParts; ++part) {
            const uint32_t channel = first_channel + part * 32;
            float bias[4];
#pragma unroll
            for (uint32_t c = 0; c < 4; ++c) bias[c] = __ldg(&args.bias[channel + c]);
#pragma unroll
            for (uint32_t i = 0; i < kRows; ++i) {
                const uint32_t row = rows.first + lane_of() / kColumns + i * kRowStep;
                if (rows.has(row)) finish<float>(args, row, channel, bias, sums[i][part]);
            }
        }
    }
}

}  // namespace sparse_conv
