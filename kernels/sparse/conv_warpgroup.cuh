// Matrix instructions of warpgroups (wgmma), which GPUs of compute capability 9.0 have: the
// weights are read from shared memory by the tensor cores, so that no warp loads them, and
// every row is gathered once.
#pragma once

#include "shared/warpgroup.cuh"
#include "sparse/conv_tiles.cuh"

namespace sparse_conv {

constexpr uint32_t kWarpgroupLanes = 128;
static_assert(kWarpgroupLanes == warpgroup::kThreads);
// Rows of a warpgroup: a matrix instruction has as many, 16 a warp.
constexpr uint32_t kWarpgroupRows = 64;
// Bytes of the rows of a tap that are multiplied in a step.
constexpr uint32_t kWarpgroupStepBytes = 128;
// Warpgroups of a block, and steps whose weights are in shared memory at once: for 64 output
// channels and for 128.
constexpr uint32_t kWarpgroups64 = 4;
constexpr uint32_t kWarpgroupStages64 = 8;
constexpr uint32_t kWarpgroups128 = 3;
constexpr uint32_t kWarpgroupStages128 = 6;

template <uint32_t kChannels>
struct WarpgroupTile {
    static_assert(kChannels == 64 || kChannels == 128);
    static constexpr uint32_t kWarpgroups = kChannels == 64 ? kWarpgroups64 : kWarpgroups128;
    static constexpr uint32_t kStages = kChannels == 64 ? kWarpgroupStages64 : kWarpgroupStages128;
    static constexpr uint32_t kThreads = kWarpgroups * kWarpgroupLanes;
};

#if HAS_WARPGROUPS

using warpgroup::PipelineState, warpgroup::shared_address, warpgroup::wgmma_commit_group,
    warpgroup::wgmma_fence, warpgroup::wgmma_wait_group;

// Of 16 channels of the weights in shared memory: blocks of 8 output channels, each two parts
// of 8 rows of 16 bytes.
__device__ inline uint64_t matrix_descriptor(uint32_t address) {
    constexpr uint32_t kPartBytes = 128, kBlockBytes = 256;
    return warpgroup::matrix_descriptor(address, kPartBytes, kBlockBytes);
}

// What a lane multiplies of a step: of the rows lane / 4 and + 8 of its warp 16 bytes of
// every chunk.
template <typename T>
struct WarpgroupStep {
    // Of 64 bytes.
    static constexpr uint32_t kChunks = kWarpgroupStepBytes / 64;
    uint4 low[kChunks], high[kChunks];

    __device__ void load(const uint8_t* features, uint2 offsets) {
#pragma unroll
        for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
            low[chunk] = __ldg(reinterpret_cast<const uint4*>(features + offsets.x + chunk * 64));
            high[chunk] = __ldg(reinterpret_cast<const uint4*>(features + offsets.y + chunk * 64));
        }
    }

    // `weights` is the shared address of the step's. The left operand of a matrix instruction
    // is two words of each row. They are brought in that order here: `opaque_zero`, which the
    // compiler does not know, keeps it from doing so where they are loaded, which would wait for
    // them.
    template <uint32_t kNum>
    __device__ void multiply_into(float (&sums)[kNum], uint32_t weights,
                                  uint32_t opaque_zero) const {
        uint32_t words[2 * kChunks][4];
#pragma unroll
        for (uint32_t i = 0; i < kChunks; ++i) {
            const uint4 a = low[i], b = high[i];
            const uint32_t in_order[8] = {a.x, b.x, a.y, b.y, a.z, b.z, a.w, b.w};
#pragma unroll
            for (uint32_t w = 0; w < 8; ++w) {
                asm volatile("xor.b32 %0, %1, %2;"
                             : "=r"(words[2 * i + w / 4][w % 4])
                             : "r"(in_order[w]), "r"(opaque_zero));
            }
        }
        const uint64_t descriptor = matrix_descriptor(weights);
        wgmma_fence();
#pragma unroll
        for (uint32_t i = 0; i < 2 * kChunks; ++i) {
            warpgroup::multiply(T{}, sums, words[i], descriptor + i * (kNum * 64 / 16));
        }
        wgmma_commit_group();
    }
};

