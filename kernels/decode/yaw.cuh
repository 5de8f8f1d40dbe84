// Yaws of boxes from their sine and cosine: `YawConvention` in crates/types/src/center.rs.
#pragma once

#include <cstdint>

// Counter-clockwise from +x, or the same angle given clockwise from -y. The arc tangent is
// rounded from f64.
__device__ inline float yaw_of(float sine, float cosine, bool turns_clockwise) {
    constexpr float kPi = 3.14159274f;
    constexpr float kHalfPi = 1.57079637f;
    const float angle =
        __double2float_rn(atan2(static_cast<double>(sine), static_cast<double>(cosine)));
    if (!turns_clockwise) return angle;
    const float yaw = -angle - kHalfPi;
    return yaw <= -kPi ? yaw + 2.0f * kPi : yaw;
}
