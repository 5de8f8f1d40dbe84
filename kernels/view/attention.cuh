// Attention with softmax: crates/ops/src/view/attention/mod.rs. Scores are never stored: a warp
// goes through its keys in groups of 32 with a running maximum, and the warps' parts are added at
// the end.
//
// f16: matrix instructions on operands that lanes load 16 bytes wide from device memory; the
// order of channels and of keys within a group follows from that and is the same for both
// operands. Values are stored transposed, a row per channel. f32: a lane has a key, then a channel.
#pragma once

#include "view/linear.cuh"

namespace attention {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarps = kThreads / kLanes;
// Queries of a block, in f16 with long heads and in f32; half of them with short heads in f16.
constexpr uint32_t kQueries = 32;
constexpr uint32_t kShortHead = 32;
// Keys of a step. Rows of transposed values are padded with zeros to a multiple.
constexpr uint32_t kKeys = 32;

template <typename T>
struct Args {
    Slice<const T> queries;  // a row per query, heads side by side
    Slice<const T> keys;
    Slice<const T> values;  // transposed: a row per channel
    Slice<T> output;
    uint32_t query_stride;
    uint32_t key_stride;
    uint32_t value_stride;
    uint32_t output_stride;
    uint32_t num_queries;
    uint32_t num_keys;
    uint32_t head_len;  // channels of a head: a multiple of 8
    float scale;        // of the scores, to the base 2
};

// Operand words of a row: the channels of lane % 4, two words per step of 16 channels.
template <uint32_t kHead>
__device__ void load_row(const __half* row, bool exists, uint32_t head_len,
                         uint32_t (&words)[kHead / 16][2]) {
    const uint32_t lane = lane_of() % 4;
    if constexpr (kHead == 16) {
        uint2 v = make_uint2(0, 0);
        if (exists && lane * 4 < head_len) v = *reinterpret_cast<const uint2*>(row + lane * 4);
        words[0][0] = v.x, words[0][1] = v.y;
    } else {
#pragma unroll
        for (uint32_t s = 0; s < kHead / 32; ++s) {
            const uint32_t channel = s * 32 + lane * 8;
            uint4 v = make_uint4(0, 0, 0, 0);
            if (exists && channel < head_len) v = *reinterpret_cast<const uint4*>(row + channel);
            words[2 * s][0] = v.x, words[2 * s][1] = v.y;
            words[2 * s + 1][0] = v.z, words[2 * s + 1][1] = v.w;
        }
    }
}

// A warp has 16 `kRows` queries, of which the first 8 `kHalves` of each 16 are used, and some of
// the keys.
template <uint32_t kHead, uint32_t kRows, uint32_t kHalves = 2>
struct Fast {
    static constexpr uint32_t kSteps = kHead / 16;
    static constexpr uint32_t kTiles = kHead / 8;

    uint32_t queries[kRows][kSteps][4] = {};
    uint32_t keys[4][kSteps][2];
    uint4 values[kTiles];
    float sums[kRows][kTiles][4] = {};
    float row_max[kRows][2], row_sum[kRows][2] = {};

    // Past the last key, it instead: such scores are left out.
    __device__ void load_keys(const Args<__half>& args, uint32_t head, uint32_t first) {
        const uint32_t g = lane_of() / 4, key = first + 8 * (g / 2) + g % 2,
                       last = args.num_keys - 1;
        const __half* rows = args.keys.data + head * args.head_len;
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            const uint32_t row = key + 2 * j < last ? key + 2 * j : last;
            load_row<kHead>(rows + static_cast<uint64_t>(row) * args.key_stride, true,
                            args.head_len, keys[j]);
        }
    }
    __device__ void load_values(const Args<__half>& args, uint32_t head, uint32_t first) {
        const uint32_t channel = head * args.head_len + lane_of() / 4;
        const __half* row = args.values.data + static_cast<uint64_t>(channel) * args.value_stride +
                            first + lane_of() % 4 * 8;
#pragma unroll
        for (uint32_t d = 0; d < kTiles; ++d, row += 8 * args.value_stride) {
            values[d] = make_uint4(0, 0, 0, 0);
            if (d * 8 < args.head_len) values[d] = *reinterpret_cast<const uint4*>(row);
        }
    }

