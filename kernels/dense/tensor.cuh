// Strided tensors of the dense layers, by elements of 16 or 32 bits:
// crates/ops/src/dense/launch.rs.
//
// An element is a word in a register: the bits of an f32, to which f16 is widened, or an integer.
#pragma once

#include <cuda_fp16.h>

#include "shared/slice.cuh"

namespace dense {

constexpr uint32_t kMaxRank = 6;
// Elements that a thread reads or writes at once where they are neighbours: 16 bytes of f16.
constexpr uint32_t kVector = 8;

enum Element : uint32_t {
    kF32 = 0,
    kF16 = 1,
    kI32 = 2,
};

// The structs in Rust: crates/ops/src/dense/launch.rs. Strides are in elements.
struct Source {
    Slice<const uint8_t> bytes;
    uint32_t strides[kMaxRank];
    uint32_t element;
    uint32_t reserved;
};

struct Target {
    Slice<uint8_t> bytes;
    uint32_t strides[kMaxRank];
    uint32_t element;
    uint32_t reserved;
};

// Positions of an index in up to three tensors, by their strides; the last dimension changes first.
struct Dims {
    uint32_t sizes[kMaxRank];
    uint32_t rank;
    uint32_t reserved;
};

__device__ inline uint32_t offset_of(const Dims& dims, uint32_t index,
                                     const uint32_t (&strides)[kMaxRank]) {
    uint32_t offset = 0;
    for (uint32_t d = dims.rank; d-- > 1;) {
        const uint32_t rest = index / dims.sizes[d];
        offset += (index - rest * dims.sizes[d]) * strides[d];
        index = rest;
    }
    return offset + index * strides[0];
}

__device__ inline uint32_t load_word(const Source& from, uint32_t at) {
    if (from.element == kF16) {
        return __float_as_uint(__half2float(reinterpret_cast<const __half*>(from.bytes.data)[at]));
    }
    return reinterpret_cast<const uint32_t*>(from.bytes.data)[at];
}

// An element as it is stored, to be widened when others are on their way.
__device__ inline uint32_t load_raw(const Source& from, uint32_t at) {
    return from.element == kF16 ? reinterpret_cast<const uint16_t*>(from.bytes.data)[at]
                                : reinterpret_cast<const uint32_t*>(from.bytes.data)[at];
}
__device__ inline uint32_t widened(const Source& from, uint32_t raw) {
    const __half half = __ushort_as_half(static_cast<uint16_t>(raw));
    return from.element == kF16 ? __float_as_uint(__half2float(half)) : raw;
}

__device__ inline float load(const Source& from, uint32_t at) {
    return __uint_as_float(load_word(from, at));
}

__device__ inline void store_word(const Target& to, uint32_t at, uint32_t word) {
    if (to.element == kF16) {
        reinterpret_cast<__half*>(to.bytes.data)[at] = __float2half_rn(__uint_as_float(word));
    } else {
        reinterpret_cast<uint32_t*>(to.bytes.data)[at] = word;
    }
}

__device__ inline void store(const Target& to, uint32_t at, float value) {
    store_word(to, at, __float_as_uint(value));
}

// Neighbours, whose address is a multiple of 16 bytes.
__device__ inline void load_vector(const Source& from, uint32_t at, uint32_t (&words)[kVector]) {
    if (from.element == kF16) {
        const uint4 raw =
            *reinterpret_cast<const uint4*>(reinterpret_cast<const __half*>(from.bytes.data) + at);
        const uint32_t pairs[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&pairs[i]));
            words[2 * i] = __float_as_uint(pair.x), words[2 * i + 1] = __float_as_uint(pair.y);
        }
        return;
    }
    const uint4* raw =
        reinterpret_cast<const uint4*>(reinterpret_cast<const uint32_t*>(from.bytes.data) + at);
    const uint4 low = raw[0], high = raw[1];
    words[0] = low.x, words[1] = low.y, words[2] = low.z, words[3] = low.w;
    words[4] = high.x, words[5] = high.y, words[6] = high.z, words[7] = high.w;
}

__device__ inline uint32_t packed(uint32_t low, uint32_t high) {
    const __half2 pair = __floats2half2_rn(__uint_as_float(low), __uint_as_float(high));
    return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ inline void store_vector(const Target& to, uint32_t at,
                                    const uint32_t (&words)[kVector]) {
    if (to.element == kF16) {
        *reinterpret_cast<uint4*>(reinterpret_cast<__half*>(to.bytes.data) + at) =
            make_uint4(packed(words[0], words[1]), packed(words[2], words[3]),
                       packed(words[4], words[5]), packed(words[6], words[7]));
        return;
    }
    uint4* raw = reinterpret_cast<uint4*>(reinterpret_cast<uint32_t*>(to.bytes.data) + at);
    raw[0] = make_uint4(words[0], words[1], words[2], words[3]);
    raw[1] = make_uint4(words[4], words[5], words[6], words[7]);
}

// As above, of a type that is known: so that loads of a loop need not wait for each other behind a
// branch on the type.
template <typename T>
__device__ float load_of(const Source& from, uint32_t at) {
    return static_cast<float>(reinterpret_cast<const T*>(from.bytes.data)[at]);
}
template <typename T, uint32_t kWidth>
__device__ void load_floats(const Source& from, uint32_t at, float (&to)[kWidth]) {
    if constexpr (kWidth == 1) {
        to[0] = load_of<T>(from, at);
    } else if constexpr (sizeof(T) == sizeof(__half)) {
        const uint4 raw =
            *reinterpret_cast<const uint4*>(reinterpret_cast<const __half*>(from.bytes.data) + at);
        const uint32_t pairs[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&pairs[i]));
            to[2 * i] = pair.x, to[2 * i + 1] = pair.y;
        }
    } else {
        const float4* raw =
            reinterpret_cast<const float4*>(reinterpret_cast<const float*>(from.bytes.data) + at);
        const float4 low = raw[0], high = raw[1];
        to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
        to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
    }
}

// The element, or as many neighbours as a thread has.
template <uint32_t kWidth>
__device__ void load_words(const Source& from, uint32_t at, uint32_t (&words)[kWidth]) {
    if constexpr (kWidth == kVector) {
        load_vector(from, at, words);
    } else {
        words[0] = load_word(from, at);
    }
}
template <uint32_t kWidth>
__device__ void store_words(const Target& to, uint32_t at, const uint32_t (&words)[kWidth]) {
    if constexpr (kWidth == kVector) {
        store_vector(to, at, words);
    } else {
        store_word(to, at, words[0]);
    }
}

}  // namespace dense
