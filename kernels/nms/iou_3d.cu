// Greedy suppression by IoU of volumes: crates/ops/src/nms/iou_3d/mod.rs.

#include "nms/nms.cuh"
#include "nms/rectangle.cuh"

namespace {

struct Solids : Footprints<SolidKind> {
    static constexpr bool kHasThresholds = true;
    static constexpr uint32_t kGeometryVectors = 3;

    // The third vector: bottom, top and volume.
    __device__ static void prepare(const Candidate& c, float4* geometry) {
        const Rectangle footprint = footprint_of(c);
        const float height = fmaxf(c.height, 0.0f);
        const float half_height = height * 0.5f;
        store(footprint, c.rank.class_index, geometry);
        geometry[2] = make_float4(c.center[2] - half_height, c.center[2] + half_height,
                                  footprint.area * height, 0.0f);
    }

    __device__ static bool suppresses_exactly(const NmsArgs<Candidate>& args,
                                              const NmsSettings& settings, const float4* better,
                                              const float4* own) {
        const float4 a = better[2];
        const float4 b = own[2];
        const float vertical = extent(fmaxf(a.x, b.x), fminf(a.y, b.y), 0.0f);
        float shared = 0.0f;
        if (vertical != 0.0f) {
            const float area = intersection(load(better), load(own));
            shared = fminf(fminf(area * vertical, a.z), b.z);
        }
        const float threshold = threshold_of(args, settings, class_of(better), INFINITY);
        return over_union(shared, a.z, b.z) > threshold;
    }
};

}  // namespace

NMS_KERNELS(nms_iou_3d, Solids)
NMS_PREPARE_KERNEL(nms_iou_3d, Solids)
