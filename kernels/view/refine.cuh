// Reference points and their refinement: crates/ops/src/view/refine/mod.rs.
#pragma once

#include "decode/logit.cuh"
#include "view/row.cuh"

namespace refine {

// inverse_sigmoid limits both sides of its quotient to this.
constexpr float kEpsilon = 1e-5f;

// In f32 as on the CPU, by f64; in f16 the fast functions suffice.
template <typename T>
__device__ float logarithm(float value) {
    if constexpr (sizeof(T) == 4) return __double2float_rn(log(static_cast<double>(value)));
    return __logf(value);
}
template <typename T>
__device__ float sigmoid_as(float value) {
    if constexpr (sizeof(T) == 4) return sigmoid(value);
    return __fdividef(1.0f, 1.0f + __expf(-value));
}
template <typename T>
__device__ float inverse_sigmoid(float p) {
    p = fminf(fmaxf(p, 0.0f), 1.0f);
    const float above = fmaxf(p, kEpsilon), below = fmaxf(1.0f - p, kEpsilon);
    if constexpr (sizeof(T) == 4) return logarithm<T>(above / below);
    return logarithm<T>(__fdividef(above, below));
}

}  // namespace refine
