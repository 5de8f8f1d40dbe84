// Attention: attention.cuh. Blocks of queries by head, then those of the linear layers.

#include "view/attention_warpgroup.cuh"

#define ATTENTION(T, kHead, kBlocks, name)                                     \
    extern "C" __global__ void __launch_bounds__(attention::kThreads, kBlocks) \
        name(const __grid_constant__ attention::WithLinearArgs<T> args) {      \
        extern __shared__ uint4 shared[];                                      \
        attention::run<T, kHead>(args, reinterpret_cast<uint8_t*>(shared));    \
    }

ATTENTION(__half, 16, 4, attention_16_f16)
ATTENTION(__half, 32, 4, attention_32_f16)
ATTENTION(__half, 64, 2, attention_64_f16)
ATTENTION(float, 16, 3, attention_16_f32)
ATTENTION(float, 32, 3, attention_32_f32)
ATTENTION(float, 64, 3, attention_64_f32)

// GPUs without matrix instructions of warpgroups do not have this kernel; the launcher looks for
// it.
#if HAS_WARPGROUPS
extern "C" __global__ void __launch_bounds__(attention::kWarpgroupThreads, 1)
    attention_warpgroup_64_f16(const __grid_constant__ attention::Args<__half> args) {
    extern __shared__ uint4 shared[];
    pdl::trigger();
    // Tiles begin at multiples of 1024 bytes; an alignment of the array would be one of all
    // kernels.
    auto* start = reinterpret_cast<uint8_t*>(shared);
    start += -warpgroup::shared_address(start) % attention::kTileAlignment;
    pdl::wait();
    attention::Warpgroup(args, *reinterpret_cast<attention::WarpgroupShared*>(start), blockIdx.y,
                         blockIdx.x * attention::kWarpgroupQueries)
        .run();
}
#endif
