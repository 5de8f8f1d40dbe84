// Where candidates lie, as one word: near candidates have near words. Any
// choice is right: it only decides how many bounds meet.
#pragma once

#include <cstdint>

// Spreads the low 16 bits to the even positions.
__device__ inline uint32_t spread(uint32_t bits) {
    bits &= 0xffffu;
    bits = (bits | bits << 8) & 0x00ff00ffu;
    bits = (bits | bits << 4) & 0x0f0f0f0fu;
    bits = (bits | bits << 2) & 0x33333333u;
    return (bits | bits << 1) & 0x55555555u;
}

// The upper bits of a coordinate, rising with it.
__device__ inline uint32_t coarse(float value, uint32_t num_bits) {
    const uint32_t bits = __float_as_uint(value);
    const uint32_t rising = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return rising >> (32 - num_bits);
}

// By the centre alone.
__device__ inline uint32_t place_of(float x, float y) {
    return spread(coarse(x, 16)) << 1 | spread(coarse(y, 16));
}

// Those of like size lie together, then those that are near.
__device__ inline uint32_t place_of(float x, float y, float size) {
    const int32_t exponent = static_cast<int32_t>(__float_as_uint(size) >> 23);
    const uint32_t level = min(max(exponent - 112, 0), 31);
    const uint32_t column = coarse(x, 17) & 0x3fff;
    const uint32_t row = coarse(y, 17) & 0x3fff;
    return level << 27 | spread(column) >> 1 | spread(row) >> 2;
}
