// Linear layers that follow each other, by clusters: layer_chain.cuh.

#include "layer_chain_steps.cuh"

// GPUs without clusters or matrix instructions of warpgroups do not have these kernels; the launcher
// looks for them.
#if HAS_WARPGROUPS
#define LAYER_CHAIN(kRows, name)                                                            \
    extern "C" __global__ void __cluster_dims__(layer_chain::kBlocks, 1, 1)                 \
        __launch_bounds__(layer_chain::kThreads, 1) name(                                   \
            const __grid_constant__ layer_chain::Args args) {                               \
        extern __shared__ uint4 bytes[];                                                    \
        auto& shared = *reinterpret_cast<layer_chain::Shared<kRows>*>(bytes);               \
        layer_chain::Chain<kRows>(args, shared).run();                                      \
    }

LAYER_CHAIN(16, layer_chain_16_f16)
LAYER_CHAIN(24, layer_chain_24_f16)
LAYER_CHAIN(32, layer_chain_32_f16)
#endif
