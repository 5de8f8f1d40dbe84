// Products of a chain's rows with weights that pass through a ring in shared memory: layer_chain.cuh.
#pragma once

#include "layer_chain.cuh"

namespace layer_chain {

// Adds the products of 64 outputs and 16 inputs with the rows to the sums of a warpgroup.
__device__ inline void multiply(float (&sums)[8], uint64_t weights, uint64_t rows) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"
                 " {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, 1, 1, 0, 0;"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7])
                 : "l"(weights), "l"(rows));
}
__device__ inline void multiply(float (&sums)[12], uint64_t weights, uint64_t rows) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16"
                 " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11}, %12, %13, 1, 1, 1, 0, 0;"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]),
                   "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11])
                 : "l"(weights), "l"(rows));
}
__device__ inline void multiply(float (&sums)[16], uint64_t weights, uint64_t rows) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16"
                 " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, 1, 1, 1, 0, 0;"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]),
                   "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15])
                 : "l"(weights), "l"(rows));
}

// A thread block's place in its cluster, and the weights of its steps.
template <uint32_t kRows>
struct Products {
    using S = Shared<kRows>;
    // Sums of a thread of the warpgroup: outputs lane / 4 and + 8 of its warp's 16, of each 8 rows two.
    static constexpr uint32_t kSums = kRows / 2;

    const Args& args;
    S& shared;
    uint32_t rank;
    uint32_t first_row;
    uint32_t full, empty;
    warpgroup::RingPlace place;

    __device__ Products(const Args& args, S& shared)
        : args(args),
          shared(shared),
          rank(cluster::rank()),
          first_row(blockIdx.x / kBlocks * kRows),
          full(warpgroup::shared_address(shared.full)),
          empty(warpgroup::shared_address(shared.empty)) {}

    // By some threads, before a barrier of all.
    __device__ void init() const {
        if (threadIdx.x >= S::kStages) return;
        warpgroup::init_barrier(full + 8 * threadIdx.x, 1);
        warpgroup::init_barrier(empty + 8 * threadIdx.x, warpgroup::kThreads / kLanes);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }

    // The first output of this thread block.
    __device__ uint32_t first_output(const Step& step) const {
        return step.target == kToAnchors ? 0 : rank * step.num_tiles * kTileOutputs;
    }
    // All clusters have the rows of shared results.
    __device__ bool is_skipped(const Step& step) const {
        return step.target < kToAll && (first_row >= step.num_rows || (step.target == kToValues && first_output(step) >= step.num_values));
    }
    __device__ __half* place_of(uint32_t r, uint32_t column) const { return shared.rows + column / 8 * S::kGroupLen + r * 8; }

    // Copies the weights of all steps through the ring: one thread.
    __device__ void copy_weights() {
        const uint32_t ring = warpgroup::shared_address(shared.ring);
#pragma unroll 1
        for (uint32_t i = 0; i < args.num_steps; ++i) {
            const Step& step = shared.steps[i];
            if (step.target == kToEncode || is_skipped(step)) continue;
            uint32_t left = step.num_inputs / kStageInputs * step.num_tiles;
            const uint8_t* from = step.weights.data + rank * left * kStageBytes;
#pragma unroll 1
            for (; left != 0; --left, from += kStageBytes) {
                warpgroup::wait(empty + 8 * place.stage, place.phase ^ 1);
                warpgroup::copy_bulk(ring + place.stage * kStageBytes, from, kStageBytes, full + 8 * place.stage);
                place.advance(S::kStages);
            }
        }
    }

    // The products of 64 outputs with the columns from `input` on: by the first warpgroup.
    __device__ void multiply_tile(float (&sums)[kSums], uint32_t input, uint32_t num_inputs) {
        constexpr uint32_t kGroupBytes = S::kGroupLen * sizeof(__half);
        uint64_t rows = warpgroup::descriptor_of(warpgroup::shared_address(place_of(0, input)), kGroupBytes, 128);
        const uint64_t ring = warpgroup::descriptor_of(warpgroup::shared_address(shared.ring), kTileOutputs * 16, 128);
#pragma unroll
        for (uint32_t i = 0; i < kSums; ++i) sums[i] = 0;
        uint32_t held = S::kStages;  // the stage that products are still read from
        const auto release = [&] {
            if (held != S::kStages && lane_of() == 0) warpgroup::arrive(empty + 8 * held);
        };
#pragma unroll 1
        for (uint32_t left = num_inputs / kStageInputs; left != 0; --left) {
            warpgroup::wait(full + 8 * place.stage, place.phase);
            warpgroup::fence_products();
            const uint64_t weights = ring + place.stage * (kStageBytes / 16);
#pragma unroll
            for (uint32_t i = 0; i < kStageInputs / 16; ++i) {
                multiply(sums, weights + i * (kTileOutputs * 2), rows + i * (kGroupBytes / 8));
            }
            warpgroup::commit_products();
            rows += kStageInputs / 8 * (kGroupBytes / 16);
            warpgroup::wait_for_products<1>();
            release();
            held = place.stage;
            place.advance(S::kStages);
        }
        warpgroup::wait_for_products<0>();
        release();
        // Read here and not before.
#pragma unroll
        for (uint32_t i = 0; i < kSums; ++i) asm volatile("" : "+f"(sums[i])::"memory");
    }
};

}  // namespace layer_chain
