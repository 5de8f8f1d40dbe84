// Rotated rectangles and their overlap: src/ops/overlap.rs, its arithmetic in
// its order, sine and cosine included.
#pragma once

#include "flat.cuh"
#include "nms_args.cuh"
#include "spatial_key.cuh"

struct Rectangle {
    float x, y;
    float half_width, half_height;
    float cos, sin;
    float area;
};

// By additions and multiplications of f64 in a fixed order.
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

// Whether one of the four sides' directions separates the rectangles. The
// centre and the direction of `b` are in the frame of `a`.
__device__ inline bool are_apart(const Rectangle& a, const Rectangle& b, float x, float y,
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
    if (are_apart(a, b, x, y, cos, sin)) return 0.0f;
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

// What all suppressions by rotated footprints share. The item is a circle round
// the footprint, wide enough that rectangles whose circles are apart have no
// intersection, whatever rounding does. `Kind` names the candidate, its centre
// and its size.
template <typename Kind>
struct Footprints {
    using Candidate = typename Kind::Candidate;
    static constexpr bool kAnySuppresses = false;
    static constexpr uint32_t kSuppressBlocks = 3;

    __device__ static bool takes_part(const NmsSettings&, const Candidate& c) {
        return has_finite_box(c);
    }

    __device__ static float4 item(const NmsArgs<Candidate>&, const NmsSettings&,
                                  const Candidate& c) {
        const float2 center = Kind::center(c);
        const float2 size = Kind::size(c);
        const float radius = 0.5005f * sqrtf(size.x * size.x + size.y * size.y);
        return make_float4(center.x, center.y, radius, 0.0f);
    }

    __device__ static uint32_t place(const Candidate& c) {
        const float2 center = Kind::center(c);
        const float2 size = Kind::size(c);
        return place_of(center.x, center.y, fmaxf(size.x, size.y));
    }

    __device__ static float4 bounds(float4 item) {
        return make_float4(item.x - item.z, item.y - item.z, item.x + item.z, item.y + item.z);
    }

    __device__ static float4 window(const NmsSettings&, float4 item) { return bounds(item); }

    __device__ static float least(const NmsSettings&, float4) { return 0.0f; }

    __device__ static bool is_near(const NmsSettings&, float4 better, float4 item, float) {
        const float dx = item.x - better.x;
        const float dy = item.y - better.y;
        const float reach = item.z + better.z;
        // A reach that overflows leaves nobody out.
        return !(dx * dx + dy * dy > reach * reach);
    }

    // The parts decide.
    __device__ static bool suppresses(const NmsSettings&, float4, float4) { return true; }

    // Two parts: what a rectangle is; the class fills the second.
    __device__ static void store(const Rectangle& r, uint32_t class_index, float4* parts) {
        parts[0] = make_float4(r.x, r.y, r.half_width, r.half_height);
        parts[1] = make_float4(r.cos, r.sin, r.area, __uint_as_float(class_index));
    }

    __device__ static Rectangle load(const float4* parts) {
        return {parts[0].x, parts[0].y, parts[0].z, parts[0].w, parts[1].x, parts[1].y,
                parts[1].z};
    }

    __device__ static uint32_t class_of(const float4* parts) {
        return __float_as_uint(parts[1].w);
    }
};
