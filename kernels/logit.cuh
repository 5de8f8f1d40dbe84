// Sigmoid and exponential, computed in f64 and rounded to f32: src/ops/logit.rs.
#pragma once

__device__ inline float exponential(float value) {
    return __double2float_rn(exp(static_cast<double>(value)));
}

__device__ inline float sigmoid(float logit) {
    return __double2float_rn(1.0 / (1.0 + exp(-static_cast<double>(logit))));
}
