// The taps of the weights pass through a pipeline of stages in shared memory; the warps of a block
// go through the taps in step.
#pragma once

#include "sparse/conv_tiles.cuh"

namespace sparse_conv {

// Taps of the weights in shared memory at once: 128 channels to 128 fit 99 KiB in 16 bits.
constexpr uint32_t kStages = 2;

__device__ inline void copy_async(uint4* to, const uint4* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <uint32_t kPending>
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// `kColumns` warps share rows, each has its own `16 kParts` channels.
template <typename T, uint32_t kParts, uint32_t kColumns>
__device__ void staged(const Args& args) {
    constexpr uint32_t kWords = 4;
    constexpr uint32_t kGroups = 8;
    constexpr uint32_t kWarpTiles = kGroups / 2;
    constexpr uint32_t kQuads = kParts * kWords / 2 * kLanes;  // of a chunk and a column
    constexpr uint32_t kRowWarps = kThreads / kLanes / kColumns;
    extern __shared__ uint4 shared[];
    __shared__ uint32_t block_taps;
    const uint32_t num_chunks = args.num_chunks;
    const uint32_t quads_per_tap = kColumns * num_chunks * kQuads;
    const auto* packed =
        reinterpret_cast<const uint4*>(args.weights.data) + threadIdx.x +
        static_cast<uint64_t>(blockIdx.y) * args.num_groups * args.width * quads_per_tap;
    // Lanes beyond the channels read zeros.
    const uint32_t lane_byte = lane_of() % 4 * kWords * 4;
    const uint32_t lane_mask = lane_byte < args.row_bytes ? 0xffffffffu : 0;
    const uint8_t* features = args.features.data + lane_byte;
    const uint32_t column = warp_of() % kColumns;
    const uint32_t row_warp = warp_of() / kColumns;
    auto* offsets = reinterpret_cast<Offsets<kGroups>(*)[8]>(shared + kStages * quads_per_tap) +
                    row_warp * kBatchTaps;

    const uint32_t num_rows = num_rows_of(args);
    const Range of_block(0, (num_rows + kTileRows - 1) / kTileRows, blockIdx.x, gridDim.x);
    const uint32_t num_tiles = of_block.end - of_block.begin;
    const uint32_t num_passes = (num_tiles + kWarpTiles * kRowWarps - 1) / (kWarpTiles * kRowWarps);
    for (uint32_t pass = 0; pass < num_passes; ++pass) {
        const Range of_pass(of_block.begin, num_tiles, pass, num_passes);
        // The first warps have a tile more where they do not divide evenly.
        const uint32_t each = (of_pass.end - of_pass.begin) / kRowWarps;
        const uint32_t left = (of_pass.end - of_pass.begin) % kRowWarps;
        const uint32_t begin =
            of_pass.begin + row_warp * each + (row_warp < left ? row_warp : left);
        const Rows rows = rows_of(begin, begin + each + (row_warp < left ? 1 : 0), num_rows);
        Sums<kParts, kGroups> sums = {};
        for (uint32_t group = 0; group < args.num_groups; group += kBatch) {
            // No warp is still at the last batch.
            __syncthreads();
            if (threadIdx.x == 0) block_taps = 0;
            __syncthreads();
            const Taps<kGroups> taps(args, rows, group, offsets, column == 0);
            if (lane_of() == 0) atomicOr(&block_taps, taps.any);
            __syncthreads();

            uint32_t ahead = block_taps;
            uint4* to_stage = shared + threadIdx.x;
            const uint4* of_batch =
                packed + static_cast<uint64_t>(group * args.width) * quads_per_tap;
            const auto copy_next = [&] {
                if (ahead != 0) {
                    const uint4* from = of_batch + (__ffs(ahead) - 1) * quads_per_tap;
                    ahead &= ahead - 1;
#pragma unroll 1
                    for (uint32_t i = 0; i < quads_per_tap; i += kThreads) {
                        if (threadIdx.x + i < quads_per_tap) copy_async(to_stage + i, from + i);
                    }
                    to_stage += quads_per_tap;
                    if (to_stage >= shared + kStages * quads_per_tap)
                        to_stage = shared + threadIdx.x;
                }
                commit_copies();
            };
#pragma unroll
            for (uint32_t i = 0; i < kStages - 1; ++i) copy_next();

            uint32_t mine = taps.any;
            Offsets<kGroups> of_tap = {};
            const auto find_rows = [&] {
                of_tap = offsets[__ffs(mine) - 1][lane_of() / 4];
                of_tap.mask(lane_mask);
            };
            Chunk<T, kWords, kGroups> even, odd;
            if (mine != 0) {
                find_rows();
                even.load(features, of_tap);
                if (num_chunks > 1) odd.load(features + kWords * 16, of_tap);
            }
            const uint4* stage = shared + column * num_chunks * kQuads + lane_of();
            const uint4* stages_end = stage + kStages * quads_per_tap;
            for (uint32_t rest = block_taps; rest != 0; rest &= rest - 1) {
                wait_for_copies<kStages - 2>();
                __syncthreads();
                copy_next();
                const uint4* weights = stage;
                stage += quads_per_tap;
                if (stage == stages_end) stage -= kStages * quads_per_tap;
                // The lowest tap of the warp is not before that of the block.
                if (((rest & -rest) & mine) == 0) continue;
                const uint32_t num_tiles_of_tap = taps.num_tiles_with(__ffs(rest) - 1);
                mine &= mine - 1;
                for (uint32_t c = 0; c < num_chunks; c += 2) {
                    // Each is loaded again when it is used up: for this tap or for the next.
                    even.template multiply_into<kParts>(sums, weights, num_tiles_of_tap);
                    if (c + 2 < num_chunks) {
                        even.load(features + (c + 2) * kWords * 16, of_tap);
                    } else if (mine != 0) {
                        if (num_chunks % 2 == 0 || num_chunks == 1) find_rows();
                        even.load(features, of_tap);
                    }
                    if (c + 1 < num_chunks) {
                        odd.template multiply_into<kParts>(sums, weights + kQuads,
                                                           num_tiles_of_tap);
                        if (c + 3 < num_chunks) {
                            odd.load(features + (c + 3) * kWords * 16, of_tap);
                        } else if (mine != 0) {
                            if (num_chunks % 2 != 0) find_rows();
                            odd.load(features + kWords * 16, of_tap);
                        }
                    }
                    weights += 2 * kQuads;
                }
            }
        }
        finish_rows<T, kParts, kGroups>(args, rows, (blockIdx.y * kColumns + column) * kParts * 16,
                                        sums);
    }
}

}  // namespace sparse_conv
