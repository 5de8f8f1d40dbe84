// Greedy suppression, the same for every measure of overlap.
//
// A policy (nms_args.cuh) names the candidate and says when a better one
// suppresses another. The answer is the sequential greedy one: a candidate is
// kept when no kept better one of its group suppresses it; or, where the policy
// says so, the one-pass answer: when no better one does.
//
// Steps, each a kernel, the number of candidates read on the device:
//   small     up to kSmallCapacity: everything (nms_bitmask.cuh, nms_bitmask_dense.cuh)
//   tiles, merge, arrange
//             more: into the orders by rank and by place (nms_sort.cuh)
//   suppress  decides (nms_search.cuh)
//   publish   writes the survivors in order (nms_publish.cuh)
//
// No result depends on the order of atomics: they only say who works on what.
#pragma once

#include "nms_publish.cuh"
#include "nms_bitmask.cuh"
#include "nms_search.cuh"

#define NMS_KERNEL(op, step, Policy, ...)                                      \
    extern "C" __global__ void __launch_bounds__(__VA_ARGS__)                  \
        op##_##step(const __grid_constant__ NmsArgs<Policy::Candidate> args) { \
        nms_##step<Policy>(args);                                              \
    }

// The kernels of an op: `<op>_<step>`.
#define NMS_KERNELS(op, Policy)                     \
    NMS_KERNEL(op, small, Policy, kSmallThreads)    \
    NMS_KERNEL(op, tiles, Policy, kNmsThreads, 5)   \
    NMS_KERNEL(op, merge, Policy, kNmsThreads, 5)   \
    NMS_KERNEL(op, arrange, Policy, kArrangeThreads) \
    NMS_KERNEL(op, suppress, Policy, kNmsThreads, Policy::kSuppressBlocks) \
    NMS_KERNEL(op, publish, Policy, kNmsThreads, 5)

// The step before all others, of an op whose policy has parts.
#define NMS_PREPARE_KERNEL(op, Policy)                                                 \
    extern "C" __global__ void __launch_bounds__(kNmsThreads)                          \
        op##_prepare(const __grid_constant__ PrepareArgs<Policy::Candidate> args) {    \
        nms_prepare<Policy>(args);                                                     \
    }
