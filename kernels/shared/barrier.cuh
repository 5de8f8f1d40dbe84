// Barriers in shared memory that count arrivals and the bytes of bulk copies (mbarrier). GPUs of
// compute capability 9.0 and later have them.
#pragma once

#include <cstdint>

namespace barrier {

// Waits until a phase, 0 or 1 in turn, has ended.
__device__ inline void wait(uint32_t barrier, uint32_t phase) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(barrier),
        "r"(phase)
        : "memory");
}

}  // namespace barrier
