// Copies to shared memory, and products of rows there with weights by one warp: 16 columns of
// `kTiles` times 16 rows. The order of the sums is in linear.cuh.
#pragma once

#include "view/refine.cuh"

namespace linear {

// Columns of a warp.
constexpr uint32_t kWarpColumns = 16;

__device__ inline void copy_async(void* to, const void* from, bool exists = true) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(exists ? 16 : 0)
                 : "memory");
}
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Sums of a warp: for each 16 rows, in two groups of columns, those of the rows lane / 4 and
// + 8; a lane has the columns 4 (lane % 4) to + 3.
template <uint32_t kTiles>
using Sums = float[kTiles][2][4];

__device__ inline void multiply(float (&sums)[4], uint4 a, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
        " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// Adds the products of `num_inputs` inputs to the sums.
template <uint32_t kTiles>
__device__ void multiply_rows(const __half* rows, uint32_t pitch, const uint4* weights,
                              uint32_t num_inputs, Sums<kTiles>& sums) {
    const uint32_t lane = lane_of();
    uint32_t at =
        static_cast<uint32_t>(__cvta_generic_to_shared(rows + (lane % 16) * pitch + lane / 16 * 8));
    weights += lane;
    const uint4* end = weights + num_inputs / 16 * kLanes;
#pragma unroll 4
    for (; weights < end; weights += kLanes, at += 32) {
        const uint4 w = *weights;
#pragma unroll
        for (uint32_t m = 0; m < kTiles; ++m) {
            uint4 a;
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w)
                         : "r"(at + m * 16 * pitch * 2));
            multiply(sums[m][0], a, w.x, w.y);
            multiply(sums[m][1], a, w.z, w.w);
        }
    }
}

template <uint32_t kTiles>
__device__ void multiply_rows(const float* rows, uint32_t pitch, const uint4* weights,
                              uint32_t num_inputs, Sums<kTiles>& sums) {
    rows += lane_of() / 4 * pitch;
    weights += lane_of() % 4;
#pragma unroll 1
    for (uint32_t i = 0; i < num_inputs; i += 4, rows += 4, weights += kWarpColumns) {
        float4 x[2 * kTiles], w[4];
#pragma unroll
        for (uint32_t m = 0; m < 2 * kTiles; ++m)
            x[m] = *reinterpret_cast<const float4*>(rows + m * 8 * pitch);
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k)
            w[k] = reinterpret_cast<const float4*>(weights)[k * (kWarpColumns / 4)];
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            const float columns[4] = {w[k].x, w[k].y, w[k].z, w[k].w};
#pragma unroll
            for (uint32_t m = 0; m < 2 * kTiles; ++m) {
                const float value = k == 0 ? x[m].x : k == 1 ? x[m].y : k == 2 ? x[m].z : x[m].w;
#pragma unroll
                for (uint32_t c = 0; c < 4; ++c) {
                    float& sum = sums[m / 2][c / 2][m % 2 * 2 + c % 2];
                    sum = fmaf(value, columns[c], sum);
                }
            }
        }
    }
}

}  // namespace linear
