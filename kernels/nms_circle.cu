// Greedy suppression by distance of centres: src/ops/nms_circle/mod.rs.

#include "nms.cuh"
#include "spatial_key.cuh"

namespace {

struct Circles {
    using Candidate = Candidate3d;
    static constexpr bool kHasThresholds = true;
    static constexpr bool kAnySuppresses = false;
    static constexpr uint32_t kNumParts = 0;
    static constexpr uint32_t kSuppressBlocks = 5;

    __device__ static bool takes_part(const NmsSettings&, const Candidate& c) {
        return has_finite_box(c);
    }

    // Centre, and the longest squared distance at which this, being better,
    // suppresses.
    __device__ static float4 item(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                                  const Candidate& c) {
        const float threshold = threshold_of(args, settings, c.rank.class_index, -1.0f);
        if (settings.reading != 0) return make_float4(c.center[0], c.center[1], threshold, 0.0f);
        // Below the square of a radius means at most the number before it.
        const float square = threshold * threshold;
        const float longest = threshold > 0.0f && square > 0.0f
                                  ? __uint_as_float(__float_as_uint(square) - 1)
                                  : -1.0f;
        return make_float4(c.center[0], c.center[1], longest, 0.0f);
    }

    __device__ static uint32_t place(const Candidate& c) { return place_of(c.center[0], c.center[1]); }

    __device__ static float4 bounds(float4 item) {
        return make_float4(item.x, item.y, item.x, item.y);
    }

    // `reach` is a little longer than the longest radius.
    __device__ static float4 window(const NmsSettings& settings, float4 item) {
        const float reach = settings.reach;
        return make_float4(item.x - reach, item.y - reach, item.x + reach, item.y + reach);
    }

    __device__ static float least(const NmsSettings&, float4) { return 0.0f; }

    __device__ static bool is_near(const NmsSettings&, float4 better, float4 item, float) {
        const float dx = item.x - better.x;
        const float dy = item.y - better.y;
        return dx * dx + dy * dy <= better.z;
    }

    // Who is near enough does.
    __device__ static bool suppresses(const NmsSettings&, float4, float4) { return true; }
};

}  // namespace

NMS_KERNELS(nms_circle, Circles)
