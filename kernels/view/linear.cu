// Linear layers: linear.cuh.

#include "view/linear.cuh"
#include "view/linear_f16.cuh"

#define LINEAR(T, kTiles, kBlocks, name)                                      \
    extern "C" __global__ void __launch_bounds__(linear::kThreads, kBlocks)   \
        name(const __grid_constant__ linear::Args<T> args) {                  \
        extern __shared__ uint4 shared[];                                     \
        pdl::trigger_of<T>();                                                 \
        linear::compute_block<T, kTiles>(args, blockIdx.x, blockIdx.y,        \
                                         reinterpret_cast<uint8_t*>(shared)); \
    }

LINEAR(__half, 1, 6, linear_16_f16)
LINEAR(__half, 2, 5, linear_32_f16)
LINEAR(__half, 4, 4, linear_64_f16)
LINEAR(float, 1, 5, linear_16_f32)
LINEAR(float, 2, 4, linear_32_f32)
LINEAR(float, 4, 3, linear_64_f32)

// Only GPUs with matrix instructions of warpgroups have these kernels; the launcher looks for them.
// Of the last, two blocks of a cluster have half of the inputs each.
#if HAS_WARPGROUPS
#define LINEAR_F16(name, cluster, kNumThreads, kBlocks, ...)                        \
    extern "C" __global__ void cluster __launch_bounds__(kNumThreads, kBlocks)      \
        name(const __grid_constant__ linear_f16::Args args) {                       \
        extern __shared__ uint4 shared[];                                           \
        linear_f16::compute<__VA_ARGS__>(args, reinterpret_cast<uint8_t*>(shared)); \
    }

LINEAR_F16(linear_64x64_f16, , linear_f16::kAllThreads, 2, 4, 1)
LINEAR_F16(linear_64x128_f16, , linear_f16::kAllThreads, 1, 8, 1)
LINEAR_F16(linear_64x64_halves_f16, __cluster_dims__(2, 1, 1), linear_f16::kPlainThreads, 2, 4, 2)
#endif
