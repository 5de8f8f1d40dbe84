// Sums of texels times weights in f16, 8 channels a lane. The products are f16; matrix instructions
// add them up in f32.
//
// A product of 16 rows, 16 inputs and 8 columns takes four words of a lane, two of each of two
// texels, as the rows lane / 4 and + 8 and the inputs 2 (lane % 4), + 1, + 8 and + 9. With inputs k
// and k + 8 only in column k, its results in a lane are the sums of what the same lane gave: a
// sixth of the instructions that conversions and fused multiply-adds are. A texel that is not
// finite reaches neighbouring channels, since it is multiplied by 0 in theirs.
#pragma once

#include "view/linear_products.cuh"

namespace view_sample {

// Channels of a lane, as pairs of f16.
template <typename M>
struct Chunk;
template <>
struct Chunk<__half> {
    uint4 words;
    __device__ void load(uint64_t address) {
        words = __ldg(reinterpret_cast<const uint4*>(address));
    }
    __device__ uint4 values() const { return words; }
};
template <>
struct Chunk<int8_t> {
    uint2 words;
    __device__ void load(uint64_t address) {
        words = __ldg(reinterpret_cast<const uint2*>(address));
    }
    __device__ uint4 values() const {
        const uint32_t low = words.x ^ 0x80808080u, high = words.y ^ 0x80808080u;
        return make_uint4(value(low, 0x4140u), value(low, 0x4342u), value(high, 0x4140u),
                          value(high, 0x4342u));
    }
    // v + 128 becomes the last byte of 1024.
    static __device__ uint32_t value(uint32_t bytes, uint32_t which) {
        const uint32_t biased = __byte_perm(bytes, 0x64646464u, which);
        const __half2 value =
            __hsub2(*reinterpret_cast<const __half2*>(&biased), __float2half2_rn(1152.0f));
        return *reinterpret_cast<const uint32_t*>(&value);
    }
};

__device__ inline uint32_t times(uint32_t pair, uint32_t weights) {
    const __half2 product = __hmul2(*reinterpret_cast<const __half2*>(&pair),
                                    *reinterpret_cast<const __half2*>(&weights));
    return *reinterpret_cast<const uint32_t*>(&product);
}

// A lane's part of the matrix of which the columns have the inputs k and k + 8.
__device__ inline uint32_t same_column() {
    const uint32_t column = lane_of() / 4, input = lane_of() % 4;
    return column / 2 != input ? 0 : column % 2 == 0 ? 0x00003c00u : 0x3c000000u;
}
// Adds two texels times weights, which are pairs of the same; `same` is `same_column()`.
__device__ inline void add_weighted(uint4 one, uint32_t of_one, uint4 two, uint32_t of_two,
                                    uint32_t same, float (&sums)[2][4]) {
    const uint4 low = make_uint4(times(one.x, of_one), times(one.y, of_one), times(two.x, of_two),
                                 times(two.y, of_two));
    const uint4 high = make_uint4(times(one.z, of_one), times(one.w, of_one), times(two.z, of_two),
                                  times(two.w, of_two));
    linear::multiply(sums[0], low, same, same);
    linear::multiply(sums[1], high, same, same);
}

}  // namespace view_sample
