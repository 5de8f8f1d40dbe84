// Greedy suppression by distance of centres: crates/ops/src/nms/circle/mod.rs. The proxy is the
// centre and the squared reach; the broad phase is exact.

#include "nms/nms.cuh"
#include "nms/spatial_key.cuh"

namespace {

struct Circles {
    using Candidate = Candidate3d;
    static constexpr bool kHasThresholds = true;
    static constexpr bool kAnySuppresses = false;
    static constexpr uint32_t kGeometryVectors = 0;
    static constexpr uint32_t kReduceBlocks = 5;

    __device__ static bool is_eligible(const NmsSettings&, const Candidate& c) {
        return has_finite_box(c);
    }

    // The centre, and the longest squared distance at which the candidate suppresses.
    __device__ static float4 proxy(const NmsArgs<Candidate>& args, const NmsSettings& settings,
                                   const Candidate& c) {
        const float threshold = threshold_of(args, settings, c.rank.class_index, -1.0f);
        if (settings.reading != 0) return make_float4(c.center[0], c.center[1], threshold, 0.0f);
        // Below the square of a radius is at most the number preceding it.
        const float square = threshold * threshold;
        const float longest = threshold > 0.0f && square > 0.0f
                                  ? __uint_as_float(__float_as_uint(square) - 1)
                                  : -1.0f;
        return make_float4(c.center[0], c.center[1], longest, 0.0f);
    }

    __device__ static uint32_t spatial_key(const Candidate& c) {
        return spatial_key_of(c.center[0], c.center[1]);
    }

    __device__ static float4 bounds(float4 proxy) {
        return make_float4(proxy.x, proxy.y, proxy.x, proxy.y);
    }

    // `reach` is the longest radius and a margin for rounding.
    __device__ static float4 window(const NmsSettings& settings, float4 proxy) {
        const float reach = settings.reach;
        return make_float4(proxy.x - reach, proxy.y - reach, proxy.x + reach, proxy.y + reach);
    }

    __device__ static float min_area(const NmsSettings&, float4) { return 0.0f; }

    __device__ static bool may_suppress(const NmsSettings&, float4 better, float4 proxy, float) {
        const float dx = proxy.x - better.x;
        const float dy = proxy.y - better.y;
        return dx * dx + dy * dy <= better.z;
    }

    // Decided by the broad phase.
    __device__ static bool suppresses(const NmsSettings&, float4, float4) { return true; }
};

}  // namespace

NMS_KERNELS(nms_circle, Circles)
