// Convolutions in f16 by matrix instructions (mma.sync): a tile of output pixels times a tile of
// columns.
//
// The input pixels that a tile needs, its patch, are in shared memory once for all taps: the rows
// of a matrix operand are addresses in the patch, which a tap moves. Chunks of
// channels and stages of weights go through rings; where a block's shared memory holds all of them,
// the kernels `whole` copy them at once and multiply without a barrier. The sum of an output runs
// over steps of 16 products: chunks of channels, taps, channels of a chunk by 16. The steps of a
// stage are divided among the warps along K, whose sums are added in their order at the end: the
// order of sums depends on the shape of an item and not on the size of a batch.
//
// Weights and the table of steps, which no launch writes, are read before the wait for the
// launches in front of this one.
//
// Every load of a patch names a pixel of the input or is a zero (`sources`); channels beyond the
// input's are zeros. Nothing beyond `num_steps` is multiplied, so that no product has an operand
// that was not written.
#pragma once

#include "dense/conv.cuh"
#include "dense/conv_load.cuh"

namespace dense_conv {

constexpr uint32_t kStepInputs = 16;
constexpr uint32_t kGroupColumns = 16;
// Bytes of the weights of a step for a group of columns.
constexpr uint32_t kGroupBytes = 512;

template <uint32_t kTilePixels, uint32_t kTileColumns, uint32_t kWarpsM, uint32_t kWarpsN,
          uint32_t kWarpsK, uint32_t kStageSteps, uint32_t kNumStages>
struct Shape {
    static constexpr uint32_t kPixels = kTilePixels;
    static constexpr uint32_t kColumns = kTileColumns;
    static constexpr uint32_t kAlongM = kWarpsM;
    static constexpr uint32_t kAlongN = kWarpsN;
    static constexpr uint32_t kAlongK = kWarpsK;
    static constexpr uint32_t kSteps = kStageSteps;
    static constexpr uint32_t kStages = kNumStages;  // of the ring
    static constexpr uint32_t kThreads = kWarpsM * kWarpsN * kWarpsK * kLanes;
    static constexpr uint32_t kRowTiles = kTilePixels / kWarpsM / 16;
    static constexpr uint32_t kColumnTiles = kTileColumns / kWarpsN / 8;
    static constexpr uint32_t kStageBytes = kStageSteps * (kTileColumns / 16) * kGroupBytes;
    static constexpr uint32_t kPitch = kTileColumns + kSumPadding;
    static_assert(kTilePixels % (kWarpsM * 16) == 0 && kTileColumns % (kWarpsN * 16) == 0);
    static_assert(kStageSteps % kWarpsK == 0);
};

__device__ inline void multiply(float (&sums)[4], const uint4& a, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
        " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
__device__ inline uint4 load_matrices(uint32_t at) {
    uint4 a;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w)
                 : "r"(at));
    return a;
}
__device__ inline uint4 load_shared(uint32_t at) {
    uint4 b;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b.x), "=r"(b.y), "=r"(b.z), "=r"(b.w)
                 : "r"(at));
    return b;
}

// Fills the tables: where the pixels of the patch are in the item, -1 outside.
__device__ inline void fill_tables(const Args& args, const Tile& tile, const Shared& shared,
                                   uint32_t num_columns, uint32_t num_threads) {
    for (uint32_t i = threadIdx.x; i < args.num_steps; i += num_threads)
        shared.steps[i] = __ldg(&args.steps.data[i]);
    for (uint32_t i = threadIdx.x; i < num_columns; i += num_threads)
        shared.biases[i] = __ldg(bias_of(args, tile, tile.column + i));
    const int32_t first_y = static_cast<int32_t>(tile.y * args.stride_y) - args.pad_y;
    const int32_t first_x = static_cast<int32_t>(tile.x * args.stride_x) - args.pad_x;
    const int32_t height = args.in_height << args.upsample_shift;
    const int32_t width = args.in_width << args.upsample_shift;
    const uint32_t num_pixels = args.patch_height * args.patch_width;
    for (uint32_t i = threadIdx.x; i < num_pixels; i += num_threads) {
        const uint32_t row = i / args.patch_width;
        const int32_t y = first_y + static_cast<int32_t>(row);
        const int32_t x = first_x + static_cast<int32_t>(i - row * args.patch_width);
        const bool is_inside = y >= 0 && y < height && x >= 0 && x < width;
        const uint32_t from = tile.item * args.in_map.item +
                              (static_cast<uint32_t>(y) >> args.upsample_shift) * args.in_map.row +
                              (static_cast<uint32_t>(x) >> args.upsample_shift) * args.in_map.pixel;
        shared.sources[i] = is_inside ? static_cast<int32_t>(from) : -1;
    }
}

