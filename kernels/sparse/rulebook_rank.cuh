// Ranks of the words of a bitmap.
#pragma once

#include "shared/scan.cuh"
#include "sparse/rulebook.cuh"

namespace rulebook {

// The words of a tile that a thread has: `kWords` neighbours, or pairs of 4 neighbours.
template <uint32_t kWords>
struct TileWords {
    static constexpr uint32_t kVector = kWords < 4 ? kWords : 4;
    static constexpr uint32_t kVectors = kWords / kVector;
    struct alignas(kVector * 4) Vector {
        uint32_t words[kVector];
    };
    Vector vectors[kVectors];

    // The first word of a vector.
    static __device__ uint32_t word_of(uint32_t vector) {
        const uint32_t lane = threadIdx.x % scan::kLanes;
        const uint32_t warp = threadIdx.x / scan::kLanes;
        return blockIdx.x * kRankThreads * kWords + warp * scan::kLanes * kWords +
               (vector * scan::kLanes + lane) * kVector;
    }
    __device__ explicit TileWords(const RankArgs& args) {
#pragma unroll
        for (uint32_t v = 0; v < kVectors; ++v) {
            vectors[v] = {};
            // The bitmap is a multiple of 4 words long.
            if (word_of(v) < args.num_words) {
                vectors[v] = *reinterpret_cast<const Vector*>(&args.bits[word_of(v)]);
            }
        }
    }
    __device__ uint32_t num_bits(uint32_t vector) const {
        uint32_t num = 0;
#pragma unroll
        for (uint32_t i = 0; i < kVector; ++i) num += __popc(vectors[vector].words[i]);
        return num;
    }
};

// A block counts the bits of a tile, `kWords` a thread.
template <uint32_t kWords>
__device__ void count_bits(const RankArgs& args) {
    const TileWords<kWords> tile(args);
    uint32_t num = 0;
#pragma unroll
    for (uint32_t v = 0; v < tile.kVectors; ++v) num += tile.num_bits(v);
    num = scan::block_sum<kRankThreads>(num);
    if (threadIdx.x == 0) args.sums[blockIdx.x] = num;
}

// A block ranks the words of a tile. It writes their sites too, if it is asked to.
template <uint32_t kWords, bool kWritesSites>
__device__ void rank(const RankArgs& args) {
    const TileWords<kWords> tile(args);
    const uint32_t lane = threadIdx.x % scan::kLanes;
    const uint32_t warp = threadIdx.x / scan::kLanes;
    uint32_t before_tile = 0;
    for (uint32_t i = threadIdx.x; i < blockIdx.x; i += kRankThreads) before_tile += args.sums[i];
    uint32_t before[tile.kVectors];
    uint32_t of_warp = 0;
#pragma unroll
    for (uint32_t v = 0; v < tile.kVectors; ++v) {
        const uint32_t num = tile.num_bits(v);
        uint32_t sum = num;
#pragma unroll
        for (uint32_t step = 1; step < scan::kLanes; step *= 2) {
            const uint32_t below = __shfl_up_sync(scan::kAllLanes, sum, step);
            if (lane >= step) sum += below;
        }
        before[v] = of_warp + sum - num;
        of_warp += __shfl_sync(scan::kAllLanes, sum, scan::kLanes - 1);
    }
    // The sums of the warps before, and of the tiles before.
    constexpr uint32_t kWarps = kRankThreads / scan::kLanes;
    __shared__ uint32_t sums[2][kWarps];
    before_tile = __reduce_add_sync(scan::kAllLanes, before_tile);
    if (lane == 0) sums[0][warp] = of_warp, sums[1][warp] = before_tile;
    __syncthreads();
    const uint32_t before_warp =
        __reduce_add_sync(scan::kAllLanes, lane < warp ? sums[0][lane % kWarps] : 0);
    before_tile = __reduce_add_sync(scan::kAllLanes, lane < kWarps ? sums[1][lane % kWarps] : 0);

    const uint32_t capacity = args.capacity;
    if (blockIdx.x == gridDim.x - 1 && warp == kWarps - 1 && lane == 0) {
        const uint32_t all = before_tile + before_warp + of_warp;
        args.counts[kNumSites] = all < capacity ? all : capacity;
        args.counts[kOverCapacity] = all < capacity ? 0 : all - capacity;
    }
#pragma unroll
    for (uint32_t v = 0; v < tile.kVectors; ++v) {
        uint32_t place = before_tile + before_warp + before[v];
#pragma unroll
        for (uint32_t i = 0; i < tile.kVector; ++i) {
            const uint32_t word = tile.word_of(v) + i;
            uint32_t bits = tile.vectors[v].words[i];
            if (bits == 0) continue;
            const uint32_t end = place + __popc(bits);
            args.ranks[word] = place;
            if (kWritesSites || end > capacity) {
                for (; bits != 0 && place < capacity; ++place, bits &= bits - 1) {
                    if (kWritesSites) args.sites[place] = word * 32 + __ffs(bits) - 1;
                }
                if (bits != 0) args.bits[word] = tile.vectors[v].words[i] ^ bits;
            }
            place = end;
        }
    }
}

}  // namespace rulebook
