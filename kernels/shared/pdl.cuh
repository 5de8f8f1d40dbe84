// Launches that overlap: the next begins while this one runs, and waits where it needs the results.
// GPUs of compute capability 9.0 and later can; on others, and where a launch does not ask for it,
// these do nothing.
#pragma once

namespace overlap {

// Lets the next launch begin.
__device__ inline void allow_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// The same in kernels for `T`. Launches in f32 have more blocks than are resident at once, and
// those of the next launch would take their places.
template <typename T>
__device__ void allow_next_of() {
    if constexpr (sizeof(T) == 2) allow_next();
}
// Waits until the launches before have ended.
__device__ inline void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace overlap
