// Tiles of 16 rows on matrix instructions: which taps they have, where the rows of a tap
// are, products and results.
#pragma once

#include "sparse/conv.cuh"

namespace sparse_conv {

constexpr uint32_t kThreads = 256;

struct Tf32 {};

template <typename T>
struct Stored {
    using Type = T;
};
template <>
struct Stored<Tf32> {
    using Type = float;
};

#define SPARSE_CONV_MMA(shape, types)                                \
    asm("mma.sync.aligned." shape ".row.col." types                  \
        " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"     \
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) \
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1))

__device__ inline void multiply(__half, float (&sums)[4], uint4 a, uint32_t b0, uint32_t b1) {
    SPARSE_CONV_MMA("m16n8k16", "f32.f16.f16.f32");
}
__device__ inline void multiply(__nv_bfloat16, float (&sums)[4], uint4 a, uint32_t b0,
                                uint32_t b1) {
    SPARSE_CONV_MMA("m16n8k16", "f32.bf16.bf16.f32");
}
__device__ inline void multiply(Tf32, float (&sums)[4], uint4 a, uint32_t b0, uint32_t b1) {
    SPARSE_CONV_MMA("m16n8k8", "f32.tf32.tf32.f32");
}

template <typename T>
__device__ uint32_t operand(uint32_t word) {
    return word;
}
template <>
__device__ uint32_t operand<Tf32>(uint32_t word) {
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(word)));
    return rounded;
}

// Sums of a warp: `kParts` times 16 output channels of `kGroups` times 8 rows.
template <uint32_t kParts, uint32_t kGroups>
using Sums = float[kParts][kGroups][4];

// Where the rows of a tap are, in bytes from the features: of each 8 rows that of this lane.
template <uint32_t kGroups>
struct Offsets {
    uint4 quads[kGroups / 4];

    __device__ void mask(uint32_t bits) {
#pragma unroll
        for (uint4& quad : quads) {
            quad.x &= bits, quad.y &= bits;
            quad.z &= bits, quad.w &= bits;
        }
    }
    __device__ uint32_t operator[](uint32_t group) const {
        const uint4& quad = quads[group / 4];
        return group % 4 == 0 ? quad.x : group % 4 == 1 ? quad.y : group % 4 == 2 ? quad.z : quad.w;
    }
};

// The part of the channels that one load of a row has: `kWords` words a lane, of the rows
// lane / 4, + 8, + 16, … They are the right operand of the matrix instructions, two words a
// step; the weights are the left.
template <typename T, uint32_t kWords, uint32_t kGroups>
struct Chunk {
    static constexpr uint32_t kSteps = kWords / 2;
    uint32_t words[kGroups][kWords];

    // `features` is at this lane's part of a chunk.
    __device__ void load(const uint8_t* features, const Offsets<kGroups>& offsets) {
#pragma unroll
        for (uint32_t i = 0; i < kGroups; ++i) {
            const uint8_t* at = features + offsets[i];
            if constexpr (kWords == 4) {
                const uint4 v = __ldg(reinterpret_cast<const uint4*>(at));
                words[i][0] = v.x, words[i][1] = v.y, words[i][2] = v.z, words[i][3] = v.w;
            } else {
                const uint2 v = __ldg(reinterpret_cast<const uint2*>(at));
                words[i][0] = v.x, words[i][1] = v.y;
            }
        }
    }

    // `weights` are this lane's of the chunk; the first `kTiles` times 16 rows have the tap.
    template <uint32_t kParts, uint32_t kTiles>
    __device__ void multiply_tiles(Sums<kParts, kGroups>& sums, const uint4* weights) {
#pragma unroll
        for (uint32_t i = 0; i < 2 * kTiles; ++i) {
#pragma unroll
            for (uint32_t w = 0; w < kWords; ++w) words[i][w] = operand<T>(words[i][w]);
        }
#pragma unroll
        for (uint32_t part = 0; part < kParts; ++part) {
#pragma unroll
            for (uint32_t s = 0; s < kSteps; ++s) {
                const uint4 a = weights[(part * kSteps + s) * kLanes];
#pragma unroll
                for (uint32_t i = 0; i < 2 * kTiles; ++i) {
                    multiply(T{}, sums[part][i], a, words[i][2 * s], words[i][2 * s + 1]);
                }
            }
        }
    }

