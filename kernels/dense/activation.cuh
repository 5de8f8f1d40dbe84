// Activations: crates/ops/src/dense/activation.rs.
#pragma once

#include <cstdint>

namespace dense {

enum ActivationKind : uint32_t {
    kNone = 0,
    kRelu = 1,
    kLeakyRelu = 2,
    kSilu = 3,
    kHardSwish = 4,
    kHardSigmoid = 5,
    kSigmoid = 6,
    kTanh = 7,
    kGelu = 8,
    kGeluTanh = 9,
    kClip = 10,
    kExp = 11,
    kElu = 12,
    kSoftplus = 13,
    kMish = 14,
};

struct Activation {
    uint32_t kind;
    float a, b;
};

// The exponential; `kFast`, for results that are stored in 16 bits, within a few units in the last
// place of f32.
template <bool kFast>
__device__ inline float exponential(float v) {
    return kFast ? __expf(v) : expf(v);
}
template <bool kFast>
__device__ inline float quotient(float a, float b) {
    return kFast ? __fdividef(a, b) : a / b;
}
// Up to 2^126, beyond which the fast quotient is 0, as the exact one is nearly.
template <bool kFast>
__device__ inline float sigmoid(float v) {
    return quotient<kFast>(1.0f, 1.0f + exponential<kFast>(-v));
}
template <bool kFast>
__device__ inline float hyperbolic_tangent(float v) {
    return kFast ? fmaf(2.0f, sigmoid<true>(2.0f * v), -1.0f) : tanhf(v);
}
__device__ inline float clip_low(float v, float low) { return v < low ? low : v; }
__device__ inline float clip(float v, float low, float high) {
    v = clip_low(v, low);
    return v > high ? high : v;
}
__device__ inline float softplus(float v) { return log1pf(expf(-fabsf(v))) + clip_low(v, 0.0f); }

template <bool kFast>
__device__ inline float activate(const Activation& activation, float v) {
    switch (activation.kind) {
        case kRelu: return clip_low(v, 0.0f);
        case kLeakyRelu: return v < 0.0f ? activation.a * v : v;
        case kSilu: return kFast ? v * sigmoid<true>(v) : v / (1.0f + expf(-v));
        case kHardSwish: return v * clip(v * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f);
        case kHardSigmoid: return clip(activation.a * v + activation.b, 0.0f, 1.0f);
        case kSigmoid: return sigmoid<kFast>(v);
        case kTanh: return hyperbolic_tangent<kFast>(v);
        case kGelu: return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
        case kGeluTanh: {
            const float inner = 0.7978846f * (v + 0.044715f * (v * v * v));
            return 0.5f * v * (1.0f + hyperbolic_tangent<kFast>(inner));
        }
        case kClip: return clip(v, activation.a, activation.b);
        case kExp: return exponential<kFast>(v);
        case kElu: return v < 0.0f ? activation.a * expm1f(v) : v;
        case kSoftplus: return softplus(v);
        case kMish: return v * hyperbolic_tangent<kFast>(softplus(v));
        default: return v;
    }
}

template <bool kFast, uint32_t kKind, uint32_t kNum>
__device__ inline void activate_as(const Activation& activation, float (&values)[kNum]) {
    const Activation known = {kKind, activation.a, activation.b};
#pragma unroll
    for (uint32_t i = 0; i < kNum; ++i) values[i] = activate<kFast>(known, values[i]);
}
// The most frequent ones, which take few instructions.
__device__ inline bool is_short(const Activation& activation) {
    return activation.kind == kNone || activation.kind == kSilu || activation.kind == kRelu;
}
template <bool kFast, uint32_t kNum>
__device__ inline void activate_short(const Activation& activation, float (&values)[kNum]) {
    if (activation.kind == kSilu) activate_as<kFast, kSilu>(activation, values);
    if (activation.kind == kRelu) activate_as<kFast, kRelu>(activation, values);
}
// Activates several values after one choice: a jump through a table, which is read from memory,
// takes longer than the arithmetic. The short ones take none. Those with many instructions are in
// the program once, not once for each value: they would be most of a convolution.
template <bool kFast, uint32_t kNum>
__device__ inline void activate_all(const Activation& activation, float (&values)[kNum]) {
    if (is_short(activation)) return activate_short<kFast>(activation, values);
    switch (activation.kind) {
        case kLeakyRelu: return activate_as<kFast, kLeakyRelu>(activation, values);
        case kHardSwish: return activate_as<kFast, kHardSwish>(activation, values);
        case kHardSigmoid: return activate_as<kFast, kHardSigmoid>(activation, values);
        case kSigmoid: return activate_as<kFast, kSigmoid>(activation, values);
        case kClip: return activate_as<kFast, kClip>(activation, values);
    }
    float each[kNum];
#pragma unroll
    for (uint32_t i = 0; i < kNum; ++i) each[i] = values[i];
#pragma unroll 1
    for (uint32_t i = 0; i < kNum; ++i) each[i] = activate<kFast>(activation, each[i]);
#pragma unroll
    for (uint32_t i = 0; i < kNum; ++i) values[i] = each[i];
}

}  // namespace dense
