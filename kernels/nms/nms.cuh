// The kernels of a greedy suppression, `<op>_<step>`, from its policy
// (args.cuh). kernels/README.md states the algorithms.
//
// The answer is the sequential greedy one: a candidate is kept unless a kept one of
// its group that ranks above suppresses it. If the policy says kAnySuppresses, it is
// the one-pass answer: unless any one that ranks above suppresses it. No result
// depends on the order of atomics.
#pragma once

#include "nms/bitmask.cuh"
#include "nms/search.cuh"

#define NMS_KERNEL(op, step, Policy, ...)                                      \
    extern "C" __global__ void __launch_bounds__(__VA_ARGS__)                  \
        op##_##step(const __grid_constant__ NmsArgs<Policy::Candidate> args) { \
        nms_##step<Policy>(args);                                              \
    }

// Of nms_iou: nms_iou_bitmask, nms_iou_sort, nms_iou_merge, nms_iou_leaves, nms_iou_reduce,
// nms_iou_compact. The others are nms_bev_*, nms_bev_fast_*, nms_circle_*, nms_fast_*, nms_iou_3d_*
// and nms_rotated_*.
#define NMS_KERNELS(op, Policy)                                        \
    NMS_KERNEL(op, bitmask, Policy, kBitmaskThreads)                   \
    NMS_KERNEL(op, sort, Policy, kNmsThreads, 5)                       \
    NMS_KERNEL(op, merge, Policy, kNmsThreads, 5)                      \
    NMS_KERNEL(op, leaves, Policy, kLeavesThreads)                     \
    NMS_KERNEL(op, reduce, Policy, kNmsThreads, Policy::kReduceBlocks) \
    NMS_KERNEL(op, compact, Policy, kNmsThreads, 5)

// For a policy with kGeometryVectors > 0: nms_bev_prepare, nms_bev_fast_prepare,
// nms_iou_3d_prepare, nms_rotated_prepare.
#define NMS_PREPARE_KERNEL(op, Policy) NMS_KERNEL(op, prepare, Policy, kNmsThreads)
