// Attention of 8 or 16 queries over all keys, by a thread block: a warp has a head and a part of
// the keys.
#pragma once

#include "view/attention.cuh"
#include "view/detr3d_block_product.cuh"

namespace detr3d_block {

// Channels of a head.
constexpr uint32_t kHeadLen = 32;
// Keys and values of all heads, 32 keys at a time: of each head a row of channels per key, in the
// order of `row_of_key`, then a row of keys per channel. The lanes of a warp read 512 bytes side by
// side.
constexpr uint32_t kTileKeys = attention::kKeys;
constexpr uint32_t kHeadKeysLen = kTileKeys * kHeadLen;
constexpr uint32_t kHeadTileLen = 2 * kHeadKeysLen;

// A lane of the matrix instruction has columns 2 t and 2 t + 1 of the scores of each 8 rows, and 8
// keys side by side of the values.
__device__ inline uint32_t row_of_key(uint32_t key) {
    return key % 8 / 2 * 8 + key / 8 * 2 + key % 2;
}

struct Attention {
    Slice<const __half> queries;  // a row per query, heads side by side
    Slice<const __half> keys_values;
    uint32_t num_queries;
    float scale;  // of the scores, to the base 2
};

// A part of the keys of a head: every `num_parts`-th tile from `part` on.
template <uint32_t kRows>
struct HeadPart : attention::Fast<kHeadLen, 1, kRows / 8> {
    using Base = attention::Fast<kHeadLen, 1, kRows / 8>;
    using Base::keys, Base::values;

    __device__ void load_keys(const uint4* tile) {
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            const uint4 v = tile[j * kLanes];
            keys[j][0][0] = v.x, keys[j][0][1] = v.y, keys[j][1][0] = v.z, keys[j][1][1] = v.w;
        }
    }
    __device__ void load_values(const uint4* tile) {
#pragma unroll
        for (uint32_t d = 0; d < Base::kTiles; ++d) values[d] = tile[(4 + d) * kLanes];
    }

    __device__ void run(const Attention& args, uint32_t head, uint32_t num_heads,
                        uint32_t first_query, uint32_t part, uint32_t num_parts) {
        this->load_queries(args.queries.data + head * kHeadLen, num_heads * kHeadLen, kHeadLen,
                           first_query, args.num_queries);
        uint32_t first = part * kTileKeys;
        if (first >= args.num_queries) return;
        const auto* tile = reinterpret_cast<const uint4*>(
                               args.keys_values.data + (part * num_heads + head) * kHeadTileLen) +
                           lane_of();
        const uint32_t stride = num_parts * num_heads * kHeadTileLen / 8;
        load_keys(tile);
        load_values(tile);
        for (; first < args.num_queries; first += num_parts * kTileKeys) {
            tile += stride;
            const bool has_next = first + num_parts * kTileKeys < args.num_queries;
            this->add_group(first, args.num_queries, args.scale, [&] {
                if (has_next) load_keys(tile);
            });
            if (has_next) load_values(tile);
        }
    }
};

// Four neighbouring channels of a query: those of the thread in a step. `parts` has rows of sums
// as a step; `of_parts` the maximum and the total of each part, head and query.
template <uint32_t kRows>
__device__ float4 attend(const Attention& args, uint32_t num_heads, uint32_t first_head,
                         uint32_t first_query, float* parts, float2* row_max_sum) {
    using P = Product<kRows>;
    constexpr uint32_t kHeads = P::kColumns / kHeadLen, kParts = kWarps / kHeads;
    const uint32_t head = warp_of() % kHeads, part = warp_of() / kHeads;
    HeadPart<kRows> warp;
    warp.run(args, first_head + head, num_heads, first_query, part, kParts);
#pragma unroll
    for (uint32_t h = 0; h < kRows / 8; ++h) {
        const uint32_t query = h * 8 + lane_of() / 4;
        float row_sum = warp.row_sum[0][h];
        row_sum += __shfl_xor_sync(kAllLanes, row_sum, 1);
        row_sum += __shfl_xor_sync(kAllLanes, row_sum, 2);
        if (lane_of() % 4 == 0)
            row_max_sum[(part * kHeads + head) * kRows + query] =
                make_float2(warp.row_max[0][h], row_sum);
#pragma unroll
        for (uint32_t d = 0; d < kHeadLen / 8; ++d) {
            *reinterpret_cast<float2*>(parts + part * P::kPartLen + query * P::kSumPitch +
                                       head * kHeadLen + d * 8 + lane_of() % 4 * 2) =
                make_float2(warp.sums[0][d][2 * h], warp.sums[0][d][2 * h + 1]);
        }
    }
    __syncthreads();
    constexpr uint32_t kRowThreads = P::kColumns / 4;
    const uint32_t query = threadIdx.x / kRowThreads, column = threadIdx.x % kRowThreads * 4;
    if (query >= kRows) return {};
    float largest = -INFINITY, all = 0;
    const float2* of = row_max_sum + column / kHeadLen * kRows + query;
#pragma unroll
    for (uint32_t p = 0; p < kParts; ++p) largest = fmaxf(largest, of[p * kHeads * kRows].x);
    float4 sum = {};
#pragma unroll
    for (uint32_t p = 0; p < kParts; ++p) {
        const float2 of_part = of[p * kHeads * kRows];
        const float weight = exp2_fast((of_part.x - largest) * args.scale);
        all += of_part.y * weight;
        const float4 v = *reinterpret_cast<const float4*>(parts + p * P::kPartLen +
                                                          query * P::kSumPitch + column);
        sum.x = fmaf(v.x, weight, sum.x), sum.y = fmaf(v.y, weight, sum.y);
        sum.z = fmaf(v.z, weight, sum.z), sum.w = fmaf(v.w, weight, sum.w);
    }
    const float inverse = 1.0f / all;
    return make_float4(sum.x * inverse, sum.y * inverse, sum.z * inverse, sum.w * inverse);
}

}  // namespace detr3d_block