// The rows of a warp by tap, in bytes from the features, and the taps that one of them has.
__device__ inline uint32_t find_taps(const Args& args, const Rows& rows, uint32_t first_group,
                                     uint2 (*offsets)[8]) {
    const uint32_t row = lane_of() % kTileRows;
    auto* of_lane = reinterpret_cast<uint32_t*>(offsets) + row % 8 * 2 + row / 8;
    uint32_t words[(kBatch + 1) / 2];
    // The lanes of both halves share the words of a row.
#pragma unroll
    for (uint32_t j = 0; j < (kBatch + 1) / 2; ++j) {
        const uint32_t i = 2 * j + lane_of() / kTileRows;
        const uint32_t group = first_group + i;
        words[j] = 0;
        if (rows.has(rows.first + row) && i < kBatch && group < args.num_groups) {
            words[j] =
                __ldg(&args.words[static_cast<uint64_t>(group) * args.stride + rows.first + row]);
        }
    }
    uint32_t present = 0;
#pragma unroll
    for (uint32_t j = 0; j < (kBatch + 1) / 2; ++j) {
        const uint32_t i = 2 * j + lane_of() / kTileRows;
        if (i >= kBatch) break;
        present |= (words[j] & 7) << i * args.width;
        uint32_t offset = kZeroBytes + (words[j] >> 3) * args.row_bytes;
        for (uint32_t k = 0; k < args.width; ++k) {
            const bool is_present = (words[j] >> k & 1) != 0;
            of_lane[(i * args.width + k) * kTileRows] = is_present ? offset : 0;
            offset += is_present ? args.row_bytes : 0;
        }
    }
    return __reduce_or_sync(kAllLanes, present);
}

