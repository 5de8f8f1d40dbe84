// Linear layers: linear_split.cuh in f16, linear.cuh in f32.

#include "linear_split.cuh"

#define LINEAR_F16(kTiles, kParts, kBlocks, name)                                                                \
    extern "C" __global__ void __launch_bounds__(linear::Split<kTiles, kParts>::kSplitThreads, kBlocks) name(    \
        const __grid_constant__ linear::Args<__half> args) {                                                     \
        extern __shared__ uint4 shared[];                                                                        \
        linear::Split<kTiles, kParts>::compute_block(args, blockIdx.x, blockIdx.y, reinterpret_cast<uint8_t*>(shared)); \
    }

#define LINEAR_F32(kTiles, kBlocks, name)                                                    \
    extern "C" __global__ void __launch_bounds__(linear::kThreads, kBlocks) name(            \
        const __grid_constant__ linear::Args<float> args) {                                  \
        extern __shared__ uint4 shared[];                                                    \
        linear::compute_block<float, kTiles>(args, blockIdx.x, blockIdx.y,                   \
                                             reinterpret_cast<uint8_t*>(shared));            \
    }

LINEAR_F16(1, linear::kParts16, 1, linear_16_f16)
LINEAR_F16(2, linear::kParts32, 1, linear_32_f16)
LINEAR_F16(4, linear::kParts64, 2, linear_64_f16)
LINEAR_F32(1, 5, linear_16_f32)
LINEAR_F32(2, 4, linear_32_f32)
LINEAR_F32(4, 3, linear_64_f32)
