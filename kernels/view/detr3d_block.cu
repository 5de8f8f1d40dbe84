// Blocks of a DETR3D decoder: detr3d_block.cuh.

#include "view/detr3d_block_steps.cuh"

// GPUs without clusters do not have these kernels; the launcher looks for them.
#if HAS_CLUSTERS
#define DETR3D_BLOCK(M, kRows, name)                                                            \
    extern "C" __global__ void __cluster_dims__(detr3d_block::kBlocks, 1, 1) __launch_bounds__( \
        detr3d_block::kThreads, 1) name(const __grid_constant__ detr3d_block::Args args) {      \
        extern __shared__ uint4 bytes[];                                                        \
        auto& shared = *reinterpret_cast<detr3d_block::Shared<kRows>*>(bytes);                  \
        detr3d_block::Block<M, kRows>(args, shared).run();                                      \
    }

DETR3D_BLOCK(__half, 8, detr3d_block_8_f16)
DETR3D_BLOCK(int8_t, 8, detr3d_block_8_f16_i8)
DETR3D_BLOCK(__half, 16, detr3d_block_16_f16)
DETR3D_BLOCK(int8_t, 16, detr3d_block_16_f16_i8)
#endif
