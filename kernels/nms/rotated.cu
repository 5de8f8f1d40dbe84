// Greedy suppression by IoU of rotated boxes: crates/ops/src/nms/rotated/mod.rs.

#include "nms/nms.cuh"
#include "nms/rectangle.cuh"

namespace {

struct RotatedKind {
    using Candidate = CandidateRotated;
    __device__ static float2 center(const Candidate& c) { return make_float2(c.x, c.y); }
    __device__ static float2 size(const Candidate& c) { return make_float2(c.width, c.height); }
};

struct RotatedFootprints : Footprints<RotatedKind> {
    static constexpr bool kHasThresholds = false;
    static constexpr uint32_t kGeometryVectors = 2;

    __device__ static void prepare(const Candidate& c, float4* geometry) {
        store(make_rectangle(c.x, c.y, c.width, c.height, c.angle), c.rank.class_index, geometry);
    }

    __device__ static bool suppresses_exactly(const NmsArgs<Candidate>&,
                                              const NmsSettings& settings, const float4* better,
                                              const float4* own) {
        const Rectangle a = load(better);
        const Rectangle b = load(own);
        return over_union(intersection(a, b), a.area, b.area) > settings.iou_threshold;
    }
};

}  // namespace

NMS_KERNELS(nms_rotated, RotatedFootprints)
NMS_PREPARE_KERNEL(nms_rotated, RotatedFootprints)
