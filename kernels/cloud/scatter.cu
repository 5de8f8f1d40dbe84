// Scatters the features of pillars to the pseudo-image: crates/ops/src/cloud/scatter/mod.rs.
//
// Steps, a kernel each:
//   place   a thread per pillar writes the pillar's number to its cell
//   write   a thread per cell writes all channels, those of its pillar or zero, and
//           clears the cell for the next frame
//   rows    the same with channels last: a thread per 8 channels of a cell
// Reads: the rows of the pillars. Writes: every value of the map.

#include <cuda_fp16.h>

#include "shared/slice.cuh"

namespace scatter {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kCellsPerBlock = 128;   // of rows
constexpr uint32_t kChannelsPerThread = 8; // of rows

// The structs in Rust: crates/ops/src/cloud/scatter/kernels.rs.
struct PlaceArgs {
    Slice<const uint32_t> cells;
    Slice<const uint32_t> num_voxels;
    Slice<uint32_t> pillars;  // by cell: the index of its pillar plus 1; 0: none
};

template <typename From, typename To>
struct WriteArgs {
    Slice<const From> features;
    Slice<uint32_t> pillars;
    Slice<To> map;
    uint32_t num_rows;
    uint32_t num_cells;
    uint32_t num_channels;
    uint32_t reserved;
};

__device__ inline void convert(float from, float& to) { to = from; }
__device__ inline void convert(__half from, __half& to) { to = from; }
__device__ inline void convert(float from, __half& to) { to = __float2half_rn(from); }
__device__ inline void convert(__half from, float& to) { to = __half2float(from); }

template <typename From, typename To>
__device__ void write(const WriteArgs<From, To>& args) {
    constexpr uint32_t kWide = 16 / sizeof(From);
    const uint32_t cell = blockIdx.x * kThreads + threadIdx.x;
    if (cell >= args.num_cells) return;
    uint32_t pillar = args.pillars[cell];
    if (pillar != 0) args.pillars[cell] = 0;
    if (pillar > args.num_rows) pillar = 0;
    const uint32_t num_channels = args.num_channels;
    const uint64_t voxel = pillar == 0 ? 0 : pillar - 1;
    const From* row = args.features.data + voxel * num_channels;
    To* out = args.map.data + cell;
    if (num_channels % kWide != 0) {
        for (uint32_t c = 0; c < num_channels; ++c) {
            To value = To(0.0f);
            if (pillar != 0) convert(row[c], value);
            out[static_cast<uint64_t>(c) * args.num_cells] = value;
        }
        return;
    }
    for (uint32_t c = 0; c < num_channels; c += kWide) {
        alignas(16) From wide[kWide];
        uint4 words = {};
        if (pillar != 0) words = *reinterpret_cast<const uint4*>(row + c);
        *reinterpret_cast<uint4*>(wide) = words;
#pragma unroll
        for (uint32_t i = 0; i < kWide; ++i) {
            To value;
            convert(wide[i], value);
            out[static_cast<uint64_t>(c + i) * args.num_cells] = value;
        }
    }
}

template <typename From, typename To>
__device__ void write_rows(const WriteArgs<From, To>& args) {
    __shared__ uint32_t pillars[kCellsPerBlock];
    const uint32_t first = blockIdx.x * kCellsPerBlock;
    const uint32_t num_cells = min(kCellsPerBlock, args.num_cells - first);
    // Several threads write a cell: all read its pillar before it is cleared.
    if (threadIdx.x < num_cells) {
        const uint32_t pillar = args.pillars[first + threadIdx.x];
        if (pillar != 0) args.pillars[first + threadIdx.x] = 0;
        pillars[threadIdx.x] = pillar > args.num_rows ? 0 : pillar;
    }
    __syncthreads();
    const uint32_t threads_per_cell = args.num_channels / kChannelsPerThread;
    To* out = args.map.data + static_cast<uint64_t>(first) * args.num_channels;
    for (uint32_t i = threadIdx.x; i < num_cells * threads_per_cell; i += kThreads) {
        const uint32_t pillar = pillars[i / threads_per_cell];
        const uint32_t channel = i % threads_per_cell * kChannelsPerThread;
        alignas(16) To values[kChannelsPerThread] = {};
        if (pillar != 0) {
            const From* row =
                args.features.data + static_cast<uint64_t>(pillar - 1) * args.num_channels + channel;
            alignas(16) From read[kChannelsPerThread];
#pragma unroll
            for (uint32_t word = 0; word < sizeof(read) / 16; ++word) {
                reinterpret_cast<uint4*>(read)[word] = reinterpret_cast<const uint4*>(row)[word];
            }
#pragma unroll
            for (uint32_t c = 0; c < kChannelsPerThread; ++c) convert(read[c], values[c]);
        }
#pragma unroll
        for (uint32_t word = 0; word < sizeof(values) / 16; ++word) {
            reinterpret_cast<uint4*>(out + i * kChannelsPerThread)[word] =
                reinterpret_cast<const uint4*>(values)[word];
        }
    }
}

}  // namespace scatter

extern "C" __global__ void __launch_bounds__(scatter::kThreads)
    scatter_place(const __grid_constant__ scatter::PlaceArgs args) {
    const uint32_t voxel = blockIdx.x * scatter::kThreads + threadIdx.x;
    if (voxel >= args.cells.len || voxel >= args.num_voxels[0]) return;
    const uint32_t cell = args.cells[voxel];
    if (cell < args.pillars.len) args.pillars[cell] = voxel + 1;
}

// scatter_write_f32, scatter_write_f16, scatter_write_f32_to_f16, scatter_write_f16_to_f32; scatter_rows_ likewise.
#define SCATTER_WRITE(From, To, suffix)                                                     \
    extern "C" __global__ void __launch_bounds__(scatter::kThreads)                         \
        scatter_write_##suffix(const __grid_constant__ scatter::WriteArgs<From, To> args) { \
        scatter::write(args);                                                               \
    }                                                                                       \
    extern "C" __global__ void __launch_bounds__(scatter::kThreads)                         \
        scatter_rows_##suffix(const __grid_constant__ scatter::WriteArgs<From, To> args) {  \
        scatter::write_rows(args);                                                          \
    }

SCATTER_WRITE(float, float, f32)
SCATTER_WRITE(__half, __half, f16)
SCATTER_WRITE(float, __half, f32_to_f16)
SCATTER_WRITE(__half, float, f16_to_f32)