    // `rows` are those of the head, `stride` values apart.
    __device__ void load_queries(const __half* rows, uint32_t stride, uint32_t head_len,
                                 uint32_t first, uint32_t num_queries) {
#pragma unroll
        for (uint32_t m = 0; m < kRows; ++m) {
#pragma unroll
            for (uint32_t h = 0; h < kHalves; ++h) {
                const uint32_t query = first + m * 16 + h * 8 + lane_of() / 4;
                const bool exists = query < num_queries;
                uint32_t words[kSteps][2];
                load_row<kHead>(rows + static_cast<uint64_t>(exists ? query : 0) * stride, exists,
                                head_len, words);
#pragma unroll
                for (uint32_t s = 0; s < kSteps; ++s)
                    queries[m][s][h] = words[s][0], queries[m][s][h + 2] = words[s][1];
                row_max[m][h] = -INFINITY;
            }
        }
    }

    // Of the groups of keys, every `num_parts`-th from `part` on.
    __device__ void run(const Args<__half>& args, uint32_t head, uint32_t first_query,
                        uint32_t part, uint32_t num_parts) {
        load_queries(args.queries.data + head * args.head_len, args.query_stride, args.head_len,
                     first_query, args.num_queries);
        const uint32_t end = args.num_keys;
        uint32_t first = part * kKeys;
        if (first >= end) return;
        load_keys(args, head, first);
        load_values(args, head, first);
        for (; first < end; first += num_parts * kKeys) {
            const bool has_next = first + num_parts * kKeys < end;
            add_group(first, args.num_keys, args.scale, [&] {
                if (has_next) load_keys(args, head, first + num_parts * kKeys);
            });
            if (has_next) load_values(args, head, first + num_parts * kKeys);
        }
    }

    // Adds the loaded keys and values, those from `first` on. `load_next` may load other keys.
    template <typename LoadNext>
    __device__ void add_group(uint32_t first, uint32_t num_keys, float scale, LoadNext load_next) {
        float scores[kRows][4][4] = {};
#pragma unroll
        for (uint32_t m = 0; m < kRows; ++m) {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
#pragma unroll
                for (uint32_t s = 0; s < kSteps; ++s) {
                    const uint4 q = make_uint4(queries[m][s][0], queries[m][s][1], queries[m][s][2],
                                               queries[m][s][3]);
                    linear::multiply(scores[m][j], q, keys[j][s][0], keys[j][s][1]);
                }
            }
        }
        load_next();
        uint32_t probs[kRows][4][2] = {};
#pragma unroll
        for (uint32_t m = 0; m < kRows; ++m)
            online_softmax(m, first, num_keys, scale, scores[m], probs[m]);
#pragma unroll
        for (uint32_t m = 0; m < kRows; ++m) {
#pragma unroll
            for (uint32_t d = 0; d < kTiles; ++d) {
                const uint4 v = values[d];
#pragma unroll
                for (uint32_t s = 0; s < 2; ++s) {
                    const uint4 p = make_uint4(probs[m][2 * s][0], probs[m][2 * s][1],
                                               probs[m][2 * s + 1][0], probs[m][2 * s + 1][1]);
                    linear::multiply(sums[m][d], p, s == 0 ? v.x : v.z, s == 0 ? v.y : v.w);
                }
            }
        }
    }

    // Online softmax of 16 queries: replaces scores by exponentials relative to the running row
    // maximum, and rescales the sums.
    __device__ void online_softmax(uint32_t m, uint32_t first, uint32_t num_keys, float scale,
                                   float (&scores)[4][4], uint32_t (&probs)[4][2]) {
        if (first + kKeys > num_keys) {
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
#pragma unroll
                for (uint32_t i = 0; i < 4; ++i) {
                    if (first + lane_of() % 4 * 8 + 2 * j + i % 2 >= num_keys)
                        scores[j][i] = -INFINITY;
                }
            }
        }
#pragma unroll
        for (uint32_t h = 0; h < kHalves; ++h) {
            float largest = row_max[m][h];
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                largest = fmaxf(largest, fmaxf(scores[j][2 * h], scores[j][2 * h + 1]));
            }
            largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
            const float rescale = exp2_fast((row_max[m][h] - largest) * scale);
            row_max[m][h] = largest;
            const float shift = -largest * scale;
            float sum = 0;
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                const float a = exp2_fast(fmaf(scores[j][2 * h], scale, shift));
                const float b = exp2_fast(fmaf(scores[j][2 * h + 1], scale, shift));
                sum += a + b;
                probs[j][h] = row::pack(a, b);
            }
            row_sum[m][h] = fmaf(row_sum[m][h], rescale, sum);
#pragma unroll
            for (uint32_t d = 0; d < kTiles; ++d) {
                sums[m][d][2 * h] *= rescale, sums[m][d][2 * h + 1] *= rescale;
            }
        }
    }
};

