// Candidates and detections; in Rust: `Candidate<B>` in crates/types/src/candidate.rs and
// `Detection2d<B>` in crates/types/src/detection.rs for the boxes of crates/types/src/boxes.rs.
#pragma once

#include "shared/order.cuh"

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
    float center[3];
    float length, width, height;
    float yaw;
    Rank rank;
};

// Branch-free.
__device__ inline bool are_finite(float a, float b, float c, float d) {
    return isfinite(a) & isfinite(b) & isfinite(c) & isfinite(d);
}

__device__ inline bool has_finite_box(const Candidate2d& c) {
    return are_finite(c.x1, c.y1, c.x2, c.y2);
}

__device__ inline bool has_finite_box(const CandidateRotated& c) {
    return are_finite(c.x, c.y, c.width, c.height) & isfinite(c.angle);
}

__device__ inline bool has_finite_box(const Candidate3d& c) {
    return are_finite(c.center[0], c.center[1], c.center[2], c.yaw) &
           are_finite(c.length, c.width, c.height, 0.0f);
}

// Whether a box is one: `is_valid` of crates/types/src/boxes.rs. Branch-free.
__device__ inline bool has_valid_box(const Candidate2d& c) {
    return has_finite_box(c) & (c.x1 <= c.x2) & (c.y1 <= c.y2);
}

__device__ inline bool has_valid_box(const CandidateRotated& c) {
    return has_finite_box(c) & (c.width >= 0.0f) & (c.height >= 0.0f);
}

__device__ inline bool has_valid_box(const Candidate3d& c) {
    return has_finite_box(c) & (c.length >= 0.0f) & (c.width >= 0.0f) & (c.height >= 0.0f);
}

// What a head regresses beside the box; in Rust: `Motion` in
// crates/ops/src/decode/center/kernels.rs.
struct Motion {
    float velocity[2];
    float center_variance[3];
    float size_variance[3];
    float yaw_variance;
    float velocity_variance[2];
};

// A detection in an image, of the box's numbers; the host reads it in words.
struct Detection {
    using Word = uint2;
    uint32_t class_index;
    float score;
    float bbox[4];
};

struct RotatedDetection {
    using Word = uint32_t;
    uint32_t class_index;
    float score;
    float bbox[5];
};
