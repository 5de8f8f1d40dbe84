// The order of values in `arg_max` and `top_k`.
#pragma once

#include <cstdint>

namespace dense {

// A word that grows with a value; zeros are equal, NaN is below all.
__device__ inline uint32_t ascending(float value) {
    const uint32_t bits = __float_as_uint(value + 0.0f);
    const uint32_t word = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return value != value ? 0 : word;
}

}  // namespace dense
