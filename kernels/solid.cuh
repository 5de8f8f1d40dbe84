// Oriented boxes in space: the candidates of src/ops/nms_bev/mod.rs and
// src/ops/nms_iou_3d/mod.rs.
#pragma once

#include "rectangle.cuh"

struct SolidKind {
    using Candidate = Candidate3d;
    __device__ static float2 center(const Candidate& c) {
        return make_float2(c.center[0], c.center[1]);
    }

    __device__ static float2 size(const Candidate& c) { return make_float2(c.length, c.width); }
};

__device__ inline Rectangle footprint_of(const Candidate3d& c) {
    return make_rectangle(c.center[0], c.center[1], c.length, c.width, c.yaw);
}
