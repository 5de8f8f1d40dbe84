// Candidates of a camera head; the mirror of `Candidate<Box2d>` in
// src/types/candidate.rs.
#pragma once

#include "order.cuh"

struct Candidate2d {
    float x1, y1, x2, y2;
    Rank rank;
};

__device__ inline bool has_finite_box(const Candidate2d& c) {
    return isfinite(c.x1) && isfinite(c.y1) && isfinite(c.x2) && isfinite(c.y2);
}

// What decoding found and what it lost: the mirror of `DecodeCounts` in
// src/device/cuda/abi/decode_yolo.rs.
struct DecodeCounts {
    uint32_t num_found;
    uint32_t num_over_capacity;
    uint32_t num_over_top_k;
    uint32_t num_candidates;
};
