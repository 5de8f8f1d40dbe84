// Loads of candidates by a warp, 16 bytes at a time.
#pragma once

#include <cstring>

#include "shared/slice.cuh"
#include "shared/warp.cuh"

// 32 consecutive candidates in their memory layout, distributed over the lanes.
template <typename Candidate>
struct Chunk {
    static constexpr uint32_t kWords = sizeof(Candidate) / 4;
    static constexpr uint32_t kVectors = kLanes * kWords / 4;
    static constexpr uint32_t kEach = (kVectors + kLanes - 1) / kLanes;
    uint4 vectors[kEach];

    // The chunk that begins with candidate `first`, of which `num` are read.
    __device__ void fetch(const Candidate* candidates, uint32_t first, uint32_t num) {
        const uint32_t* words = reinterpret_cast<const uint32_t*>(candidates + first);
        const uint32_t num_words = first < num ? min(num - first, kLanes) * kWords : 0;
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            const uint32_t w = (k * kLanes + lane_of()) * 4;
            vectors[k] = make_uint4(0, 0, 0, 0);
            if (w + 4 <= num_words) vectors[k] = *reinterpret_cast<const uint4*>(words + w);
        }
        if (num_words % 4 == 0) return;
        // Only the last candidate's last words can leave a vector partly filled.
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            const uint32_t w = (k * kLanes + lane_of()) * 4;
            if (w / 4 != num_words / 4) continue;
            vectors[k].x = words[w];
            if (w + 1 < num_words) vectors[k].y = words[w + 1];
            if (w + 2 < num_words) vectors[k].z = words[w + 2];
        }
    }

    // The lane's own candidate; all lanes of the warp take part.
    __device__ Candidate unpack(uint4* staged) const {
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            if (k * kLanes + lane_of() < kVectors) staged[k * kLanes + lane_of()] = vectors[k];
        }
        __syncwarp();
        Candidate candidate;
        memcpy(&candidate, reinterpret_cast<const uint32_t*>(staged) + lane_of() * kWords,
               sizeof(Candidate));
        return candidate;
    }
};
