// Greedy suppression by IoU of footprints: crates/ops/src/nms/bev/mod.rs.

#include "nms/bev_footprints.cuh"
#include "nms/nms.cuh"

namespace {

struct GreedyBevFootprints : BevFootprints {
    __device__ static bool suppresses_exactly(const NmsArgs<Candidate>& args,
                                              const NmsSettings& settings, const float4* better,
                                              const float4* own) {
        const Rectangle a = load(better);
        const Rectangle b = load(own);
        if (is_too_far(settings, a, b)) return false;
        const uint32_t better_class = class_of(better);
        if (has_pair(args, 0, settings.num_forbidden, better_class, class_of(own))) return false;
        const float threshold = threshold_of(args, settings, better_class, INFINITY);
        return over_union(intersection(a, b), a.area, b.area) > threshold;
    }
};

}  // namespace

NMS_KERNELS(nms_bev, GreedyBevFootprints)
NMS_PREPARE_KERNEL(nms_bev, GreedyBevFootprints)
