// Writes feature maps channels last: crates/ops/src/view/channels_last/mod.rs.
//
// A block has 32 texels of a view and goes through the channels 32 at a time: planar maps are
// transposed in shared memory, so that both sides are read and written along their rows.
// Reads: the network's maps. Writes: every texel of the levels.

#include <cuda_fp16.h>

#include "shared/slice.cuh"

namespace channels_last {

constexpr uint32_t kThreads = 256;
// Texels of a block, and channels of a step.
constexpr uint32_t kTile = 32;
constexpr uint32_t kMaxLevels = 4;

// The struct in Rust: crates/ops/src/view/channels_last/kernels.rs.
template <typename From, typename To>
struct Level {
    Slice<const From> values;  // [views, channels, rows, columns], or as strides say
    Slice<To> texels;          // [views, rows, columns, channels]
    uint32_t source_size[2];   // columns, rows
    uint32_t size[2];
    uint32_t step;           // 2: only even rows and columns
    uint32_t column_stride;  // values from a texel of the source to the next; 0: planar
    uint32_t block_stride;   // from 32 channels to the next
    float scale;             // of int8 texels
    uint32_t end_block;      // blocks of the levels up to this one, of a view
    uint32_t reserved;
};

template <typename From, typename To>
struct Args {
    Level<From, To> levels[kMaxLevels];
    uint32_t num_levels;
    uint32_t num_views;
    uint32_t num_channels;
    uint32_t reserved;
};

__device__ inline float widened(float value) { return value; }
__device__ inline float widened(__half value) { return __half2float(value); }
// Integers stay as they are.
__device__ inline int8_t widened(int8_t value) { return value; }

__device__ inline void store(float value, float, float* to) { *to = value; }
__device__ inline void store(float value, float, __half* to) { *to = __float2half_rn(value); }
__device__ inline void store(float value, float scale, int8_t* to) {
    const float steps = fminf(fmaxf(rintf(value / scale), -127.0f), 127.0f);
    *to = value != value ? 0 : static_cast<int8_t>(steps);
}
__device__ inline void store(int8_t value, float, int8_t* to) { *to = value; }

template <typename From, typename To>
__device__ void write(const Args<From, To>& args) {
    __shared__ From tile[kTile][kTile + 1];
    constexpr uint32_t kRows = kThreads / kTile;
    const uint32_t lane = threadIdx.x % kTile, first_row = threadIdx.x / kTile;
    uint32_t index = 0, first_block = 0;
    for (uint32_t i = 0; i + 1 < args.num_levels; ++i) {
        if (blockIdx.x >= args.levels[i].end_block)
            index = i + 1, first_block = args.levels[i].end_block;
    }
    const Level<From, To>& level = args.levels[index];
    const uint64_t num_texels = static_cast<uint64_t>(level.size[0]) * level.size[1];
    const uint64_t num_sources = static_cast<uint64_t>(level.source_size[0]) * level.source_size[1];
    const uint32_t first_texel = (blockIdx.x - first_block) * kTile;
    const From* values = level.values.data + blockIdx.y * num_sources * args.num_channels;
    To* texels = level.texels.data + blockIdx.y * num_texels * args.num_channels;
    const auto source_of = [&level](uint32_t texel) {
        const uint32_t row = texel / level.size[0] * level.step,
                       column = texel % level.size[0] * level.step;
        return static_cast<uint64_t>(row) * level.source_size[0] + column;
    };
    for (uint32_t first = 0; first < args.num_channels; first += kTile) {
        const uint32_t own = first_texel + lane;
        const uint64_t own_source = own < num_texels ? source_of(own) : 0;
        if (level.column_stride == 0) {
            for (uint32_t c = first_row; c < kTile; c += kRows) {
                if (own < num_texels && first + c < args.num_channels) {
                    tile[c][lane] = values[(first + c) * num_sources + own_source];
                }
            }
            __syncthreads();
        }
        for (uint32_t t = first_row; t < kTile; t += kRows) {
            const uint32_t texel = first_texel + t, channel = first + lane;
            if (texel >= num_texels || channel >= args.num_channels) continue;
            const From value =
                level.column_stride == 0
                    ? tile[lane][t]
                    : values[source_of(texel) * level.column_stride +
                             static_cast<uint64_t>(channel / kTile) * level.block_stride + lane];
            store(widened(value), level.scale,
                  texels + texel * static_cast<uint64_t>(args.num_channels) + channel);
        }
        __syncthreads();
    }
}

}  // namespace channels_last

// channels_last_f32, channels_last_f32_to_f16, channels_last_f32_to_i8, channels_last_f16_to_f32,
// channels_last_f16, channels_last_f16_to_i8, channels_last_i8.
#define CHANNELS_LAST(From, To, suffix)                                                      \
    extern "C" __global__ void __launch_bounds__(channels_last::kThreads)                    \
        channels_last_##suffix(const __grid_constant__ channels_last::Args<From, To> args) { \
        channels_last::write(args);                                                          \
    }

CHANNELS_LAST(float, float, f32)
CHANNELS_LAST(float, __half, f32_to_f16)
CHANNELS_LAST(float, int8_t, f32_to_i8)
CHANNELS_LAST(__half, float, f16_to_f32)
CHANNELS_LAST(__half, __half, f16)
CHANNELS_LAST(__half, int8_t, f16_to_i8)
CHANNELS_LAST(int8_t, int8_t, i8)
