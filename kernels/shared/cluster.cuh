// Operations of a cluster: blocks that run at the same time and write to each other's shared
// memory. GPUs of compute capability 9.0 and later have them.
#pragma once

#include "shared/barrier.cuh"

// Kernels that call these functions are compiled only for such GPUs.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define HAS_CLUSTERS 1
#else
#define HAS_CLUSTERS 0
#endif

namespace cluster {

// The index of this block in its cluster.
__device__ inline uint32_t rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The barrier of all threads of the cluster. It waits for memory: once a launch is often enough.
__device__ inline void arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Barriers in shared memory that count the bytes which the blocks of the cluster store here.
// Two take turns: a block can be ahead of another by one.
struct Inbox {
    uint32_t barriers;  // the address of two, 8 bytes each
    uint32_t count = 0;

    __device__ explicit Inbox(void* at)
        : barriers(static_cast<uint32_t>(__cvta_generic_to_shared(at))) {}

    // By one thread, before the cluster's barrier.
    __device__ void init() const {
        barrier::init(barriers, 1);
        barrier::init(barriers + 8, 1);
        barrier::fence_init();
    }
    __device__ uint32_t current() const { return barriers + count % 2 * 8; }
    // By all threads: waits until so many bytes have come.
    __device__ void receive(uint32_t num_bytes) {
        if (threadIdx.x == 0) {
            barrier::arrive_expect_tx(current(), num_bytes);
        }
        barrier::wait_parity(current(), count / 2 % 2);
        ++count;
    }
    // Stores 16 bytes at the place of this block's `address` in the block `rank`, and counts them
    // there.
    __device__ void send(uint32_t address, uint32_t rank, uint4 value) const {
        send_to(address, offset_of(rank), value);
    }
    // From an address of this block to the same of the block `rank`.
    __device__ uint32_t offset_of(uint32_t rank) const {
        uint32_t remote;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                     : "=r"(remote)
                     : "r"(barriers), "r"(rank));
        return remote - barriers;
    }
    __device__ void send_to(uint32_t address, uint32_t offset, uint4 value) const {
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32"
            " [%0], {%1,%2,%3,%4}, [%5];" ::"r"(address + offset),
            "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(current() + offset)
            : "memory");
    }
};

}  // namespace cluster
