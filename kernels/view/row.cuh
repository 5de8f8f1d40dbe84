// Rows of channels: a lane of a warp holds groups of 8 neighbouring values in f32.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "shared/slice.cuh"
#include "shared/warp.cuh"

namespace row {

// Values of a group: 16 bytes of f16.
constexpr uint32_t kGroup = 8;

// A group as it is stored.
template <typename T>
struct Raw;
template <>
struct Raw<__half> {
    uint4 words;
    __device__ void load(const __half* from) { words = *reinterpret_cast<const uint4*>(from); }
    __device__ void clear() { words = make_uint4(0, 0, 0, 0); }
    __device__ void unpack(float (&to)[kGroup]) const {
        const uint32_t w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&w[i]));
            to[2 * i] = pair.x, to[2 * i + 1] = pair.y;
        }
    }
};
template <>
struct Raw<float> {
    float4 low, high;
    __device__ void load(const float* from) {
        low = *reinterpret_cast<const float4*>(from);
        high = *reinterpret_cast<const float4*>(from + 4);
    }
    __device__ void clear() { low = high = make_float4(0, 0, 0, 0); }
    __device__ void unpack(float (&to)[kGroup]) const {
        to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
        to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
    }
};
template <>
struct Raw<int8_t> {
    uint2 words;
    __device__ void load(const int8_t* from) { words = *reinterpret_cast<const uint2*>(from); }
    __device__ void clear() { words = make_uint2(0, 0); }
    // Conversions run at an eighth of the rate of sums: v + 128 becomes the last byte of 2^23
    // instead.
    __device__ void unpack(float (&to)[kGroup]) const {
        const uint32_t w[2] = {words.x ^ 0x80808080u, words.y ^ 0x80808080u};
#pragma unroll
        for (uint32_t i = 0; i < kGroup; ++i) {
            to[i] =
                __uint_as_float(__byte_perm(w[i / 4], 0x4b000000u, 0x7440u | i % 4)) - 8388736.0f;
        }
    }
};

template <typename T>
__device__ void load(const T* from, float (&to)[kGroup]) {
    Raw<T> raw;
    raw.load(from);
    raw.unpack(to);
}

__device__ inline uint32_t pack(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ inline void store(const float (&from)[kGroup], __half* to) {
    *reinterpret_cast<uint4*>(to) = make_uint4(pack(from[0], from[1]), pack(from[2], from[3]),
                                               pack(from[4], from[5]), pack(from[6], from[7]));
}
__device__ inline void store(const float (&from)[kGroup], float* to) {
    reinterpret_cast<float4*>(to)[0] = make_float4(from[0], from[1], from[2], from[3]);
    reinterpret_cast<float4*>(to)[1] = make_float4(from[4], from[5], from[6], from[7]);
}

// Two values.
__device__ inline void store2(float2 from, __half* to) {
    *reinterpret_cast<uint32_t*>(to) = pack(from.x, from.y);
}
__device__ inline void store2(float2 from, float* to) { *reinterpret_cast<float2*>(to) = from; }

// Four values.
__device__ inline void store4(float4 from, __half* to) {
    *reinterpret_cast<uint2*>(to) = make_uint2(pack(from.x, from.y), pack(from.z, from.w));
}
__device__ inline void store4(float4 from, float* to) { *reinterpret_cast<float4*>(to) = from; }

// The sum over the lanes of a warp, in all of them; the order is fixed.
__device__ inline float sum_of_lanes(float value) {
#pragma unroll
    for (uint32_t step = kLanes / 2; step != 0; step /= 2) {
        value += __shfl_xor_sync(kAllLanes, value, step);
    }
    return value;
}

// The mean and 1 / standard deviation of `kRows` rows of `len` values, of which the lanes
// hold the groups `lane`, `lane + 32`, …; the biased variance, as layer normalization takes.
template <uint32_t kRows, uint32_t kGroups>
__device__ void moments(const float (&values)[kRows][kGroups][kGroup], uint32_t len, float epsilon,
                        float (&mean)[kRows], float (&scale)[kRows]) {
    const float inverse = 1.0f / static_cast<float>(len);
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) {
        float sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < kGroups; ++i) {
#pragma unroll
            for (uint32_t c = 0; c < kGroup; ++c) sum += values[r][i][c];
        }
        mean[r] = sum;
    }
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) mean[r] = sum_of_lanes(mean[r]) * inverse;
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) {
        float sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < kGroups; ++i) {
            if ((i * kLanes + lane_of()) * kGroup >= len) continue;
#pragma unroll
            for (uint32_t c = 0; c < kGroup; ++c) {
                const float d = values[r][i][c] - mean[r];
                sum += d * d;
            }
        }
        scale[r] = sum;
    }
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) {
        scale[r] = rsqrtf(sum_of_lanes(scale[r]) * inverse + epsilon);
    }
}

__device__ inline float relu(float value) { return value < 0.0f ? 0.0f : value; }

}  // namespace row
