// Scatters the features of pillars to the pseudo-image: crates/ops/src/cloud/scatter/mod.rs.
//
// Steps, a kernel each:
//   place   a thread per pillar writes the pillar's number to its cell
//   write   a thread per cell writes all channels, those of its pillar or zero, and
//           clears the cell for the next frame
// Reads: the rows of the pillars. Writes: every value of the map.

#include <cuda_fp16.h>

#include "shared/slice.cuh"

namespace scatter {

constexpr uint32_t kThreads = 256;

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

}  // namespace scatter

extern "C" __global__ void __launch_bounds__(scatter::kThreads)
    scatter_place(const __grid_constant__ scatter::PlaceArgs args) {
    const uint32_t voxel = blockIdx.x * scatter::kThreads + threadIdx.x;
    if (voxel >= args.cells.len || voxel >= args.num_voxels[0]) return;
    const uint32_t cell = args.cells[voxel];
    if (cell < args.pillars.len) args.pillars[cell] = voxel + 1;
}

// scatter_write_f32, scatter_write_f16, scatter_write_f32_to_f16, scatter_write_f16_to_f32.
#define SCATTER_WRITE(From, To, suffix)                                                     \
    extern "C" __global__ void __launch_bounds__(scatter::kThreads)                         \
        scatter_write_##suffix(const __grid_constant__ scatter::WriteArgs<From, To> args) { \
        scatter::write(args);                                                               \
    }

SCATTER_WRITE(float, float, f32)
SCATTER_WRITE(__half, __half, f16)
SCATTER_WRITE(float, __half, f32_to_f16)
SCATTER_WRITE(__half, float, f16_to_f32)
