// Sparse convolution: crates/ops/src/sparse/conv/mod.rs. Output-stationary: a warp sums all
// taps of its output rows in registers and writes them once; nothing is atomic.
//
// f16, bf16, tf32: matrix instructions. A warp has tiles of 16 rows, and 16, 32 or 64 output
// channels. Features go from the gathered rows straight to registers: a lane loads 16
// neighbouring bytes of a row, and the weights are packed in the order of channels that this
// gives. Taps that no tile has are skipped. An absent row of a tap is zero; weights are
// finite, so that its products are zero.
//
// GPUs of compute capability 9.0 have matrix instructions of four warps: there 64 and 128
// output channels in 16 bits take kernels of their own (`warpgroup`).
//
// f32: `sum = fma(x, w, sum)` over taps and channels ascending, as on the CPU. Only pairs of an
// output row and an input row are multiplied.
//
// The number of rows is read on the device. Blocks and warps share tiles or rows evenly.

#include "sparse/conv_exact.cuh"
#include "sparse/conv_features.cuh"
#include "sparse/conv_resident.cuh"
#include "sparse/conv_staged.cuh"
#include "sparse/conv_warpgroup.cuh"

#define SPARSE_CONV_RESIDENT(T, kWords, kChannels, kDepth, kBlocks, name)        \
    extern "C" __global__ void __launch_bounds__(sparse_conv::kThreads, kBlocks) \
        name(const __grid_constant__ sparse_conv::Args args) {                   \
        sparse_conv::resident<T, kWords, kChannels / 16, kDepth>(args);          \
    }

#define SPARSE_CONV_STAGED(T, kChannels, kColumns, name)                   \
    extern "C" __global__ void __launch_bounds__(sparse_conv::kThreads, 1) \
        name(const __grid_constant__ sparse_conv::Args args) {             \
        sparse_conv::staged<T, kChannels / 16 / kColumns, kColumns>(args); \
    }

// Other GPUs do not have these kernels; the launcher looks for them.
#if HAS_WARPGROUPS
#define SPARSE_CONV_WARPGROUP(T, kChannels, name)                                                 \
    extern "C" __global__ void __launch_bounds__(sparse_conv::WarpgroupTile<kChannels>::kThreads, \
                                                 1)                                               \
        name(const __grid_constant__ sparse_conv::Args args) {                                    \
        sparse_conv::warpgroups<T, kChannels>(args);                                              \
    }
#else
#define SPARSE_CONV_WARPGROUP(T, kChannels, name)
#endif

#define SPARSE_CONV_F32(kChannels, kBlocks, name)                                   \
    extern "C" __global__ void __launch_bounds__(sparse_conv::kF32Threads, kBlocks) \
        name(const __grid_constant__ sparse_conv::Args args) {                      \
        sparse_conv::exact<kChannels>(args);                                        \
    }

// Each with _f16 and _bf16.
#define SPARSE_CONV_16_BITS(T, suffix)                                            \
    SPARSE_CONV_RESIDENT(T, 2, 16, 2, 4, sparse_conv_resident_narrow_16_##suffix) \
    SPARSE_CONV_RESIDENT(T, 2, 32, 3, 2, sparse_conv_resident_narrow_32_##suffix) \
    SPARSE_CONV_RESIDENT(T, 4, 16, 3, 2, sparse_conv_resident_16_##suffix)        \
    SPARSE_CONV_RESIDENT(T, 4, 32, 3, 2, sparse_conv_resident_32_##suffix)        \
    SPARSE_CONV_STAGED(T, 16, 1, sparse_conv_staged_16_##suffix)                  \
    SPARSE_CONV_STAGED(T, 32, 1, sparse_conv_staged_32_##suffix)                  \
    SPARSE_CONV_STAGED(T, 64, 1, sparse_conv_staged_64_##suffix)                  \
    SPARSE_CONV_STAGED(T, 128, 2, sparse_conv_staged_128_##suffix)                \
    SPARSE_CONV_WARPGROUP(T, 64, sparse_conv_warpgroup_64_##suffix)               \
    SPARSE_CONV_WARPGROUP(T, 128, sparse_conv_warpgroup_128_##suffix)

SPARSE_CONV_16_BITS(__half, f16)
SPARSE_CONV_16_BITS(__nv_bfloat16, bf16)
SPARSE_CONV_RESIDENT(sparse_conv::Tf32, 4, 16, 3, 2, sparse_conv_resident_16_tf32)
SPARSE_CONV_RESIDENT(sparse_conv::Tf32, 4, 32, 3, 2, sparse_conv_resident_32_tf32)
SPARSE_CONV_STAGED(sparse_conv::Tf32, 16, 1, sparse_conv_staged_16_tf32)
SPARSE_CONV_STAGED(sparse_conv::Tf32, 32, 1, sparse_conv_staged_32_tf32)
SPARSE_CONV_STAGED(sparse_conv::Tf32, 64, 1, sparse_conv_staged_64_tf32)
SPARSE_CONV_F32(16, sparse_conv::kF32NarrowBlocks, sparse_conv_16_f32)
SPARSE_CONV_F32(32, 1, sparse_conv_32_f32)
SPARSE_CONV_F32(64, 1, sparse_conv_64_f32)
SPARSE_CONV_F32(128, 1, sparse_conv_128_f32)

// sparse_conv_input_* and sparse_conv_add_*: _f32, _f16 and _bf16.
#define SPARSE_CONV_FEATURES(E, kParts, suffix)                                           \
    extern "C" __global__ void __launch_bounds__(sparse_conv::kFeatureThreads)            \
        sparse_conv_input_##suffix(const __grid_constant__ sparse_conv::InputArgs args) { \
        sparse_conv::input<E, kParts>(args);                                              \
    }                                                                                     \
    extern "C" __global__ void __launch_bounds__(sparse_conv::kFeatureThreads)            \
        sparse_conv_add_##suffix(const __grid_constant__ sparse_conv::AddArgs args) {     \
        sparse_conv::add<E>(args);                                                        \
    }

SPARSE_CONV_FEATURES(float, 1, f32)
SPARSE_CONV_FEATURES(__half, 2, f16)
SPARSE_CONV_FEATURES(__nv_bfloat16, 3, bf16)
