// Matrix instructions of warpgroups (wgmma), and rings of shared memory that bulk copies fill.
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

// A place in a ring of stages that one thread fills. A stage is full once its bytes have arrived,
// and empty once every warp has released it.
struct RingPlace {
    uint32_t stage = 0, phase = 0;

    __device__ void advance(uint32_t num_stages) {
        if (++stage == num_stages) stage = 0, phase ^= 1;
    }
};

__device__ inline uint32_t shared_address(const void* at) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

#if HAS_WARPGROUPS
__device__ inline void init_barrier(uint32_t barrier, uint32_t num_arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(num_arrivals));
}
__device__ inline void arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
using barrier::wait;
__device__ inline void copy_bulk(uint32_t to, const void* from, uint32_t num_bytes,
                                 uint32_t barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(num_bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(num_bytes), "r"(barrier)
        : "memory");
}

// What threads have stored in shared memory becomes visible to matrix instructions.
__device__ inline void fence_stores() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <uint32_t kPending>
__device__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// A matrix in shared memory in blocks of 8 rows of 16 bytes, `input_bytes` from one to the next
// along the inputs and `row_bytes` along the rows. Shared addresses have 18 bits: 16 bytes further
// on is 1 more.
__device__ inline uint64_t descriptor_of(uint32_t address, uint32_t input_bytes,
                                         uint32_t row_bytes) {
    return (address & 0x3ffff) >> 4 | static_cast<uint64_t>(input_bytes >> 4) << 16 |
           static_cast<uint64_t>(row_bytes >> 4) << 32;
}
#endif

}  // namespace warpgroup
