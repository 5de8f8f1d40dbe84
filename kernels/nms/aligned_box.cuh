// Axis-aligned boxes and their IoU: the arithmetic of crates/ops/src/nms/geometry/mod.rs in its
// order.
#pragma once

#include "nms/args.cuh"
#include "nms/spatial_key.cuh"

__device__ inline float extent(float low, float high, float offset) {
    return fmaxf((high - low) + offset, 0.0f);
}

__device__ inline float ratio(float part, float whole) {
    return whole >= 1e-30f && whole < INFINITY ? __fdiv_rn(part, whole) : 0.0f;
}

__device__ inline float over_union(float intersection, float a, float b) {
    return ratio(intersection, (a + b) - intersection);
}

__device__ inline float box_area(float4 box, float offset) {
    return extent(box.x, box.z, offset) * extent(box.y, box.w, offset);
}

__device__ inline float box_intersection(float4 a, float4 b, float offset) {
    const float width = extent(fmaxf(a.x, b.x), fminf(a.z, b.z), offset);
    const float height = extent(fmaxf(a.y, b.y), fminf(a.w, b.w), offset);
    return width * height;
}

// The policy of suppression by IoU above a threshold, greedy or one-pass. The proxy is the box; the
// exact test compares proxies.
template <bool kOnePass>
struct AlignedBoxes {
    using Candidate = Candidate2d;
    static constexpr bool kHasThresholds = false;
    static constexpr bool kAnySuppresses = kOnePass;
    static constexpr uint32_t kGeometryVectors = 0;
    static constexpr uint32_t kReduceBlocks = kOnePass ? 4 : 5;

    __device__ static bool is_eligible(const NmsSettings& settings, const Candidate& c) {
        return has_finite_box(c) &&
               (settings.has_score_threshold == 0 || c.rank.score > settings.score_threshold);
    }

    __device__ static float4 proxy(const NmsArgs<Candidate>&, const NmsSettings&,
                                   const Candidate& c) {
        return make_float4(c.x1, c.y1, c.x2, c.y2);
    }

    __device__ static uint32_t spatial_key(const Candidate& c) {
        const float size = fmaxf(c.x2 - c.x1, c.y2 - c.y1);
        return spatial_key_of((c.x1 + c.x2) * 0.5f, (c.y1 + c.y2) * 0.5f, size);
    }

    __device__ static float4 bounds(float4 proxy) { return proxy; }

    // Boxes with an IoU above the threshold share at least this part of either box,
    // and of each of its sides. A tiny threshold is within the rounding error.
    __device__ static float min_part(const NmsSettings& settings) {
        return settings.iou_threshold < 1e-3f ? 0.0f : 0.99f * settings.iou_threshold;
    }

    // Every suppressor reaches into the box by that part of its sides. The offset is
    // enlarged a little: where it makes up most of a side, rounding could exceed the
    // margin of `min_part`.
    __device__ static float4 window(const NmsSettings& settings, float4 proxy) {
        const float offset = settings.offset;
        const float part = min_part(settings);
        const float x = part * extent(proxy.x, proxy.z, offset) - 1.00001f * offset;
        const float y = part * extent(proxy.y, proxy.w, offset) - 1.00001f * offset;
        return make_float4(__fadd_rd(proxy.x, x), __fadd_rd(proxy.y, y), __fadd_ru(proxy.z, -x),
                           __fadd_ru(proxy.w, -y));
    }

    // The least area that a suppressor shares with the box.
    __device__ static float min_area(const NmsSettings& settings, float4 proxy) {
        return min_part(settings) * box_area(proxy, settings.offset);
    }

    __device__ static bool may_suppress(const NmsSettings& settings, float4 better, float4 proxy,
                                        float min_area) {
        const float offset = settings.offset;
        const float width = extent(fmaxf(better.x, proxy.x), fminf(better.z, proxy.z), offset);
        const float height = (fminf(better.w, proxy.w) - fmaxf(better.y, proxy.y)) + offset;
        return width * height > min_area;
    }

    __device__ static bool suppresses(const NmsSettings& settings, float4 better, float4 proxy) {
        const float part = box_intersection(better, proxy, settings.offset);
        const float a = box_area(better, settings.offset);
        const float b = box_area(proxy, settings.offset);
        return over_union(part, a, b) > settings.iou_threshold;
    }
};
