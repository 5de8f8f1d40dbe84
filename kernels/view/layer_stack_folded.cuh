// Stacks of layers in f16 whose normalizations are folded into the layers that follow them:
// parameters, and the streams of weights. layer_stack_folded_steps.cuh has the layers.
//
// A block takes 8 rows through all layers. A job over rows has all warps; where there is only one,
// jobs over columns of f32 follow, side by side, whose input may be the values that it stores.
// Several jobs over rows have blocks of their own. A warp has 32 neighbouring outputs of every
// layer of its job. What it needs of all its layers is one stream in device memory, in the order of
// use, which bulk copies bring to the stages of its pipeline; the weights of a layer are in
// registers before its rows are there.
//
// norm(y) W + b = (y V - mean(y) s) / deviation(y) + c, with V = gamma W rounded to f16, s the sums
// of the columns of V and c = beta W + b. The moments of y come from one more matrix instruction
// for 8 rows and 16 inputs: its left operand are the rows themselves, whose products with
// themselves are sums of squares, and ones. Variances are differences of those: rows whose mean is
// more than some hundred times their deviation lose digits.
#pragma once

#include "shared/pdl.cuh"
#include "shared/warpgroup.cuh"
#include "view/layer_stack.cuh"

namespace layer_stack_folded {

constexpr uint32_t kRows = 8;
constexpr uint32_t kMaxWidth = layer_stack::kMaxWidth;
// Outputs of a warp, in groups of 16.
constexpr uint32_t kWidth = 32;
constexpr uint32_t kGroups = kWidth / linear::kWarpColumns;
constexpr uint32_t kWarps = kMaxWidth / kWidth;
// A warpgroup brings the rows and gives its registers to the others.
constexpr uint32_t kRowWarps = 4;
constexpr uint32_t kThreads = (kWarps + kRowWarps) * kLanes;
constexpr uint32_t kPitch = kMaxWidth + row::kGroup;  // rows begin in different banks
constexpr uint32_t kMaxLayers = 5;
// Up to three over rows first; four over columns after at most one.
constexpr uint32_t kMaxJobs = 5;
constexpr uint32_t kMaxRowJobs = 3;
// Layers of a warp in all jobs, and a last norm.
constexpr uint32_t kMaxConstants = 9;
// Values of a row that the first job stores in f32, and the most that a job over columns reads.
constexpr uint32_t kBoxLen = 12;
constexpr uint32_t kMaxColumns = 3;
// Steps of 16 inputs, of a chunk, and chunks of a pipeline: its stages.
constexpr uint32_t kMaxSteps = kMaxWidth / 16;
constexpr uint32_t kChunkSteps = 8;
constexpr uint32_t kChunks = 3;
constexpr uint32_t kStepBytes = kGroups * kLanes * sizeof(uint4);
constexpr uint32_t kChunkBytes = kChunkSteps * kStepBytes;

struct Layer {
    uint8_t num_steps;  // even
    uint8_t num_warps;  // that have outputs, or inputs of values: the first of the job
    uint8_t has_relu;
    uint8_t reserved;
    float inverse_len;  // of the norm of its inputs; 0: none
};

struct Job {
    Slice<const __half> rows;    // the input of a job over rows
    Slice<const float> norm;     // of it: gamma, beta; empty: none
    Slice<__half> normalized;    // where it is stored after that; empty: nowhere
    Slice<const __half> addend;  // added after that; empty: none
    Slice<const float> columns;  // the input of the others; empty: the values of the first job
    Slice<__half> output;        // empty: `values`, of jobs only over rows
    Slice<float> values;
    Slice<const float> summand;   // rows that are added to these; empty: none
    Slice<const float> interval;  // divides values from `first_divided` on before that; read before
                                  // earlier launches have ended
    Layer layers[kMaxLayers];
    Layer last;  // the norm of the output: `num_steps` and `inverse_len`
    uint32_t row_stride;
    uint32_t row_len;
    uint32_t normalized_stride;
    uint32_t addend_stride;
    uint32_t column_stride;
    uint32_t num_columns;
    uint32_t first_column;  // of a row of the first job's values; without one, three times the job
    uint32_t output_stride;
    uint32_t num_values;  // stored of a row
    uint32_t first_divided;
    uint32_t num_layers;
    uint32_t first_warp;
    uint32_t num_warps;
    uint32_t reserved;
};

// What a warp reads: constants, then weights.
struct Stream {
    uint64_t begin;  // in `streams`
    uint64_t plan;   // pairs of steps of its layers, 4 bits each, the first lowest
};

struct Args {
    Slice<const uint8_t> streams;
    Stream warps[kMaxRowJobs][kWarps];  // of each job over rows; of the first row without one
    Job jobs[kMaxJobs];
    uint32_t num_jobs;
    uint32_t num_row_jobs;
    uint32_t num_rows;
    float epsilon;
};

struct Constants {
    // Bias and sum of V of outputs lane / 4 and + 8; of a last norm beta and gamma.
    float4 layers[kMaxConstants][kGroups][8];
    // Three weights and a bias of a channel of the first layer over columns.
    float4 first[kWidth];
};
static_assert(sizeof(Constants) == 2816);

struct Shared {
    uint4 stages[kWarps][kChunks][kChunkSteps][kGroups][kLanes];
    Constants constants[kWarps];
    __align__(16) __half rows[2][kRows][kPitch];
    float boxes[kRows][kBoxLen];
    uint64_t full[kWarps][kChunks + 1];  // the last: of the constants
};
// For Rust.
constexpr uint32_t kSharedBytes = 228224;
static_assert(sizeof(Shared) == kSharedBytes);

#if HAS_WARPGROUPS

// By a whole warp, for which one lane acts: operands are in registers of the warp.
__device__ inline void init_barrier(uint32_t barrier) {
    asm volatile(
        "{\n.reg .pred one;\nelect.sync _|one, -1;\n@one mbarrier.init.shared.b64 [%0], 1;\n}" ::
            "r"(barrier)
        : "memory");
}
__device__ inline void copy(uint32_t to, const uint8_t* from, uint32_t num_bytes,
                            uint32_t barrier) {
    asm volatile(
        "{\n.reg .pred one;\nelect.sync _|one, -1;\n"
        "@one mbarrier.arrive.expect_tx.shared.b64 _, [%3], %2;\n"
        "@one cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1], %2, [%3];\n}" ::"r"(to),
        "l"(from), "r"(num_bytes), "r"(barrier)
        : "memory");
}
__device__ inline void wait(uint32_t barrier, uint32_t phase) {
    uint32_t is_done;
    do {
        asm volatile(
            "{\n.reg .pred done;\n"
            "mbarrier.try_wait.parity.shared.b64 done, [%1], %2;\n"
            "selp.u32 %0, 1, 0, done;\n}\n"
            : "=r"(is_done)
            : "r"(barrier), "r"(phase)
            : "memory");
    } while (is_done == 0);
}

// The stream of a warp.
struct Weights {
    uint4 steps[kMaxSteps][kGroups];  // of a layer
    const uint8_t* from;
    uint64_t copied, taken;  // what is left of the plan
    uint32_t left = 0;       // steps of a layer that are not copied yet
    uint32_t stages, full, stage = 0, phase = 0;
    uint32_t pending = 0;  // 1 + the stage that has been read, but not copied to
    uint32_t opaque_zero;  // always 0, which the compiler does not know