template <uint32_t kHead, uint32_t kRows>
__device__ void fast(const Args<__half>& args, uint32_t head, uint32_t query_block) {
    constexpr uint32_t kPitch = kHead + 4;
    constexpr uint32_t kBlockQueries = 16 * kRows;
    constexpr uint32_t kThreadsPerQuery = kThreads / kBlockQueries;
    __shared__ float parts[kWarps][kBlockQueries][kPitch];
    __shared__ float2 row_max_sum[kWarps][kBlockQueries];  // maximum, total
    const uint32_t first_query = query_block * kBlockQueries;
    Fast<kHead, kRows> warp;
    warp.run(args, head, first_query, warp_of(), kWarps);
#pragma unroll
    for (uint32_t m = 0; m < kRows; ++m) {
#pragma unroll
        for (uint32_t h = 0; h < 2; ++h) {
            float row_sum = warp.row_sum[m][h];
            row_sum += __shfl_xor_sync(kAllLanes, row_sum, 1);
            row_sum += __shfl_xor_sync(kAllLanes, row_sum, 2);
            const uint32_t query = m * 16 + h * 8 + lane_of() / 4;
            if (lane_of() % 4 == 0)
                row_max_sum[warp_of()][query] = make_float2(warp.row_max[m][h], row_sum);
#pragma unroll
            for (uint32_t d = 0; d < Fast<kHead, kRows>::kTiles; ++d) {
                *reinterpret_cast<float2*>(&parts[warp_of()][query][d * 8 + lane_of() % 4 * 2]) =
                    make_float2(warp.sums[m][d][2 * h], warp.sums[m][d][2 * h + 1]);
            }
        }
    }
    __syncthreads();
    const uint32_t query = threadIdx.x / kThreadsPerQuery;
    if (first_query + query >= args.num_queries) return;
    float largest = -INFINITY, row_sum = 0, weights[kWarps];
#pragma unroll
    for (uint32_t w = 0; w < kWarps; ++w) largest = fmaxf(largest, row_max_sum[w][query].x);
#pragma unroll
    for (uint32_t w = 0; w < kWarps; ++w) {
        weights[w] = exp2_fast((row_max_sum[w][query].x - largest) * args.scale);
        row_sum += row_max_sum[w][query].y * weights[w];
    }
    const float inverse = 1.0f / row_sum;
    __half* to = args.output.data +
                 static_cast<uint64_t>(first_query + query) * args.output_stride +
                 head * args.head_len;
#pragma unroll
    for (uint32_t i = 0; i < kHead; i += 4 * kThreadsPerQuery) {
        const uint32_t channel = i + threadIdx.x % kThreadsPerQuery * 4;
        if (channel >= args.head_len) continue;
        float4 v = {};
#pragma unroll
        for (uint32_t w = 0; w < kWarps; ++w) {
            const float4 p = *reinterpret_cast<const float4*>(&parts[w][query][channel]);
            v.x = fmaf(p.x, weights[w], v.x), v.y = fmaf(p.y, weights[w], v.y);
            v.z = fmaf(p.z, weights[w], v.z), v.w = fmaf(p.w, weights[w], v.w);
        }
        row::store4(make_float4(v.x * inverse, v.y * inverse, v.z * inverse, v.w * inverse),
                    to + channel);
    }
}

