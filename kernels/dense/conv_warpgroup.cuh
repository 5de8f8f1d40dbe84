// Convolutions in f16 by matrix instructions of warpgroups (wgmma), which GPUs of compute
// capability 9.0 have.
//
// All patches of a tile are in shared memory at once (conv_f16.cuh). A warp loads its 16 rows of a
// step from there to registers; the tensor cores read the weights from shared memory. One thread,
// the producer, copies stages of weights ahead, the first ones before the wait for the launches in
// front of this one. Each warpgroup has 64 rows and all columns: a sum runs over the steps in
// order.
#pragma once

#include "dense/conv_f16.cuh"
#include "shared/warpgroup.cuh"

namespace dense_conv {

constexpr uint32_t kWarpgroupRows = 64;
// Steps of a stage. A warp has their rows in registers at once.
constexpr uint32_t kStageSteps = 4;

template <uint32_t kTileColumns, uint32_t kNumStages>
struct WarpgroupShape {
    static constexpr uint32_t kWarpgroups = 2;
    static constexpr uint32_t kPixels = kWarpgroups * kWarpgroupRows;
    static constexpr uint32_t kColumns = kTileColumns;
    static constexpr uint32_t kStages = kNumStages;  // of the ring
    static constexpr uint32_t kThreads = kWarpgroups * warpgroup::kThreads;
    static constexpr uint32_t kWarps = kThreads / kLanes;
    static constexpr uint32_t kStepBytes = kTileColumns * kStepInputs * 2;
    static constexpr uint32_t kStageBytes = kStageSteps * kStepBytes;
    static constexpr uint32_t kPitch = kTileColumns + kSumPadding;
};

#if HAS_WARPGROUPS

// Barriers of the ring, in shared memory.
template <uint32_t kNumStages>
struct RingBarriers {
    uint64_t full[kNumStages], empty[kNumStages];
};

// Waits until at most so many of the groups of copies of this thread are pending.
__device__ inline void wait_for_chunks(uint32_t num_pending) {
    if (num_pending == 0)
        wait_for_copies<0>();
    else if (num_pending == 1)
        wait_for_copies<1>();
    else
        wait_for_copies<2>();
}

// Copies the stages of weights of a tile into the ring.
template <typename S>
struct WeightsProducer {
    const uint8_t* from;
    uint32_t stages, full, empty;  // shared addresses
    uint32_t num_left;
    warpgroup::PipelineState state = {};

    __device__ void copy() {
        const uint32_t barrier = full + 8 * state.stage;
        barrier::arrive_expect_tx(barrier, S::kStageBytes);
        barrier::copy_bulk(stages + state.stage * S::kStageBytes, from, S::kStageBytes, barrier);
        state.advance(S::kStages);
        from += S::kStageBytes;
        --num_left;
    }
    // What the ring has room for at the beginning.
    __device__ void fill() {
        for (uint32_t i = 0; i < S::kStages && num_left != 0; ++i) copy();
    }
    // The place of the stage two before, which most warps have released.
    __device__ void refill() {
        barrier::wait_parity(empty + 8 * state.stage, state.phase ^ 1);
        copy();
    }
};

// Loads the rows of a warp for the steps of a stage, as the patches of a tile arrive.
struct RowsReader {
    const Args& args;
    uint32_t row, steps;          // shared addresses
    uint32_t num_chunks = 0;      // that have arrived
    uint32_t num_steps_here = 0;  // of which all rows are there

