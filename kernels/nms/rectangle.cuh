// Rotated rectangles and their overlap: the arithmetic of crates/ops/src/nms/geometry/mod.rs in its
// order, sine and cosine included.
#pragma once

#include "nms/aligned_box.cuh"
#include "nms/args.cuh"
#include "nms/spatial_key.cuh"

struct Rectangle {
    float x, y;
    float half_width, half_height;
    float cos, sin;
    float area;
};

// Additions and multiplications of f64 in a fixed order.
__device__ inline void sin_cos(float angle_rad, float& sin, float& cos) {
    constexpr double kTwoOverPi = 0.636619772367581343075535053490057448;
    constexpr double kHalfPi = 1.57079632679489661923132169163975144;
    constexpr double kTau = 6.28318530717958647692528676655900577;
    const double angle = fmod(static_cast<double>(angle_rad), kTau);
    const double quarters = floor(angle * kTwoOverPi + 0.5);
    const double x = angle - quarters * kHalfPi;
    const double square = x * x;
    double sine = 1.0 / 6227020800.0;
    sine = sine * square + -1.0 / 39916800.0;
    sine = sine * square + 1.0 / 362880.0;
    sine = sine * square + -1.0 / 5040.0;
    sine = sine * square + 1.0 / 120.0;
    sine = sine * square + -1.0 / 6.0;
    sine = x + x * (square * sine);
    double cosine = -1.0 / 87178291200.0;
    cosine = cosine * square + 1.0 / 479001600.0;
    cosine = cosine * square + -1.0 / 3628800.0;
    cosine = cosine * square + 1.0 / 40320.0;
    cosine = cosine * square + -1.0 / 720.0;
    cosine = cosine * square + 1.0 / 24.0;
    cosine = 1.0 + square * (square * cosine - 0.5);
    const int32_t quarter = static_cast<int32_t>(quarters) & 3;
    const double turned_sine = (quarter & 1) != 0 ? cosine : sine;
    const double turned_cosine = (quarter & 1) != 0 ? sine : cosine;
    sin = static_cast<float>(quarter >= 2 ? -turned_sine : turned_sine);
    cos = static_cast<float>(quarter == 1 || quarter == 2 ? -turned_cosine : turned_cosine);
}

__device__ inline Rectangle make_rectangle(float x, float y, float width, float height,
                                           float angle_rad) {
    Rectangle made;
    width = fmaxf(width, 0.0f);
    height = fmaxf(height, 0.0f);
    made.x = x;
    made.y = y;
    made.half_width = width * 0.5f;
    made.half_height = height * 0.5f;
    sin_cos(angle_rad, made.sin, made.cos);
    made.area = width * height;
    return made;
}

__device__ inline float clamped_to(float value, float half) {
    if (value < -half) value = -half;
    if (value > half) value = half;
    return value;
}

// The separating axis test over the directions of all sides. The centre and the
// direction of `b` are in the frame of `a`.
__device__ inline bool are_separated(const Rectangle& a, const Rectangle& b, float x, float y,
                                     float cos, float sin) {
    const float abs_cos = fabsf(cos);
    const float abs_sin = fabsf(sin);
    return fabsf(x) >= a.half_width + (abs_cos * b.half_width + abs_sin * b.half_height) ||
           fabsf(y) >= a.half_height + (abs_sin * b.half_width + abs_cos * b.half_height) ||
           fabsf(cos * x + sin * y) >=
               b.half_width + (abs_cos * a.half_width + abs_sin * a.half_height) ||
           fabsf(cos * y - sin * x) >=
               b.half_height + (abs_sin * a.half_width + abs_cos * a.half_height);
}

// Signed area between the x axis and the edge from `from` to `to`, cut to the
// width of `r` and clamped to its height.
__device__ inline float area_under(const Rectangle& r, float2 from, float2 to) {
    const float x_a = clamped_to(from.x, r.half_width);
    const float x_b = clamped_to(to.x, r.half_width);
    if (x_a == x_b) return 0.0f;
    const float run = to.x - from.x;
    const float rise = to.y - from.y;
    const float y_a = from.y + rise * __fdiv_rn(x_a - from.x, run);
    const float y_b = to.y - rise * __fdiv_rn(to.x - x_b, run);
    const float low = clamped_to(y_a, r.half_height);
    const float high = clamped_to(y_b, r.half_height);
    float mean = low;
    if (low != high) {
        const float rise_inside = y_b - y_a;
        const float before = __fdiv_rn(low - y_a, rise_inside);
        const float inside = __fdiv_rn(high - low, rise_inside);
        const float after = __fdiv_rn(y_b - high, rise_inside);
        mean = (before * low + after * high) + inside * (0.5f * (low + high));
    }
    return (x_b - x_a) * mean;
}

