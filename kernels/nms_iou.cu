// Greedy suppression by IoU of axis-aligned boxes: src/ops/nms_iou/mod.rs.
// The arithmetic is that of src/ops/overlap.rs, in its order.

#include "nms.cuh"

namespace {

struct FlatCandidate {
    float x1, y1, x2, y2;
    Rank rank;
};

__device__ float extent(float low, float high, float offset) {
    return fmaxf((high - low) + offset, 0.0f);
}

struct Flats {
    using Candidate = FlatCandidate;
    static constexpr bool kHasThresholds = false;

    __device__ static bool takes_part(const NmsSettings& settings, const Candidate& c) {
        const bool finite = isfinite(c.x1) && isfinite(c.y1) && isfinite(c.x2) && isfinite(c.y2);
        return finite &&
               (settings.has_score_threshold == 0 || c.rank.score > settings.score_threshold);
    }

    __device__ static float4 item(const NmsArgs<Candidate>&, const NmsSettings&, const Candidate& c) {
        return make_float4(c.x1, c.y1, c.x2, c.y2);
    }

    // Boxes of like size lie together, then those that are near.
    __device__ static uint32_t place(const Candidate& c) {
        const float size = fmaxf(c.x2 - c.x1, c.y2 - c.y1);
        const uint32_t level = min(max(static_cast<int32_t>(__float_as_uint(size) >> 23) - 112, 0), 31);
        const uint32_t x = coarse((c.x1 + c.x2) * 0.5f, 17) & 0x3fff;
        const uint32_t y = coarse((c.y1 + c.y2) * 0.5f, 17) & 0x3fff;
        return level << 27 | spread(x) >> 1 | spread(y) >> 2;
    }

    __device__ static float4 bounds(float4 item) { return item; }

    // An IoU is below the threshold when less than this part of either box, or
    // of one of its sides, is shared. Rounding weighs more than a tiny one.
    __device__ static float least_part(const NmsSettings& settings) {
        return settings.iou_threshold < 1e-3f ? 0.0f : 0.99f * settings.iou_threshold;
    }

    // Whether any box inside the bounds can suppress: widths only shrink inside.
    __device__ static bool meets(const NmsSettings& settings, float4 bounds, float4 item) {
        const float offset = settings.offset;
        const float part = least_part(settings);
        const float width = (fminf(bounds.z, item.z) - fmaxf(bounds.x, item.x)) + offset;
        const float height = (fminf(bounds.w, item.w) - fmaxf(bounds.y, item.y)) + offset;
        return width > part * extent(item.x, item.z, offset) &&
               height > part * extent(item.y, item.w, offset);
    }

    __device__ static bool suppresses(const NmsSettings& settings, float4 better, float4 item) {
        const float offset = settings.offset;
        const float width = extent(fmaxf(better.x, item.x), fminf(better.z, item.z), offset);
        const float height = extent(fmaxf(better.y, item.y), fminf(better.w, item.w), offset);
        const float part = width * height;
        // An IoU of 0 is never above a threshold.
        if (!(part > 0.0f)) return false;
        const float a = extent(better.x, better.z, offset) * extent(better.y, better.w, offset);
        const float b = extent(item.x, item.z, offset) * extent(item.y, item.w, offset);
        const float whole = (a + b) - part;
        // Most decide themselves without the division.
        if (part < least_part(settings) * whole) return false;
        return whole >= 1e-30f && __fdiv_rn(part, whole) > settings.iou_threshold;
    }
};

}  // namespace

NMS_KERNELS(nms_iou, Flats)
