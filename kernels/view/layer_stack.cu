// Linear layers that follow each other: layer_stack.cuh, blocks of 16 rows by jobs, and
// layer_stack_folded.cuh, blocks of 8 rows.

#include "view/layer_stack.cuh"
#include "view/layer_stack_folded_steps.cuh"

#define LAYER_STACK(T, name)                                            \
    extern "C" __global__ void __launch_bounds__(layer_stack::kThreads) \
        name(const __grid_constant__ layer_stack::Args<T> args) {       \
        pdl::trigger_of<T>();                                           \
        layer_stack::run(args);                                         \
    }

LAYER_STACK(__half, layer_stack_f16)
LAYER_STACK(float, layer_stack_f32)

// GPUs without bulk copies, or with less shared memory, do not have this kernel; the launcher looks
// for it.
#if HAS_WARPGROUPS
extern "C" __global__ void __launch_bounds__(layer_stack_folded::kThreads, 1)
    layer_stack_folded_f16(const __grid_constant__ layer_stack_folded::Args args) {
    extern __shared__ uint4 bytes[];
    layer_stack_folded::run(args, *reinterpret_cast<layer_stack_folded::Shared*>(bytes));
}
#endif
