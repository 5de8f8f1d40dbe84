// Sigmoid, exponential and power, computed in f64 and rounded to f32:
// crates/ops/src/decode/logit.rs. For f16, the fast power of 2.
#pragma once

__device__ inline float exponential(float value) {
    return __double2float_rn(exp(static_cast<double>(value)));
}

__device__ inline float sigmoid(float logit) {
    return __double2float_rn(1.0 / (1.0 + exp(-static_cast<double>(logit))));
}

__device__ inline float power(float value, float exponent) {
    return __double2float_rn(pow(static_cast<double>(value), static_cast<double>(exponent)));
}

__device__ inline float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