// Queues the copy of a chunk of channels into its place of the ring, from a vector map.
__device__ inline void copy_patch(const Args& args, const Tile& tile, const Shared& shared,
                                  uint32_t chunk, uint32_t num_threads) {
    const uint32_t first = chunk * args.chunk_channels;
    const uint32_t padded = (args.num_inputs + 15) / 16 * 16 - first;
    const uint32_t channels = min(args.chunk_channels, padded);
    // Pieces of 8 channels, of a power of two.
    const uint32_t shift = channels > 32 ? 3 : channels > 16 ? 2 : channels > 8 ? 1 : 0;
    const uint32_t num_pixels = args.patch_height * args.patch_width;
    // A thread has the same channels of pixels in equal steps; there are more threads than pieces
    // of a pixel.
    const uint32_t at = (threadIdx.x & ((1u << shift) - 1)) * 8;
    const int32_t left = static_cast<int32_t>(args.num_inputs - first - at);
    const uint32_t num_bytes = left > 0 ? static_cast<uint32_t>(min(left, 8)) * 2 : 0;
    if (at >= channels) return;
    uint32_t to = shared_address(shared.patches) + chunk % args.num_patches * args.patch_bytes +
                  (threadIdx.x >> shift) * args.pixel_bytes + at * 2;
    const uint32_t step = num_threads >> shift, step_bytes = step * args.pixel_bytes;
    const __half* input = reinterpret_cast<const __half*>(args.input.data);
    const uint32_t channel = tile.group * args.num_inputs + first + at;
#pragma unroll 4
    for (uint32_t pixel = threadIdx.x >> shift; pixel < num_pixels; pixel += step) {
        const int32_t source = shared.sources[pixel];
        const bool exists = source >= 0 && num_bytes != 0;
        copy_async(to, input + (exists ? source + channel : 0), exists ? num_bytes : 0);
        to += step_bytes;
    }
}

template <bool kIsVector>
__device__ inline void load_patch(const Args& args, const Tile& tile, const Shared& shared,
                                  uint32_t chunk, uint32_t num_threads) {
    if constexpr (kIsVector)
        copy_patch(args, tile, shared, chunk, num_threads);
    else if (args.pixel_bytes == 8)
        load_pieces<4>(args, tile, shared, chunk, num_threads);
    else
        load_pieces<8>(args, tile, shared, chunk, num_threads);
}

// Queues the copies of a stage's weights to a place of the ring; they are in memory as they are in
// shared memory.
template <typename S>
__device__ inline void copy_weights(const Args& args, const Tile& tile, const Shared& shared,
                                    uint32_t num_stages, uint32_t stage, uint32_t place) {
    constexpr uint32_t kPieces = S::kStageBytes / 16;
    const uint32_t to = shared_address(shared.stages) + place * S::kStageBytes;
    const uint32_t block = tile.group * args.column_blocks + tile.column / S::kColumns;
    const uint8_t* from =
        args.weights.data + (static_cast<uint64_t>(block) * num_stages + stage) * S::kStageBytes;
#pragma unroll
    for (uint32_t i = 0; i < (kPieces + S::kThreads - 1) / S::kThreads; ++i) {
        const uint32_t at = i * S::kThreads + threadIdx.x;
        if (kPieces % S::kThreads == 0 || at < kPieces) copy_async(to + at * 16, from + at * 16);
    }
}