    __device__ void load(uint4 (&rows)[kStageSteps], uint32_t stage) {
        const uint4 offsets = load_shared(steps + stage * (kStageSteps * 4));
        if ((stage + 1) * kStageSteps > num_steps_here) wait((stage + 1) * kStageSteps);
        rows[0] = load_matrices(row + offsets.x);
        rows[1] = load_matrices(row + offsets.y);
        rows[2] = load_matrices(row + offsets.z);
        rows[3] = load_matrices(row + offsets.w);
    }
    __device__ void wait(uint32_t end) {
        while (num_chunks < args.num_chunks && num_chunks * args.chunk_steps < end) {
            wait_for_chunks(args.num_chunks - 1 - num_chunks);
            __syncthreads();
            ++num_chunks;
        }
        num_steps_here =
            num_chunks == args.num_chunks ? args.num_steps : num_chunks * args.chunk_steps;
    }
};

// Begins the products of a stage.
template <typename S>
__device__ inline void begin_products(const uint4 (&rows)[kStageSteps], uint64_t weights,
                                      float (&sums)[S::kColumns / 2]) {
    warpgroup::wgmma_fence();
#pragma unroll
    for (uint32_t j = 0; j < kStageSteps; ++j) {
        const uint32_t words[4] = {rows[j].x, rows[j].y, rows[j].z, rows[j].w};
        warpgroup::multiply(__half{}, sums, words, weights + j * (S::kStepBytes / 16));
    }
    warpgroup::wgmma_commit_group();
}

// Stores the sums of a warp, laid out as of mma.m16n8k16 by 8 columns.
template <typename S>
__device__ inline void store_warpgroups(const Args& args, const Tile& tile, const Shared& shared,
                                        const float (&sums)[S::kColumns / 2]) {
    const uint32_t lane = lane_of();
    float* partial = reinterpret_cast<float*>(shared.patches);
#pragma unroll
    for (uint32_t n = 0; n < S::kColumns / 8; ++n) {
        float* to = partial + (warp_of() * 16 + lane / 4) * S::kPitch + n * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(to) = make_float2(sums[n * 4], sums[n * 4 + 1]);
        *reinterpret_cast<float2*>(to + 8 * S::kPitch) =
            make_float2(sums[n * 4 + 2], sums[n * 4 + 3]);
    }
    __syncthreads();
    store_sums<S::kPixels, S::kColumns, 1, S::kThreads, true>(args, tile, shared.biases, partial);
}

template <typename S>
__device__ inline void compute_warpgroups(const Args& args, uint8_t* memory) {
    __shared__ RingBarriers<S::kStages> barriers;
    pdl::trigger();
    const Tile tile(args, S::kPixels, S::kColumns);
    const Shared shared(args, memory, S::kColumns);
    const uint32_t stages = shared_address(shared.stages);
    const uint32_t full = shared_address(barriers.full), empty = shared_address(barriers.empty);
    const uint32_t block = tile.group * args.column_blocks + tile.column / S::kColumns;
    const uint32_t num_stages = args.num_steps / kStageSteps;
    const uint64_t first = static_cast<uint64_t>(block) * num_stages * S::kStageBytes;
    WeightsProducer<S> producer{args.weights.data + first, stages, full, empty, num_stages};
    const bool is_producer = threadIdx.x == 0;
    if (is_producer) {
        for (uint32_t stage = 0; stage < S::kStages; ++stage) {
            barrier::init(full + 8 * stage, 1);
            barrier::init(empty + 8 * stage, S::kWarps);
        }
        barrier::fence_init();
        producer.fill();
    }
    fill_tables(args, tile, shared, S::kColumns, S::kThreads);
    __syncthreads();
    pdl::wait();
    for (uint32_t chunk = 0; chunk < args.num_chunks; ++chunk) {
        load_patch<true>(args, tile, shared, chunk, S::kThreads);
        commit_copies();
    }

    const uint32_t lane = lane_of();
    const uint32_t pixel = warp_of() * 16 + lane % 16;
    const uint32_t ty = pixel >> args.tile_x_log2;
    const uint32_t tx = pixel & ((1u << args.tile_x_log2) - 1);
    RowsReader reader{
        args,
        shared_address(shared.patches) + lane / 16 * 16 +
            (ty * args.stride_y * args.patch_width + tx * args.stride_x) * args.pixel_bytes,
        shared_address(shared.steps)};
    constexpr uint32_t kPartBytes = 128, kBlockBytes = 256;  // of 8 columns
    const uint64_t weights = warpgroup::matrix_descriptor(stages, kPartBytes, kBlockBytes);
    float sums[S::kColumns / 2] = {};
    warpgroup::PipelineState state;
    uint4 even[kStageSteps], odd[kStageSteps];
    // Multiplies a stage, and loads the rows of the next while the tensor cores work.
    const auto multiply = [&](const uint4(&rows)[kStageSteps], uint4(&next)[kStageSteps],
                              uint32_t stage) {
        barrier::wait_parity(full + 8 * state.stage, state.phase);
        begin_products<S>(rows, weights + state.stage * (S::kStageBytes / 16), sums);
        // The products of the stage before are complete: its rows and weights may be overwritten.
        warpgroup::wgmma_wait_group<1>();
        if (lane == 0 && stage != 0)
            barrier::arrive(empty + 8 * ((state.stage == 0 ? S::kStages : state.stage) - 1));
        if (stage + 1 < num_stages) reader.load(next, stage + 1);
        if (is_producer && stage >= 2 && producer.num_left != 0) producer.refill();
        __syncwarp();
        state.advance(S::kStages);
    };
    reader.load(even, 0);
#pragma unroll 1
    for (uint32_t stage = 0; stage < num_stages; stage += 2) {
        multiply(even, odd, stage);
        if (stage + 1 < num_stages) multiply(odd, even, stage + 1);
    }
    warpgroup::wgmma_wait_group<0>();
    __syncthreads();
    store_warpgroups<S>(args, tile, shared, sums);
}

#endif

}  // namespace dense_conv
