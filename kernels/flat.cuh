// Upright boxes in an image and their IoU: src/ops/overlap.rs, its arithmetic
// in its order.
#pragma once

#include "nms_args.cuh"
#include "spatial_key.cuh"

__device__ inline float extent(float low, float high, float offset) {
    return fmaxf((high - low) + offset, 0.0f);
}

__device__ inline float ratio(float part, float whole) {
    return whole >= 1e-30f && whole < INFINITY ? __fdiv_rn(part, whole) : 0.0f;
}

__device__ inline float over_union(float intersection, float a, float b) {
    return ratio(intersection, (a + b) - intersection);
}

__device__ inline float flat_area(float4 box, float offset) {
    return extent(box.x, box.z, offset) * extent(box.y, box.w, offset);
}

__device__ inline float flat_intersection(float4 a, float4 b, float offset) {
    const float width = extent(fmaxf(a.x, b.x), fminf(a.z, b.z), offset);
    const float height = extent(fmaxf(a.y, b.y), fminf(a.w, b.w), offset);
    return width * height;
}

// Suppression by IoU above the threshold: by those that are kept, or by all.
template <bool kAll>
struct Flats {
    using Candidate = Candidate2d;
    static constexpr bool kHasThresholds = false;
    static constexpr bool kAnySuppresses = kAll;
    static constexpr uint32_t kNumParts = 0;
    static constexpr uint32_t kSuppressBlocks = kAll ? 4 : 5;

    __device__ static bool takes_part(const NmsSettings& settings, const Candidate& c) {
        return has_finite_box(c) &&
               (settings.has_score_threshold == 0 || c.rank.score > settings.score_threshold);
    }

    __device__ static float4 item(const NmsArgs<Candidate>&, const NmsSettings&,
                                  const Candidate& c) {
        return make_float4(c.x1, c.y1, c.x2, c.y2);
    }

    __device__ static uint32_t place(const Candidate& c) {
        const float size = fmaxf(c.x2 - c.x1, c.y2 - c.y1);
        return place_of((c.x1 + c.x2) * 0.5f, (c.y1 + c.y2) * 0.5f, size);
    }

    __device__ static float4 bounds(float4 item) { return item; }

    // An IoU is below the threshold when less than this part of either box, or
    // of one of its sides, is shared. Rounding weighs more than a tiny one.
    __device__ static float least_part(const NmsSettings& settings) {
        return settings.iou_threshold < 1e-3f ? 0.0f : 0.99f * settings.iou_threshold;
    }

    // Whoever suppresses reaches into the item by the least part of its sides.
    // The offset counts a little more than it does: where it makes up most of a
    // side, rounding could weigh more than what the least part leaves.
    __device__ static float4 window(const NmsSettings& settings, float4 item) {
        const float offset = settings.offset;
        const float part = least_part(settings);
        const float x = part * extent(item.x, item.z, offset) - 1.00001f * offset;
        const float y = part * extent(item.y, item.w, offset) - 1.00001f * offset;
        return make_float4(__fadd_rd(item.x, x), __fadd_rd(item.y, y), __fadd_ru(item.z, -x),
                           __fadd_ru(item.w, -y));
    }

    // The least area that whoever suppresses the item shares with it.
    __device__ static float least(const NmsSettings& settings, float4 item) {
        return least_part(settings) * flat_area(item, settings.offset);
    }

    // An IoU of 0 is never above a threshold.
    __device__ static bool is_near(const NmsSettings& settings, float4 better, float4 item,
                                   float least) {
        const float offset = settings.offset;
        const float width = extent(fmaxf(better.x, item.x), fminf(better.z, item.z), offset);
        const float height = (fminf(better.w, item.w) - fmaxf(better.y, item.y)) + offset;
        return width * height > least;
    }

    // Of an item that is near.
    __device__ static bool suppresses(const NmsSettings& settings, float4 better, float4 item) {
        const float part = flat_intersection(better, item, settings.offset);
        const float a = flat_area(better, settings.offset);
        const float b = flat_area(item, settings.offset);
        return over_union(part, a, b) > settings.iou_threshold;
    }
};