// Loads a stage of the right side of a product from any window to a place of the ring, in the order
// of weights.
template <typename S>
__device__ inline void load_right(const Args& args, const Tile& tile, const Shared& shared,
                                  uint32_t stage, uint32_t place) {
    constexpr uint32_t kPairs = S::kSteps * (kStepInputs / 2);
    uint8_t* to = shared.stages + place * S::kStageBytes;
    const uint32_t item = tile.item * args.weights_item;
    // Neighbouring threads have neighbouring elements.
    const bool by_column = args.weights_column == 1;
    for (uint32_t i = threadIdx.x; i < kPairs * S::kColumns; i += S::kThreads) {
        const uint32_t n = by_column ? i % S::kColumns : i / kPairs;
        const uint32_t pair = by_column ? i / S::kColumns : i % kPairs;
        const uint32_t column = tile.column + n;
        float values[2] = {};
#pragma unroll
        for (uint32_t j = 0; j < 2; ++j) {
            const uint32_t k = stage * S::kSteps * kStepInputs + pair * 2 + j;
            if (column < args.num_outputs && k < args.num_inputs)
                values[j] =
                    load_element(args.weights.data, args.weights_f32 != 0,
                                 item + k * args.weights_input + column * args.weights_column);
        }
        const uint32_t lane = n % 8 * 4 + pair % 4;
        const uint32_t word = n % kGroupColumns / 8 * 2 + pair % 8 / 4;
        const uint32_t step = n / kGroupColumns * S::kSteps + pair / 8;
        *reinterpret_cast<__half2*>(to + step * kGroupBytes + lane * 16 + word * 4) =
            __floats2half2_rn(values[0], values[1]);
    }
}

template <typename S>
struct Sums {
    float values[S::kRowTiles][S::kColumnTiles][4];
};

// Adds the products of the steps of a stage that are this warp's.
template <typename S, bool kIsWhole>
__device__ inline void multiply_stage(const Args& args, const Shared& shared, uint32_t stage,
                                      const uint32_t (&rows)[S::kRowTiles], uint32_t warp_k,
                                      uint32_t weights_at, Sums<S>& sums) {
    const uint32_t from = shared_address(shared.stages) + weights_at;
#pragma unroll
    for (uint32_t j = 0; j < S::kSteps / S::kAlongK; ++j) {
        const uint32_t in_stage = j * S::kAlongK + warp_k;
        const uint32_t step = stage * S::kSteps + in_stage;
        if (!kIsWhole && step >= args.num_steps) break;
        const uint32_t offset = shared.steps[step];
        uint4 a[S::kRowTiles], b[S::kColumnTiles / 2];
#pragma unroll
        for (uint32_t m = 0; m < S::kRowTiles; ++m) a[m] = load_matrices(rows[m] + offset);
#pragma unroll
        for (uint32_t n = 0; n < S::kColumnTiles / 2; ++n)
            b[n] = load_shared(from + (n * S::kSteps + in_stage) * kGroupBytes);
#pragma unroll
        for (uint32_t m = 0; m < S::kRowTiles; ++m) {
#pragma unroll
            for (uint32_t n = 0; n < S::kColumnTiles / 2; ++n) {
                multiply(sums.values[m][2 * n], a[m], b[n].x, b[n].y);
                multiply(sums.values[m][2 * n + 1], a[m], b[n].z, b[n].w);
            }
        }
    }
}

// Adds up the sums of the warps along K and stores the tile.
template <typename S>
__device__ inline void store_tile(const Args& args, const Tile& tile, const Shared& shared,
                                  const Sums<S>& sums, uint32_t warp_m, uint32_t warp_n,
                                  uint32_t warp_k) {
    const uint32_t lane = lane_of();
    float* partial = reinterpret_cast<float*>(shared.patches);
    float* own = partial + warp_k * (S::kPixels * S::kPitch);
#pragma unroll
    for (uint32_t m = 0; m < S::kRowTiles; ++m) {
#pragma unroll
        for (uint32_t n = 0; n < S::kColumnTiles; ++n) {
            const uint32_t row = (warp_m * S::kRowTiles + m) * 16 + lane / 4;
            const uint32_t column = (warp_n * S::kColumnTiles + n) * 8 + lane % 4 * 2;
            const float (&v)[4] = sums.values[m][n];
            *reinterpret_cast<float2*>(own + row * S::kPitch + column) = make_float2(v[0], v[1]);
            *reinterpret_cast<float2*>(own + (row + 8) * S::kPitch + column) =
                make_float2(v[2], v[3]);
        }
    }
    __syncthreads();
    store_sums<S::kPixels, S::kColumns, S::kAlongK, S::kThreads, true>(args, tile, shared.biases,
                                                                       partial);
}