// Area of the intersection, in the frame of `a`.
__device__ inline float intersection(const Rectangle& a, const Rectangle& b) {
    if (!(a.area > 0.0f && b.area > 0.0f)) return 0.0f;
    const float cos = a.cos * b.cos + a.sin * b.sin;
    const float sin = a.cos * b.sin - a.sin * b.cos;
    const float dx = b.x - a.x;
    const float dy = b.y - a.y;
    const float x = a.cos * dx + a.sin * dy;
    const float y = a.cos * dy - a.sin * dx;
    if (are_separated(a, b, x, y, cos, sin)) return 0.0f;
    const float along_x = cos * b.half_width;
    const float along_y = sin * b.half_width;
    const float across_x = -sin * b.half_height;
    const float across_y = cos * b.half_height;
    const float2 corners[4] = {{x + along_x + across_x, y + along_y + across_y},
                               {x - along_x + across_x, y - along_y + across_y},
                               {x - along_x - across_x, y - along_y - across_y},
                               {x + along_x - across_x, y + along_y - across_y}};
    const float sum =
        (area_under(a, corners[1], corners[0]) + area_under(a, corners[2], corners[1])) +
        (area_under(a, corners[3], corners[2]) + area_under(a, corners[0], corners[3]));
    return fminf(fminf(fmaxf(sum, 0.0f), a.area), b.area);
}

// The common part of the policies over rotated rectangles. The proxy is a circle
// around the rectangle, wide enough that rectangles with disjoint circles have an
// intersection of 0 in spite of rounding. `Kind`: candidate, its centre and size.
template <typename Kind>
struct Footprints {
    using Candidate = typename Kind::Candidate;
    static constexpr bool kAnySuppresses = false;
    static constexpr uint32_t kReduceBlocks = 3;

    __device__ static bool is_eligible(const NmsSettings&, const Candidate& c) {
        return has_finite_box(c);
    }

    __device__ static float4 proxy(const NmsArgs<Candidate>&, const NmsSettings&,
                                   const Candidate& c) {
        const float2 center = Kind::center(c);
        const float2 size = Kind::size(c);
        const float radius = 0.5005f * sqrtf(size.x * size.x + size.y * size.y);
        return make_float4(center.x, center.y, radius, 0.0f);
    }

    __device__ static uint32_t spatial_key(const Candidate& c) {
        const float2 center = Kind::center(c);
        const float2 size = Kind::size(c);
        return spatial_key_of(center.x, center.y, fmaxf(size.x, size.y));
    }

    __device__ static float4 bounds(float4 proxy) {
        return make_float4(proxy.x - proxy.z, proxy.y - proxy.z, proxy.x + proxy.z,
                           proxy.y + proxy.z);
    }

    __device__ static float4 window(const NmsSettings&, float4 proxy) { return bounds(proxy); }

    __device__ static float min_area(const NmsSettings&, float4) { return 0.0f; }

    __device__ static bool may_suppress(const NmsSettings&, float4 better, float4 proxy, float) {
        const float dx = proxy.x - better.x;
        const float dy = proxy.y - better.y;
        const float reach = proxy.z + better.z;
        // Negated: passes if the sum of the radii overflows.
        return !(dx * dx + dy * dy > reach * reach);
    }

    // Decided by the geometry.
    __device__ static bool suppresses(const NmsSettings&, float4, float4) { return true; }

    // A rectangle and its class as two vectors.
    __device__ static void store(const Rectangle& r, uint32_t class_index, float4* geometry) {
        geometry[0] = make_float4(r.x, r.y, r.half_width, r.half_height);
        geometry[1] = make_float4(r.cos, r.sin, r.area, __uint_as_float(class_index));
    }

    __device__ static Rectangle load(const float4* geometry) {
        const float4 a = geometry[0];
        const float4 b = geometry[1];
        return {a.x, a.y, a.z, a.w, b.x, b.y, b.z};
    }

    __device__ static uint32_t class_of(const float4* geometry) {
        return __float_as_uint(geometry[1].w);
    }
};

// The footprints of boxes in space.
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
