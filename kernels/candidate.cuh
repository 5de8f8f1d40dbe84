// Candidates of every kind; the mirrors of `Candidate<..>` in
// src/types/candidate.rs over the boxes of src/types/boxes.rs.
#pragma once

#include "order.cuh"

struct Candidate2d {
    float x1, y1, x2, y2;
    Rank rank;
};

struct CandidateRotated {
    float x, y;
    float width, height;
    float angle;
    Rank rank;
};

struct Candidate3d {
    float x, y, z;
    float length, width, height;
    float yaw;
    Rank rank;
};

__device__ inline bool has_finite_box(const Candidate2d& c) {
    return isfinite(c.x1) && isfinite(c.y1) && isfinite(c.x2) && isfinite(c.y2);
}

__device__ inline bool has_finite_box(const CandidateRotated& c) {
    return isfinite(c.x) && isfinite(c.y) && isfinite(c.width) && isfinite(c.height) &&
           isfinite(c.angle);
}

__device__ inline bool has_finite_box(const Candidate3d& c) {
    return isfinite(c.x) && isfinite(c.y) && isfinite(c.z) && isfinite(c.length) &&
           isfinite(c.width) && isfinite(c.height) && isfinite(c.yaw);
}

// What decoding found and what it lost: the mirror of `DecodeCounts` in
// src/device/cuda/abi/decode_yolo.rs.
struct DecodeCounts {
    uint32_t num_found;
    uint32_t num_over_capacity;
    uint32_t num_over_top_k;
    uint32_t num_candidates;
};
