// The common part of the policies over footprints of boxes in space: bev.cu,
// bev_fast.cu.
#pragma once

#include "nms/rectangle.cuh"

struct BevFootprints : Footprints<SolidKind> {
    static constexpr bool kHasThresholds = true;
    static constexpr uint32_t kGeometryVectors = 2;

    __device__ static void prepare(const Candidate& c, float4* geometry) {
        store(footprint_of(c), c.rank.class_index, geometry);
    }

    __device__ static bool is_too_far(const NmsSettings& settings, const Rectangle& a,
                                      const Rectangle& b) {
        const float dx = b.x - a.x;
        const float dy = b.y - a.y;
        return dx * dx + dy * dy > settings.squared_search_distance;
    }

    // Whether the pairs from `first` to before `last` have these classes, in either order.
    __device__ static bool has_pair(const NmsArgs<Candidate>& args, uint32_t first, uint32_t last,
                                    uint32_t a, uint32_t b) {
        const auto& pairs = args.parameters.pairs;
        for (uint32_t i = first; i < last && i < pairs.len; ++i) {
            const uint2 pair = pairs[i];
            if ((pair.x == a && pair.y == b) || (pair.x == b && pair.y == a)) return true;
        }
        return false;
    }
};
