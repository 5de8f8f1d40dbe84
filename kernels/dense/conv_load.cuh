// The shared memory of convolutions in f16, and how patches of any map get there: value by value.
#pragma once

#include "dense/conv.cuh"

namespace dense_conv {

// Shared memory: the table of steps, the bias of the columns, the sources of the patch's pixels,
// the patches and the stages of weights, all of them or rings. The sums take the place of both at
// the end.
struct Shared {
    uint32_t* steps;
    float* biases;
    int32_t* sources;
    uint8_t* patches;
    uint8_t* stages;

    __device__ Shared(const Args& args, uint8_t* at, uint32_t num_columns) {
        const uint32_t num_pixels = args.patch_height * args.patch_width;
        steps = reinterpret_cast<uint32_t*>(at);
        at += (args.num_steps + 3) / 4 * 16;
        biases = reinterpret_cast<float*>(at);
        at += num_columns * 4;
        sources = reinterpret_cast<int32_t*>(at);
        at += (num_pixels + 3) / 4 * 16;
        patches = at;
        stages = at + args.num_patches * args.patch_bytes;
    }
};

// Values that a thread has on their way at once.
constexpr uint32_t kLoadsAtOnce = 16;

// Loads a chunk from any map of T and rounds it to f16.
template <uint32_t kChannels, typename T>
__device__ inline void load_pieces(const Args& args, const Tile& tile, const Shared& shared,
                                   uint32_t chunk, uint32_t num_threads) {
    const uint32_t num_pixels = args.patch_height * args.patch_width;
    const uint32_t first = chunk * args.chunk_channels;
    uint8_t* to = shared.patches + chunk % args.num_patches * args.patch_bytes;
    const T* input = reinterpret_cast<const T*>(args.input.data) +
                     static_cast<uint64_t>(tile.group * args.num_inputs) * args.in_map.channel;
    constexpr uint32_t kPixels = kLoadsAtOnce / kChannels;
    const uint32_t end =
        kChannels == 4 ? 4 : min(args.chunk_channels, (args.num_inputs + 15) / 16 * 16 - first);
    for (uint32_t at = 0; at < end; at += kChannels) {
        for (uint32_t begin = threadIdx.x; begin < num_pixels; begin += kPixels * num_threads) {
            // All loads come before the first use.
            T values[kPixels][kChannels];
#pragma unroll
            for (uint32_t i = 0; i < kPixels; ++i) {
                const uint32_t pixel = begin + i * num_threads;
                const int32_t source = pixel < num_pixels ? shared.sources[pixel] : -1;
#pragma unroll
                for (uint32_t c = 0; c < kChannels; ++c) {
                    const uint32_t channel = first + at + c;
                    const bool exists = source >= 0 && channel < args.num_inputs;
                    values[i][c] = exists ? input[source + channel * args.in_map.channel] : T(0.0f);
                }
            }
#pragma unroll
            for (uint32_t i = 0; i < kPixels; ++i) {
                const uint32_t pixel = begin + i * num_threads;
                if (pixel >= num_pixels) continue;
                __half halves[kChannels];
#pragma unroll
                for (uint32_t c = 0; c < kChannels; ++c)
                    halves[c] = __float2half_rn(static_cast<float>(values[i][c]));
                uint8_t* piece = to + pixel * args.pixel_bytes + at * 2;
                if constexpr (kChannels == 4)
                    *reinterpret_cast<uint2*>(piece) = *reinterpret_cast<uint2*>(halves);
                else
                    *reinterpret_cast<uint4*>(piece) = *reinterpret_cast<uint4*>(halves);
            }
        }
    }
}
template <uint32_t kChannels>
__device__ inline void load_pieces(const Args& args, const Tile& tile, const Shared& shared,
                                   uint32_t chunk, uint32_t num_threads) {
    if (args.in_map.is_f32)
        load_pieces<kChannels, float>(args, tile, shared, chunk, num_threads);
    else
        load_pieces<kChannels, __half>(args, tile, shared, chunk, num_threads);
}

}  // namespace dense_conv
