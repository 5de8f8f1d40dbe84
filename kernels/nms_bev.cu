// Greedy suppression by IoU of footprints: src/ops/nms_bev/mod.rs.

#include "nms.cuh"
#include "rectangle.cuh"

namespace {

struct BevFootprints : Footprints<SolidKind> {
    static constexpr bool kHasThresholds = true;
    static constexpr uint32_t kGeometryVectors = 2;

    __device__ static void prepare(const Candidate& c, float4* geometry) {
        store(footprint_of(c), c.rank.class_index, geometry);
    }

    __device__ static bool is_forbidden(const NmsArgs<Candidate>& args,
                                        const NmsSettings& settings, uint32_t a, uint32_t b) {
        const auto& forbidden = args.parameters.forbidden;
        for (uint32_t i = 0; i < settings.num_forbidden && i < forbidden.len; ++i) {
            const uint2 pair = forbidden[i];
            if ((pair.x == a && pair.y == b) || (pair.x == b && pair.y == a)) return true;
        }
        return false;
    }

    __device__ static bool suppresses_exactly(const NmsArgs<Candidate>& args,
                                              const NmsSettings& settings, const float4* better,
                                              const float4* own) {
        const Rectangle a = load(better);
        const Rectangle b = load(own);
        const float dx = b.x - a.x;
        const float dy = b.y - a.y;
        if (dx * dx + dy * dy > settings.squared_search_distance) return false;
        const uint32_t better_class = class_of(better);
        if (is_forbidden(args, settings, better_class, class_of(own))) return false;
        const float threshold = threshold_of(args, settings, better_class, INFINITY);
        return over_union(intersection(a, b), a.area, b.area) > threshold;
    }
};

}  // namespace

NMS_KERNELS(nms_bev, BevFootprints)
NMS_PREPARE_KERNEL(nms_bev, BevFootprints)
