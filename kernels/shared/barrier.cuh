// Barriers in shared memory that count arrivals and the bytes of bulk copies (mbarrier), by their
// shared addresses. GPUs of compute capability 9.0 and later have them.
#pragma once

#include <cstdint>

namespace barrier {

__device__ inline void init(uint32_t barrier, uint32_t num_arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(num_arrivals));
}
// Initialized barriers become visible to bulk copies and to the blocks of the cluster.
__device__ inline void fence_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives, and lets the phase end only after so many bytes.
__device__ inline void arrive_expect_tx(uint32_t barrier, uint32_t num_bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(num_bytes)
                 : "memory");
}
// Waits until a phase, 0 or 1 in turn, has ended.
__device__ inline void wait_parity(uint32_t barrier, uint32_t phase) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(barrier),
        "r"(phase)
        : "memory");
}
// A bulk copy from device memory (TMA without a tensor map), whose bytes the barrier counts.
__device__ inline void copy_bulk(uint32_t to, const void* from, uint32_t num_bytes,
                                 uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(num_bytes), "r"(barrier)
        : "memory");
}

}  // namespace barrier
