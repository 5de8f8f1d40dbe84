// Writes the features of sites to a dense map, and zeros where no site is:
// crates/ops/src/sparse/to_map/mod.rs.
//
// A thread per cell of the map, depth and 32 channels: it looks the cell's row up and
// writes a value per channel. Reads: the rows of the sites. Writes: every value of the map.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "sparse/conv.cuh"
#include "sparse/site_index.cuh"

namespace to_map {

constexpr uint32_t kThreads = 256;
// Channels of a thread.
constexpr uint32_t kChannels = 32;

// The struct in Rust: crates/ops/src/sparse/to_map/kernels.rs.
template <typename From, typename To>
struct Args {
    Slice<const uint8_t> features;  // zeros, then rows
    SiteIndex sites;
    Slice<To> map;  // [batch, channels * depth, rows, columns]
    uint32_t num_channels;
    uint32_t row_stride;  // values of a row of features
    uint32_t batch_size;
    uint32_t num_cells;       // of a scene
    uint32_t size[3];         // depth, rows, columns
    uint32_t cell_stride[3];  // of the grid, from one cell to the next along each
};

template <typename From, typename To>
__device__ void write(const Args<From, To>& args) {
    constexpr uint32_t kWide = 16 / sizeof(From);
    const uint32_t place = blockIdx.x * kThreads + threadIdx.x;
    const uint32_t num_places = args.size[1] * args.size[2];
    if (place >= num_places) return;
    const uint32_t num_parts = (args.num_channels + kChannels - 1) / kChannels;
    const uint32_t first = blockIdx.y % num_parts * kChannels;
    const uint32_t depth = blockIdx.y / num_parts % args.size[0];
    const uint32_t scene = blockIdx.y / num_parts / args.size[0];
    const uint32_t cell = scene * args.num_cells + depth * args.cell_stride[0] +
                          place / args.size[2] * args.cell_stride[1] +
                          place % args.size[2] * args.cell_stride[2];
    const uint32_t row = row_of(args.sites, cell);
    const From* from = reinterpret_cast<const From*>(args.features.data + sparse_conv::kZeroBytes) +
                       static_cast<uint64_t>(row == kNoRow ? 0 : row) * args.row_stride;
    const uint64_t plane = static_cast<uint64_t>(args.size[0]) * num_places;
    To* to =
        args.map.data +
        (static_cast<uint64_t>(scene) * args.num_channels * args.size[0] + depth) * num_places +
        place;
#pragma unroll
    for (uint32_t c = 0; c < kChannels; c += kWide) {
        // Rows are padded to a multiple of 16 channels.
        if (first + c >= args.num_channels) return;
        alignas(16) From wide[kWide];
        uint4 words = {};
        if (row != kNoRow) words = __ldg(reinterpret_cast<const uint4*>(from + first + c));
        *reinterpret_cast<uint4*>(wide) = words;
#pragma unroll
        for (uint32_t i = 0; i < kWide; ++i) {
            if (first + c + i >= args.num_channels) return;
            To value;
            sparse_conv::store(sparse_conv::loaded(wide[i]), &value);
            to[(first + c + i) * plane] = value;
        }
    }
}

}  // namespace to_map

// to_map_f32, to_map_f32_to_f16, to_map_f16, to_map_f16_to_f32, to_map_bf16_to_f16,
// to_map_bf16_to_f32.
#define TO_MAP(From, To, suffix)                                               \
    extern "C" __global__ void __launch_bounds__(to_map::kThreads)             \
        to_map_##suffix(const __grid_constant__ to_map::Args<From, To> args) { \
        to_map::write(args);                                                   \
    }

TO_MAP(float, float, f32)
TO_MAP(float, __half, f32_to_f16)
TO_MAP(__half, __half, f16)
TO_MAP(__half, float, f16_to_f32)
TO_MAP(__nv_bfloat16, __half, bf16_to_f16)
TO_MAP(__nv_bfloat16, float, bf16_to_f32)
