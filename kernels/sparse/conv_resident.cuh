// All taps of the weights are in shared memory; warps run on their own.
#pragma once

#include "sparse/conv_tiles.cuh"

namespace sparse_conv {

// A tap's chunk that is on its way.
template <typename T, uint32_t kWords>
struct Step {
    Chunk<T, kWords, 4> chunk;
    const uint4* weights;
};

// `kDepth` less 1 steps are on their way while one is multiplied.
template <typename T, uint32_t kWords, uint32_t kParts, uint32_t kDepth>
__device__ void resident(const Args& args) {
    constexpr uint32_t kQuads = kParts * kWords / 2 * kLanes;  // of a chunk
    constexpr uint32_t kGroups = 4;
    constexpr uint32_t kWarpTiles = kGroups / 2;
    extern __shared__ uint4 shared[];
    const uint32_t num_taps = args.num_groups * args.width;
    const uint32_t num_quads = num_taps * args.num_chunks * kQuads;
    const auto* packed = reinterpret_cast<const uint4*>(args.weights.data) +
                         static_cast<uint64_t>(blockIdx.y) * num_quads;
    for (uint32_t i = threadIdx.x; i < num_quads; i += kThreads) shared[i] = packed[i];
    auto* offsets =
        reinterpret_cast<Offsets<kGroups>(*)[8]>(shared + num_quads) + warp_of() * kBatchTaps;
    __syncthreads();

    const uint8_t* features = args.features.data + lane_of() % 4 * kWords * 4;
    const uint32_t num_rows = num_rows_of(args);
    const uint32_t num_warps = gridDim.x * (kThreads / kLanes);
    const Range range(0, (num_rows + kTileRows - 1) / kTileRows,
                      blockIdx.x * (kThreads / kLanes) + warp_of(), num_warps);
    for (uint32_t tile = range.begin; tile < range.end; tile += kWarpTiles) {
        const Rows rows =
            rows_of(tile, tile + kWarpTiles < range.end ? tile + kWarpTiles : range.end, num_rows);
        Sums<kParts, kGroups> sums = {};
        for (uint32_t group = 0; group < args.num_groups; group += kBatch) {
            const Taps<kGroups> taps(args, rows, group, offsets);
            const uint4* of_batch =
                shared + group * args.width * args.num_chunks * kQuads + lane_of();
            uint32_t rest = taps.any, chunk = args.num_chunks - 1;
            Offsets<kGroups> of_tap;
            const uint4* weights = nullptr;
            const auto next = [&](Step<T, kWords>& step) {
                if (++chunk == args.num_chunks) {
                    if (rest == 0) return false;
                    const uint32_t tap = __ffs(rest) - 1;
                    rest &= rest - 1;
                    chunk = 0;
                    of_tap = offsets[tap][lane_of() / 4];
                    weights = of_batch + tap * args.num_chunks * kQuads;
                }
                step.chunk.load(features + chunk * kWords * 16, of_tap);
                step.weights = weights + chunk * kQuads;
                return true;
            };
            const auto multiply_step = [&](Step<T, kWords>& step) {
                step.chunk.template multiply_into<kParts>(sums, step.weights, kWarpTiles);
            };
            Step<T, kWords> a, b, c;
            bool has_a = next(a);
            if constexpr (kDepth == 2) {
                while (has_a) {
                    const bool has_b = next(b);
                    multiply_step(a);
                    if (!has_b) break;
                    has_a = next(a);
                    multiply_step(b);
                }
            } else {
                bool has_b = has_a && next(b);
                while (has_a) {
                    const bool has_c = has_b && next(c);
                    multiply_step(a);
                    if (!has_b) break;
                    has_a = has_c && next(a);
                    multiply_step(b);
                    if (!has_c) break;
                    has_b = has_a && next(b);
                    multiply_step(c);
                }
            }
        }
        finish_rows<T, kParts, kGroups>(args, rows, blockIdx.y * kParts * 16, sums);
    }
}

}  // namespace sparse_conv