    template <uint32_t kParts>
    __device__ void multiply_into(Sums<kParts, kGroups>& sums, const uint4* weights,
                                  uint32_t num_tiles) {
        if constexpr (kGroups == 8) {
            switch (num_tiles) {
                case 1: return multiply_tiles<kParts, 1>(sums, weights);
                case 2: return multiply_tiles<kParts, 2>(sums, weights);
                case 3: return multiply_tiles<kParts, 3>(sums, weights);
            }
        }
        multiply_tiles<kParts, kGroups / 2>(sums, weights);
    }
};

// The taps of a batch that each 16 rows of a warp have, a bit each. The lanes write the
// offsets of their rows, by tap and row % 8 those of all 8 rows, unless another warp does.
template <uint32_t kGroups>
struct Taps {
    uint32_t any;
    uint32_t tiles[kGroups / 2];

    __device__ Taps(const Args& args, const Rows& rows, uint32_t first_group,
                    Offsets<kGroups> (*offsets)[8], bool is_writer = true) {
        auto* of_lane =
            reinterpret_cast<uint32_t*>(offsets) + lane_of() % 8 * kGroups + lane_of() / 8;
        const uint32_t row_bytes = args.row_bytes;
        __syncwarp();
        any = 0;
#pragma unroll
        for (uint32_t part = 0; part < kGroups / 4; ++part) {
            const uint32_t row = rows.first + part * kLanes + lane_of();
            uint32_t words[kBatch];
#pragma unroll
            for (uint32_t i = 0; i < kBatch; ++i) {
                const uint32_t group = first_group + i;
                words[i] = 0;
                if (rows.has(row) && group < args.num_groups) {
                    words[i] = __ldg(&args.words[static_cast<uint64_t>(group) * args.stride + row]);
                }
            }
            uint32_t present = 0;
#pragma unroll
            for (uint32_t i = 0; i < kBatch; ++i) {
                present |= (words[i] & 7) << i * args.width;
                if (!is_writer) continue;
                uint32_t offset = kZeroBytes + (words[i] >> 3) * row_bytes;
                if (args.width == 3) {
#pragma unroll
                    for (uint32_t k = 0; k < 3; ++k) {
                        const bool is_present = (words[i] >> k & 1) != 0;
                        of_lane[(3 * i + k) * 8 * kGroups + part * 4] = is_present ? offset : 0;
                        offset += is_present ? row_bytes : 0;
                    }
                } else {
                    of_lane[i * 8 * kGroups + part * 4] = words[i] != 0 ? offset : 0;
                }
            }
            tiles[2 * part] = __reduce_or_sync(kAllLanes, lane_of() < kTileRows ? present : 0);
            tiles[2 * part + 1] = __reduce_or_sync(kAllLanes, lane_of() < kTileRows ? 0 : present);
            any |= tiles[2 * part] | tiles[2 * part + 1];
        }
        __syncwarp();
    }

    // The number of tiles up to the last one that has a tap.
    __device__ uint32_t num_tiles_with(uint32_t tap) const {
        uint32_t num = 0;
#pragma unroll
        for (uint32_t i = 0; i < kGroups / 2; ++i) num = (tiles[i] >> tap & 1) != 0 ? i + 1 : num;
        return num;
    }
};

// Of a lane's sums: the rows 2 (lane % 4) and + 1 of every 8, the channels lane / 4 and + 8
// of every part, which are packed so that a lane has neighbours.
template <typename T, uint32_t kParts, uint32_t kGroups>
__device__ void finish_rows(const Args& args, const Rows& rows, uint32_t first_channel,
                            const Sums<kParts, kGroups>& sums) {
    using E = typename Stored<T>::Type;
    const uint32_t channel = first_channel + lane_of() / 4 * (2 * kParts);
    // A tile at a time.
#pragma unroll
    for (uint32_t tile = 0; tile < kGroups / 2; ++tile) {
        uint32_t row[4];
        float of_row[4][2 * kParts];
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            row[i] = rows.first + tile * kTileRows + i / 2 * 8 + lane_of() % 4 * 2 + i % 2;
#pragma unroll
            for (uint32_t part = 0; part < kParts; ++part) {
                of_row[i][2 * part] = sums[part][tile * 2 + i / 2][i % 2];
                of_row[i][2 * part + 1] = sums[part][tile * 2 + i / 2][2 + i % 2];
            }
        }
        epilogue<E>(args, rows, row, channel, of_row);
    }
}

}  // namespace sparse_conv