// `kChannels` output channels; `args.num_chunks` steps are a tap. One producer thread copies the
// weights of the steps into the stages of a pipeline; all warps consume them.
template <typename T, uint32_t kChannels>
__device__ void warpgroups(const Args& args) {
    using Step = WarpgroupStep<T>;
    constexpr uint32_t kWarpgroups = WarpgroupTile<kChannels>::kWarpgroups;
    constexpr uint32_t kStages = WarpgroupTile<kChannels>::kStages;
    constexpr uint32_t kWarps = kWarpgroups * kWarpgroupLanes / kLanes;
    constexpr uint32_t kStageBytes = kChannels * kWarpgroupStepBytes;
    // A stage is filled again two steps after its own, when most warps have released it.
    constexpr uint32_t kAhead = kStages - 2;
    extern __shared__ __align__(128) uint4 shared[];
    __shared__ uint64_t barriers[2][kStages];
    __shared__ uint32_t taps_of_warps[kLanes];
    const uint32_t stages = shared_address(shared);
    const uint32_t full = shared_address(barriers[0]), empty = shared_address(barriers[1]);
    auto* offsets = reinterpret_cast<uint2(*)[8]>(shared + kStages * kStageBytes / sizeof(uint4)) +
                    warp_of() * kBatchTaps;
    if (threadIdx.x < kStages) {
        barrier::init(full + 8 * threadIdx.x, 1);
        barrier::init(empty + 8 * threadIdx.x, kWarps);
        barrier::fence_init();
    }
    if (threadIdx.x < kLanes) taps_of_warps[threadIdx.x] = 0;

    const uint32_t num_steps = args.num_chunks;
    const uint32_t warpgroup = warp_of() / (kWarpgroupLanes / kLanes);
    const uint8_t* packed = args.weights.data + static_cast<uint64_t>(blockIdx.y) *
                                                    args.num_groups * args.width * num_steps *
                                                    kStageBytes;
    const uint8_t* features = args.features.data + lane_of() % 4 * 16;
    const uint32_t num_rows = num_rows_of(args);
    const Range of_block(0, (num_rows + kWarpgroupRows - 1) / kWarpgroupRows, blockIdx.x,
                         gridDim.x);
    const uint32_t num_units = of_block.end - of_block.begin;
    const uint32_t num_passes = (num_units + kWarpgroups - 1) / kWarpgroups;
    PipelineState smem_pipe_read, smem_pipe_write;
    for (uint32_t pass = 0; pass < num_passes; ++pass) {
        const Range of_pass(of_block.begin, num_units, pass, num_passes);
        const uint32_t unit = of_pass.begin + warpgroup;
        const uint32_t first_tile = unit * (kWarpgroupRows / kTileRows) + warp_of() % 4;
        const Rows rows = rows_of(first_tile, unit < of_pass.end ? first_tile + 1 : 0, num_rows);
        float sums[kChannels / 2] = {};
        for (uint32_t group = 0; group < args.num_groups; group += kBatch) {
            // No warp is still at the last batch.
            __syncthreads();
            const uint32_t of_warp = find_taps(args, rows, group, offsets);
            if (lane_of() == 0) taps_of_warps[warp_of()] = of_warp;
            __syncthreads();
            // Those of the block, not yet passed, and those of the warpgroup.
            const uint32_t of_lane = taps_of_warps[lane_of()];
            uint32_t rest = __reduce_or_sync(kAllLanes, of_lane);
            uint32_t mine = __reduce_or_sync(kAllLanes, lane_of() / 4 == warpgroup ? of_lane : 0);

            uint32_t to_copy = rest, step_to_copy = 0;
            const uint8_t* of_batch =
                packed + static_cast<uint64_t>(group) * args.width * num_steps * kStageBytes;
            const auto copy_next = [&] {
                if (threadIdx.x == 0 && to_copy != 0) {
                    barrier::wait_parity(empty + 8 * smem_pipe_write.stage,
                                         smem_pipe_write.phase ^ 1);
                    const uint32_t step = (__ffs(to_copy) - 1) * num_steps + step_to_copy;
                    barrier::arrive_expect_tx(full + 8 * smem_pipe_write.stage, kStageBytes);
                    barrier::copy_bulk(stages + smem_pipe_write.stage * kStageBytes,
                                       of_batch + step * kStageBytes, kStageBytes,
                                       full + 8 * smem_pipe_write.stage);
                    smem_pipe_write.advance(kStages);
                    if (++step_to_copy == num_steps) step_to_copy = 0, to_copy &= to_copy - 1;
                }
                __syncwarp();
            };
#pragma unroll 1
            for (uint32_t i = 0; i < kAhead; ++i) copy_next();

            uint32_t to_load = mine, step_to_load = 0, step_of_tap = 0;
            uint32_t held = kStages;  // the stage that products still read
            uint2 of_tap = {};
            const auto load_next = [&](Step& step) {
                if (to_load == 0) return;
                if (step_to_load == 0) of_tap = offsets[__ffs(to_load) - 1][lane_of() / 4];
                step.load(features + step_to_load * kWarpgroupStepBytes, of_tap);
                if (++step_to_load == num_steps) step_to_load = 0, to_load &= to_load - 1;
            };
            const auto release = [&](uint32_t stage) {
                if (lane_of() == 0) barrier::arrive(empty + 8 * stage);
            };
            const auto release_held = [&] {
                if (held != kStages) release(held);
                held = kStages;
            };
            // Passes over the lowest tap, which other warpgroups have.
            const auto skip_tap = [&] {
                wgmma_wait_group<0>();
                release_held();
#pragma unroll 1
                for (uint32_t step = 0; step < num_steps; ++step) {
                    barrier::wait_parity(full + 8 * smem_pipe_read.stage, smem_pipe_read.phase);
                    release(smem_pipe_read.stage);
                    smem_pipe_read.advance(kStages);
                    copy_next();
                }
                rest &= rest - 1;
            };
            // Multiplies a step and loads the one after the next in its place.
            const auto multiply_next = [&](Step& step) {
                if (step_of_tap == 0) {
#pragma unroll 1
                    while (((rest & -rest) & mine) == 0) skip_tap();
                }
                barrier::wait_parity(full + 8 * smem_pipe_read.stage, smem_pipe_read.phase);
                wgmma_wait_group<0>();
                release_held();
                step.multiply_into(sums, stages + smem_pipe_read.stage * kStageBytes,
                                   args.opaque_zero);
                held = smem_pipe_read.stage;
                smem_pipe_read.advance(kStages);
                load_next(step);
                copy_next();
                if (++step_of_tap == num_steps) step_of_tap = 0, rest &= rest - 1, mine &= mine - 1;
                return mine != 0;
            };
            Step even, odd;
            load_next(even);
            load_next(odd);
            if (mine != 0) {
                while (multiply_next(even) && multiply_next(odd)) {
                }
            }
            wgmma_wait_group<0>();
            release_held();
#pragma unroll 1
            while (rest != 0) skip_tap();
        }
        // A lane has neighbouring channels of the rows lane / 4 and + 8.
        constexpr uint32_t kNum = kChannels / 4;
        const uint32_t channel = blockIdx.y * kChannels + lane_of() % 4 * kNum;
        float of_rows[2][kNum];
#pragma unroll
        for (uint32_t c = 0; c < kNum; ++c) {
            of_rows[0][c] = sums[c / 2 * 4 + c % 2];
            of_rows[1][c] = sums[c / 2 * 4 + 2 + c % 2];
        }
        const uint32_t row = rows.first + lane_of() / 4;
        epilogue<typename Stored<T>::Type>(args, rows, {row, row + 8}, channel, of_rows);
    }
}

#endif

}  // namespace sparse_conv