    __device__ Weights(const Args& args, Shared& shared, uint32_t warp) : opaque_zero(blockIdx.z) {
        const Stream& stream = args.warps[blockIdx.y][warp];
        from = args.streams.data + stream.begin;
        copied = taken = stream.plan;
        stages = warpgroup::shared_address(shared.stages[warp]);
        full = warpgroup::shared_address(shared.full[warp]);
#pragma unroll
        for (uint32_t i = 0; i <= kChunks; ++i) init_barrier(full + 8 * i);
        barrier::fence_init();
        __syncwarp();
        copy(warpgroup::shared_address(&shared.constants[warp]), from, sizeof(Constants),
             full + 8 * kChunks);
        from += sizeof(Constants);
#pragma unroll 1
        for (uint32_t i = 0; i < kChunks; ++i) copy_chunk(i);
    }
    __device__ void copy_chunk(uint32_t to) {
        if (left == 0) left = static_cast<uint32_t>(copied) % 16 * 2, copied >>= 4;
        if (left == 0) return;
        const uint32_t num = left < kChunkSteps ? left : kChunkSteps;
        const uint32_t num_bytes = num * kStepBytes;
        copy(stages + to * kChunkBytes, from, num_bytes, full + 8 * to);
        left -= num, from += num_bytes;
    }
    __device__ uint32_t next_steps() {
        const uint32_t num = static_cast<uint32_t>(taken) % 16 * 2;
        taken >>= 4;
        return num;
    }
    // Brings a chunk of the next layer to registers, if it has so many steps.
    __device__ void take(uint32_t chunk, uint32_t num_steps) {
        if (chunk * kChunkSteps >= num_steps) return;
        wait(full + 8 * stage, phase);
#pragma unroll
        for (uint32_t k = 0; k < kChunkSteps; ++k) {
#pragma unroll
            for (uint32_t g = 0; g < kGroups; ++g) {
                uint4& w = steps[chunk * kChunkSteps + k][g];
                asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                             : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                             : "r"(stages + stage * kChunkBytes +
                                   ((k * kGroups + g) * kLanes + lane_of()) * 16)
                             : "memory");
            }
        }
        pending = stage + 1;
        if (++stage == kChunks) stage = 0, phase ^= 1;
    }
    // Copies to the place of a chunk that has been taken. Not at once: loads wait in a queue, and
    // the copy must not overtake them. It depends on the last of them.
    __device__ void refill(uint32_t chunk) {
        if (pending == 0) return;
        __syncwarp();
        copy_chunk(pending - 1 +
                   (steps[(chunk + 1) * kChunkSteps - 1][kGroups - 1].w & opaque_zero));
        pending = 0;
    }
};

#endif

}  // namespace layer_stack_folded
