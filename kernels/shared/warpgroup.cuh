// Matrix instructions of warpgroups (wgmma), and the state of a pipeline that bulk copies fill.
#pragma once

#include "shared/barrier.cuh"

// The instructions exist for sm_90a alone.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WARPGROUPS 1
#else
#define HAS_WARPGROUPS 0
#endif

namespace warpgroup {

constexpr uint32_t kThreads = 128;

// The stage of a pipeline that is read or written next, and its phase. One thread, the producer,
// fills stages of shared memory; warps, the consumers, read them. A stage is full once its bytes
// have arrived, and empty once every consumer has released it.
struct PipelineState {
    uint32_t stage = 0, phase = 0;

    __device__ void advance(uint32_t num_stages) {
        if (++stage == num_stages) stage = 0, phase ^= 1;
    }
};

__device__ inline uint32_t shared_address(const void* at) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

#if HAS_WARPGROUPS
// What threads have stored in shared memory becomes visible to matrix instructions.
__device__ inline void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit_group() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <uint32_t kPending>
__device__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// A matrix in shared memory in blocks of 8 rows of 16 bytes, `leading_bytes` from one to the next
// along the inputs and `stride_bytes` along the rows. Shared addresses have 18 bits: 16 bytes
// further on is 1 more.
__device__ inline uint64_t matrix_descriptor(uint32_t address, uint32_t leading_bytes,
                                             uint32_t stride_bytes) {
    return (address & 0x3ffff) >> 4 | static_cast<uint64_t>(leading_bytes >> 4) << 16 |
           static_cast<uint64_t>(stride_bytes >> 4) << 32;
}
#endif

}  // namespace warpgroup
