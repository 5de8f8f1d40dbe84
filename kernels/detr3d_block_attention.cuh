// Attention of 8 or 16 queries over all keys, by a thread block: a warp has a head and a part of the keys.
#pragma once

#include "attention.cuh"
#include "detr3d_block_product.cuh"

namespace detr3d_block {

// Channels of a head.
constexpr uint32_t kHeadLen = 32;

// Four neighbouring channels of a query: those of the thread in a step. `parts` has rows of sums
// as a step; `of_parts` the maximum and the total of each part, head and query.
template <uint32_t kRows>
__device__ float4 attend(const attention::Args<__half>& args, uint32_t first_head, uint32_t first_query, float* parts, float2* of_parts) {
    using P = Product<kRows>;
    constexpr uint32_t kHeads = P::kColumns / kHeadLen, kParts = kWarps / kHeads;
    const uint32_t head = warp_of() % kHeads, part = warp_of() / kHeads;
    // A tile has 16 queries; those past the cluster's are not used.
    attention::Fast<kHeadLen, 1> warp;
    warp.run(args, first_head + head, first_query, part, kParts);
#pragma unroll
    for (uint32_t h = 0; h < kRows / 8; ++h) {
        const uint32_t query = h * 8 + lane_of() / 4;
        float total = warp.total[0][h];
        total += __shfl_xor_sync(kAllLanes, total, 1);
        total += __shfl_xor_sync(kAllLanes, total, 2);
        if (lane_of() % 4 == 0) of_parts[(part * kHeads + head) * kRows + query] = make_float2(warp.maximum[0][h], total);
#pragma unroll
        for (uint32_t d = 0; d < kHeadLen / 8; ++d) {
            *reinterpret_cast<float2*>(parts + part * P::kPartLen + query * P::kSumPitch + head * kHeadLen + d * 8 + lane_of() % 4 * 2) =
                make_float2(warp.sums[0][d][2 * h], warp.sums[0][d][2 * h + 1]);
        }
    }
    __syncthreads();
    constexpr uint32_t kRowThreads = P::kColumns / 4;
    const uint32_t query = threadIdx.x / kRowThreads, column = threadIdx.x % kRowThreads * 4;
    if (query >= kRows) return {};
    float largest = -INFINITY, all = 0;
    const float2* of = of_parts + column / kHeadLen * kRows + query;
#pragma unroll
    for (uint32_t p = 0; p < kParts; ++p) largest = fmaxf(largest, of[p * kHeads * kRows].x);
    float4 sum = {};
#pragma unroll
    for (uint32_t p = 0; p < kParts; ++p) {
        const float2 of_part = of[p * kHeads * kRows];
        const float weight = attention::exp2_fast((of_part.x - largest) * args.scale);
        all += of_part.y * weight;
        const float4 v = *reinterpret_cast<const float4*>(parts + p * P::kPartLen + query * P::kSumPitch + column);
        sum.x = fmaf(v.x, weight, sum.x), sum.y = fmaf(v.y, weight, sum.y);
        sum.z = fmaf(v.z, weight, sum.z), sum.w = fmaf(v.w, weight, sum.w);
    }
    const float inverse = 1.0f / all;
    return make_float4(sum.x * inverse, sum.y * inverse, sum.z * inverse, sum.w * inverse);
}

}  // namespace detr3d_block
