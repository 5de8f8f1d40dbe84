// One-pass suppression by IoU of footprints: src/ops/nms_bev_fast/mod.rs.

#include "bev_footprints.cuh"
#include "nms.cuh"

namespace {

struct FastBevFootprints : BevFootprints {
    static constexpr bool kAnySuppresses = true;
    // In Rust: MIN_UNION_M2 in src/ops/nms_bev_fast/mod.rs.
    static constexpr float kMinUnion = 0.01f;

    __device__ static bool suppresses_exactly(const NmsArgs<Candidate>& args,
                                              const NmsSettings& settings, const float4* better,
                                              const float4* own) {
        const Rectangle a = load(better);
        const Rectangle b = load(own);
        const uint32_t better_class = class_of(better);
        const uint32_t own_class = class_of(own);
        const uint32_t num_pairs = settings.num_forbidden + settings.num_unlimited;
        if (is_too_far(settings, a, b) &&
            !has_pair(args, settings.num_forbidden, num_pairs, better_class, own_class)) {
            return false;
        }
        if (has_pair(args, 0, settings.num_forbidden, better_class, own_class)) return false;
        const float threshold = threshold_of(args, settings, better_class, INFINITY);
        const float shared = intersection(a, b);
        const float whole = (a.area + b.area) - shared;
        const float iou = whole >= kMinUnion && whole < INFINITY ? __fdiv_rn(shared, whole) : 0.0f;
        return iou > threshold;
    }
};

}  // namespace

NMS_KERNELS(nms_bev_fast, FastBevFootprints)
NMS_PREPARE_KERNEL(nms_bev_fast, FastBevFootprints)
