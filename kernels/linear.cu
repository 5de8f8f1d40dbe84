// Linear layers: linear.cuh.

#include "linear.cuh"

#define LINEAR(T, kTiles, kBlocks, name)                                                     \
    extern "C" __global__ void __launch_bounds__(linear::kThreads, kBlocks) name(            \
        const __grid_constant__ linear::Args<T> args) {                                      \
        extern __shared__ uint4 shared[];                                                    \
        overlap::allow_next_of<T>();                                                         \
        linear::compute_block<T, kTiles>(args, blockIdx.x, blockIdx.y,                       \
                                         reinterpret_cast<uint8_t*>(shared));                \
    }

LINEAR(__half, 1, 6, linear_16_f16)
LINEAR(__half, 2, 5, linear_32_f16)
LINEAR(__half, 4, 4, linear_64_f16)
LINEAR(float, 1, 5, linear_16_f32)
LINEAR(float, 2, 4, linear_32_f32)
LINEAR(float, 4, 3, linear_64_f32)
