// Matrix instructions of warpgroups (wgmma), and the state of a pipeline that bulk copies fill.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "shared/barrier.cuh"

// The instructions exist only for sm_90a.
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

// Adds the product of 64 rows, whose left operand is in registers, and the columns of a matrix in
// shared memory to sums of 32 bits. A lane has the sums of mma.m16n8k16 by 8 columns.
#define WARPGROUP_OPERANDS_16(i)                                                               \
    "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), \
        "+f"(sums[i + 5]), "+f"(sums[i + 6]), "+f"(sums[i + 7]), "+f"(sums[i + 8]),            \
        "+f"(sums[i + 9]), "+f"(sums[i + 10]), "+f"(sums[i + 11]), "+f"(sums[i + 12]),         \
        "+f"(sums[i + 13]), "+f"(sums[i + 14]), "+f"(sums[i + 15])
#define WARPGROUP_OPERANDS_32 WARPGROUP_OPERANDS_16(0), WARPGROUP_OPERANDS_16(16)
#define WARPGROUP_OPERANDS_48 WARPGROUP_OPERANDS_32, WARPGROUP_OPERANDS_16(32)
#define WARPGROUP_OPERANDS_64 WARPGROUP_OPERANDS_48, WARPGROUP_OPERANDS_16(48)
#define WARPGROUP_MULTIPLY_32(TYPE, types)                                                         \
    __device__ inline void multiply(TYPE, float (&sums)[16], const uint32_t (&a)[4], uint64_t b) { \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.ne.b32 p, %21, 0; wgmma.mma_async.sync.aligned.m64n32k16." types  \
            " {"                                                                                   \
            "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"                                \
            "}, {%16,%17,%18,%19}, %20, p, 1, 1, 0;}"                                              \
            : WARPGROUP_OPERANDS_16(0)                                                             \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));                         \
    }
#define WARPGROUP_MULTIPLY_64(TYPE, types)                                                         \
    __device__ inline void multiply(TYPE, float (&sums)[32], const uint32_t (&a)[4], uint64_t b) { \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16." types  \
            " {"                                                                                   \
            "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                               \
            "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"                      \
            "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;}"                                              \
            : WARPGROUP_OPERANDS_32                                                                \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));                         \
    }
#define WARPGROUP_MULTIPLY_96(TYPE, types)                                                         \
    __device__ inline void multiply(TYPE, float (&sums)[48], const uint32_t (&a)[4], uint64_t b) { \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.ne.b32 p, %53, 0; wgmma.mma_async.sync.aligned.m64n96k16." types  \
            " {"                                                                                   \
            "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                               \
            "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"                     \
            "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"                      \
            "}, {%48,%49,%50,%51}, %52, p, 1, 1, 0;}"                                              \
            : WARPGROUP_OPERANDS_48                                                                \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));                         \
    }
#define WARPGROUP_MULTIPLY_128(TYPE, types)                                                        \
    __device__ inline void multiply(TYPE, float (&sums)[64], const uint32_t (&a)[4], uint64_t b) { \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16." types \
            " {"                                                                                   \
            "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                               \
            "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"                     \
            "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                     \
            "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"                      \
            "}, {%64,%65,%66,%67}, %68, p, 1, 1, 0;}"                                              \
            : WARPGROUP_OPERANDS_64                                                                \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));                         \
    }

WARPGROUP_MULTIPLY_32(__half, "f32.f16.f16")
WARPGROUP_MULTIPLY_64(__half, "f32.f16.f16")
WARPGROUP_MULTIPLY_96(__half, "f32.f16.f16")
WARPGROUP_MULTIPLY_128(__half, "f32.f16.f16")
WARPGROUP_MULTIPLY_64(__nv_bfloat16, "f32.bf16.bf16")
WARPGROUP_MULTIPLY_128(__nv_bfloat16, "f32.bf16.bf16")
#endif

}  // namespace warpgroup
