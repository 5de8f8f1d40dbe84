// Programmatic dependent launch: the next launch begins while this one runs, and waits where it
// needs the results. GPUs of compute capability 9.0 and later can; on others, and where a launch
// does not ask for it, these do nothing.
#pragma once

namespace pdl {

// Lets the next launch begin once every block has called this or ended.
__device__ inline void trigger() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}
// The same in kernels for `T`. Launches in f32 have more blocks than are resident at once, and
// those of the next launch would take their places.
template <typename T>
__device__ void trigger_of() {
    if constexpr (sizeof(T) == 2) trigger();
}
// Waits until the launches before have ended and their writes are visible.
__device__ inline void wait() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

}  // namespace pdl
