// Linear layers that follow each other: layer_stack.cuh. Blocks of 16 rows by jobs.

#include "layer_stack.cuh"

#define LAYER_STACK(T, name)                                                        \
    extern "C" __global__ void __launch_bounds__(layer_stack::kThreads) name(       \
        const __grid_constant__ layer_stack::Args<T> args) {                        \
        overlap::allow_next_of<T>();                                                \
        layer_stack::run(args);                                                     \
    }

LAYER_STACK(__half, layer_stack_f16)
LAYER_STACK(float, layer_stack_f32)
