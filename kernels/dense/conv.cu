// Convolutions and products of matrices: conv.cuh. f16 by matrix instructions: conv_f16.cuh, and
// conv_warpgroup.cuh. Sums in the order of the contract, and depthwise: conv_exact.cuh.

#include "dense/conv_exact.cuh"
#include "dense/conv_f16.cuh"
#include "dense/conv_warpgroup.cuh"

// `kBlocks` bounds the registers, which go by 8 a thread, so that so many blocks are resident.
// Names: pixels x columns of a tile x warps along the products; `whole` has all weights at once,
// `gather` reads any map, `window` any map and any matrix in place of weights.
#define DENSE_CONV_F16(name, kIsVector, kHasWeights, kIsWhole, kBlocks, ...)                   \
    extern "C" __global__ void __launch_bounds__(dense_conv::Shape<__VA_ARGS__>::kThreads,     \
                                                 kBlocks)                                      \
        name(const __grid_constant__ dense_conv::Args args) {                                  \
        extern __shared__ uint4 shared[];                                                      \
        dense_conv::compute<dense_conv::Shape<__VA_ARGS__>, kIsVector, kHasWeights, kIsWhole>( \
            args, reinterpret_cast<uint8_t*>(shared));                                         \
    }

DENSE_CONV_F16(dense_conv_128x128x2_f16, true, true, false, 1, 128, 128, 2, 4, 2, 4, 3)
DENSE_CONV_F16(dense_conv_128x64x2_f16, true, true, false, 2, 128, 64, 2, 2, 2, 4, 4)
DENSE_CONV_F16(dense_conv_128x32x2_f16, true, true, false, 4, 128, 32, 2, 1, 2, 4, 4)
DENSE_CONV_F16(dense_conv_128x16x2_f16, true, true, false, 3, 128, 16, 2, 1, 2, 4, 4)
DENSE_CONV_F16(dense_conv_64x64x2_f16, true, true, false, 3, 64, 64, 2, 2, 2, 4, 4)
DENSE_CONV_F16(dense_conv_64x32x2_f16, true, true, false, 4, 64, 32, 2, 1, 2, 4, 4)
DENSE_CONV_F16(dense_conv_64x64x4_f16, true, true, false, 1, 64, 64, 2, 2, 4, 8, 3)
DENSE_CONV_F16(dense_conv_64x32x4_f16, true, true, false, 3, 64, 32, 2, 1, 4, 8, 3)
DENSE_CONV_F16(dense_conv_32x64x4_f16, true, true, false, 3, 32, 64, 1, 2, 4, 8, 3)
DENSE_CONV_F16(dense_conv_32x32x4_f16, true, true, false, 4, 32, 32, 1, 1, 4, 8, 3)
DENSE_CONV_F16(dense_conv_32x16x4_f16, true, true, false, 4, 32, 16, 1, 1, 4, 8, 3)
DENSE_CONV_F16(dense_conv_whole_64x64x4_f16, true, true, true, 1, 64, 64, 2, 2, 4, 8, 3)
DENSE_CONV_F16(dense_conv_whole_64x32x4_f16, true, true, true, 2, 64, 32, 2, 1, 4, 8, 3)
DENSE_CONV_F16(dense_conv_whole_32x64x4_f16, true, true, true, 2, 32, 64, 1, 2, 4, 8, 3)
DENSE_CONV_F16(dense_conv_whole_32x32x4_f16, true, true, true, 4, 32, 32, 1, 1, 4, 8, 3)
DENSE_CONV_F16(dense_conv_whole_32x16x4_f16, true, true, true, 4, 32, 16, 1, 1, 4, 8, 3)
DENSE_CONV_F16(dense_conv_gather_128x32x1_f16, false, true, false, 4, 128, 32, 4, 1, 1, 4, 3)
DENSE_CONV_F16(dense_conv_gather_128x16x1_f16, false, true, false, 4, 128, 16, 4, 1, 1, 4, 3)
DENSE_CONV_F16(dense_conv_gather_128x32x2_f16, false, true, false, 2, 128, 32, 2, 1, 2, 4, 3)
DENSE_CONV_F16(dense_conv_gather_128x16x2_f16, false, true, false, 2, 128, 16, 2, 1, 2, 4, 3)
DENSE_CONV_F16(dense_conv_gather_32x32x4_f16, false, true, false, 2, 32, 32, 1, 1, 4, 8, 3)
DENSE_CONV_F16(dense_conv_window_64x64x2_f16, false, false, false, 2, 64, 64, 2, 2, 2, 4, 3)
DENSE_CONV_F16(dense_conv_window_32x32x4_f16, false, false, false, 2, 32, 32, 1, 1, 4, 8, 3)

// Names: pixels x columns of a tile. Other GPUs do not have these kernels; the launcher looks for
// them.
#if HAS_WARPGROUPS
#define DENSE_CONV_WARPGROUP(name, kBlocks, ...)                                 \
    extern "C" __global__ void __launch_bounds__(                                \
        dense_conv::WarpgroupShape<__VA_ARGS__>::kThreads, kBlocks)              \
        name(const __grid_constant__ dense_conv::Args args) {                    \
        extern __shared__ uint4 shared[];                                        \
        dense_conv::compute_warpgroups<dense_conv::WarpgroupShape<__VA_ARGS__>>( \
            args, reinterpret_cast<uint8_t*>(shared));                           \
    }
#else
#define DENSE_CONV_WARPGROUP(name, kBlocks, ...)
#endif

DENSE_CONV_WARPGROUP(dense_conv_warpgroup_128x32_f16, 3, 32, 8)
DENSE_CONV_WARPGROUP(dense_conv_warpgroup_128x64_f16, 2, 64, 8)
DENSE_CONV_WARPGROUP(dense_conv_warpgroup_128x96_f16, 2, 96, 5)
DENSE_CONV_WARPGROUP(dense_conv_warpgroup_128x128_f16, 2, 128, 5)

// Names: pixels x columns of a tile.
#define DENSE_CONV_EXACT(name, kBlocks, ...)                                                    \
    extern "C" __global__ void __launch_bounds__(dense_conv::ExactShape<__VA_ARGS__>::kThreads, \
                                                 kBlocks)                                       \
        name(const __grid_constant__ dense_conv::Args args) {                                   \
        dense_conv::compute_exact<dense_conv::ExactShape<__VA_ARGS__>>(args);                   \
    }

DENSE_CONV_EXACT(dense_conv_exact_64x64, 4, 64, 64, 8)
DENSE_CONV_EXACT(dense_conv_exact_32x32, 8, 32, 32, 4)
DENSE_CONV_EXACT(dense_conv_exact_64x16, 8, 64, 16, 4)

extern "C" __global__ void __launch_bounds__(dense_conv::kDepthwiseThreads)
    dense_conv_depthwise(const __grid_constant__ dense_conv::Args args) {
    dense_conv::compute_depthwise(args);
}