// `kIsWhole`: all weights and patches are copied at once, else they go through rings.
template <typename S, bool kIsVector, bool kHasWeights, bool kIsWhole>
__device__ inline void compute(const Args& args, uint8_t* memory) {
    pdl::trigger();
    const Tile tile(args, S::kPixels, S::kColumns);
    const Shared shared(args, memory, S::kColumns);
    const uint32_t num_stages = (args.num_steps + S::kSteps - 1) / S::kSteps;
    const uint32_t num_ahead = kIsWhole ? num_stages : min(S::kStages - 1, num_stages);
    if constexpr (kHasWeights) {
        for (uint32_t stage = 0; stage < num_ahead; ++stage)
            copy_weights<S>(args, tile, shared, num_stages, stage, stage);
    }
    fill_tables(args, tile, shared, S::kColumns, S::kThreads);
    __syncthreads();
    pdl::wait();

    // A chunk is loaded with the stage of its first step.
    uint32_t next_chunk = 0, next_chunk_step = 0;
    const auto load_chunks = [&](uint32_t stage) {
        while (next_chunk < args.num_chunks && next_chunk_step / S::kSteps <= stage) {
            load_patch<kIsVector>(args, tile, shared, next_chunk, S::kThreads);
            ++next_chunk;
            next_chunk_step += args.chunk_steps;
        }
    };
    if constexpr (kIsWhole) {
        load_chunks(num_stages);
        commit_copies();
    } else {
#pragma unroll
        for (uint32_t stage = 0; stage < S::kStages - 1; ++stage) {
            if (!kHasWeights && stage < num_stages) load_right<S>(args, tile, shared, stage, stage);
            load_chunks(stage);
            commit_copies();
        }
    }

    const uint32_t lane = lane_of(), warp = warp_of();
    const uint32_t warp_m = warp % S::kAlongM;
    const uint32_t warp_n = warp / S::kAlongM % S::kAlongN;
    const uint32_t warp_k = warp / (S::kAlongM * S::kAlongN);
    uint32_t rows[S::kRowTiles];
#pragma unroll
    for (uint32_t m = 0; m < S::kRowTiles; ++m) {
        const uint32_t row = (warp_m * S::kRowTiles + m) * 16 + lane % 16;
        const uint32_t ty = row >> args.tile_x_log2;
        const uint32_t tx = row & ((1u << args.tile_x_log2) - 1);
        const uint32_t pixel = ty * args.stride_y * args.patch_width + tx * args.stride_x;
        rows[m] = shared_address(shared.patches) + pixel * args.pixel_bytes + lane / 16 * 16;
    }
    const uint32_t weights_at =
        warp_n * (S::kColumnTiles / 2) * S::kSteps * kGroupBytes + lane * 16;
    Sums<S> sums = {};
    const auto multiply_at = [&](uint32_t stage, uint32_t place) {
        const uint32_t at = weights_at + place * S::kStageBytes;
        if ((stage + 1) * S::kSteps <= args.num_steps)
            multiply_stage<S, true>(args, shared, stage, rows, warp_k, at, sums);
        else
            multiply_stage<S, false>(args, shared, stage, rows, warp_k, at, sums);
    };
    if constexpr (kIsWhole) {
        wait_for_copies<0>();
        __syncthreads();
        for (uint32_t stage = 0; stage < num_stages; ++stage) multiply_at(stage, stage);
    } else {
        for (uint32_t stage = 0; stage < num_stages; ++stage) {
            wait_for_copies<S::kStages - 2>();
            __syncthreads();
            // The ring's place was read in the previous iteration.
            const uint32_t next = stage + S::kStages - 1;
            if (next < num_stages) {
                if constexpr (kHasWeights)
                    copy_weights<S>(args, tile, shared, num_stages, next, next % S::kStages);
                else
                    load_right<S>(args, tile, shared, next, next % S::kStages);
            }
            load_chunks(next);
            commit_copies();
            multiply_at(stage, stage % S::kStages);
        }
        wait_for_copies<0>();
    }
    __syncthreads();
    store_tile<S>(args, tile, shared, sums, warp_m, warp_n, warp_k);
}

}  // namespace dense_conv