// A warp has eight queries; keys pass through shared memory 32 at a time.
template <uint32_t kHead>
__device__ void exact(const Args<float>& args, uint32_t head, uint32_t query_block) {
    constexpr uint32_t kEach = kQueries / kWarps;
    constexpr uint32_t kPitch = kHead + 4;
    constexpr uint32_t kChannels = (kHead + kLanes - 1) / kLanes;
    __shared__ __align__(16) float queries[kQueries][kHead], probs[kWarps][kEach][kKeys];
    __shared__ __align__(16) float keys[kKeys][kPitch], values[kHead][kKeys + 1];
    const uint32_t first_query = query_block * kQueries;
    for (uint32_t i = threadIdx.x; i < kQueries * kHead; i += kThreads) {
        const uint32_t query = first_query + i / kHead, c = i % kHead;
        const bool exists = query < args.num_queries && c < args.head_len;
        queries[i / kHead][c] =
            exists ? args.queries[static_cast<uint64_t>(query) * args.query_stride +
                                  head * args.head_len + c]
                   : 0;
    }
    float sums[kEach][kChannels] = {}, row_max[kEach], row_sum[kEach] = {};
#pragma unroll
    for (uint32_t q = 0; q < kEach; ++q) row_max[q] = -INFINITY;
    for (uint32_t first = 0; first < args.num_keys; first += kKeys) {
        __syncthreads();
#pragma unroll 8
        for (uint32_t i = threadIdx.x; i < kKeys * kHead; i += kThreads) {
            const uint32_t k = i / kHead, c = i % kHead;
            const bool exists = first + k < args.num_keys && c < args.head_len;
            keys[k][c] = exists ? args.keys[static_cast<uint64_t>(first + k) * args.key_stride +
                                            head * args.head_len + c]
                                : 0;
            const uint32_t vc = i / kKeys, vk = i % kKeys;
            const bool has_value = first + vk < args.num_keys && vc < args.head_len;
            values[vc][vk] = has_value
                                 ? args.values[static_cast<uint64_t>(head * args.head_len + vc) *
                                                   args.value_stride +
                                               first + vk]
                                 : 0;
        }
        __syncthreads();
        float scores[kEach] = {};
#pragma unroll 4
        for (uint32_t c = 0; c < kHead; c += 4) {
            const float4 k = *reinterpret_cast<const float4*>(&keys[lane_of()][c]);
#pragma unroll
            for (uint32_t q = 0; q < kEach; ++q) {
                const float4 x =
                    *reinterpret_cast<const float4*>(&queries[warp_of() * kEach + q][c]);
                scores[q] =
                    fmaf(x.w, k.w, fmaf(x.z, k.z, fmaf(x.y, k.y, fmaf(x.x, k.x, scores[q]))));
            }
        }
#pragma unroll
        for (uint32_t q = 0; q < kEach; ++q) {
            float& score = scores[q];
            score = first + lane_of() < args.num_keys ? score * args.scale : -INFINITY;
            float largest = score;
#pragma unroll
            for (uint32_t step = kLanes / 2; step != 0; step /= 2) {
                largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
            }
            largest = fmaxf(largest, row_max[q]);
            const float rescale = exp2f(row_max[q] - largest);
            row_max[q] = largest;
            score = exp2f(score - largest);
            row_sum[q] = fmaf(row_sum[q], rescale, score);
            probs[warp_of()][q][lane_of()] = score;
#pragma unroll
            for (uint32_t c = 0; c < kChannels; ++c) sums[q][c] *= rescale;
        }
        __syncwarp();
#pragma unroll 2
        for (uint32_t k = 0; k < kKeys; k += 4) {
#pragma unroll
            for (uint32_t c = 0; c < kChannels; ++c) {
                const float* v = &values[(c * kLanes + lane_of()) % kHead][k];
#pragma unroll
                for (uint32_t q = 0; q < kEach; ++q) {
                    const float4 p = *reinterpret_cast<const float4*>(&probs[warp_of()][q][k]);
                    sums[q][c] = fmaf(
                        p.w, v[3], fmaf(p.z, v[2], fmaf(p.y, v[1], fmaf(p.x, v[0], sums[q][c]))));
                }
            }
        }
    }
#pragma unroll
    for (uint32_t q = 0; q < kEach; ++q) {
        const uint32_t query = first_query + warp_of() * kEach + q;
        const float sum = row::sum_of_lanes(row_sum[q]);
        if (query >= args.num_queries) continue;
#pragma unroll
        for (uint32_t c = 0; c < kChannels; ++c) {
            const uint32_t channel = c * kLanes + lane_of();
            if (channel < args.head_len) {
                args.output[static_cast<uint64_t>(query) * args.output_stride +
                            head * args.head_len + channel] = sums[q][c] / sum;
            }
        }
    }
}

// Attention, and beside it linear layers that need nothing of it.
template <typename T>
struct WithLinearArgs {
    Args<T> attention;
    uint32_t num_query_blocks;
    uint32_t num_heads;
    uint32_t num_row_blocks;  // of the linear layers
    uint32_t reserved;
    linear::Args<T> linear;
};

template <typename T, uint32_t kHead>
__device__ void run(const WithLinearArgs<T>& args, uint8_t* shared) {
    pdl::trigger_of<T>();
    const uint32_t num_blocks = args.num_query_blocks * args.num_heads;
    if (blockIdx.x >= num_blocks) {
        const uint32_t block = blockIdx.x - num_blocks;
        return linear::compute_block<T, 1>(args.linear, block % args.num_row_blocks,
                                           block / args.num_row_blocks, shared);
    }
    linear::prefetch(args.attention);
    pdl::wait();
    const uint32_t head = blockIdx.x % args.num_heads, query_block = blockIdx.x / args.num_heads;
    if constexpr (sizeof(T) == 2) {
        fast<kHead, (kHead > kShortHead ? 2 : 1)>(args.attention, head, query_block);
    } else {
        exact<kHead>(args.attention, head, query_block);
    }
}

}  // namespace attention
