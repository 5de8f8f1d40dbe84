// Heads of planes, without objectness.
#pragma once

#include "decode_yolo.cuh"

namespace yolo {

// Planes of columns: cx cy w h, then a plane per class. A block decodes kLanes
// columns, each warp a range of the classes, in ascending order.
template <typename T>
__device__ void decode_planes(const Args<T>& args) {
    __shared__ Found found;
    __shared__ Shared shared;
    __shared__ float bests[kWarps][kLanes];
    __shared__ uint32_t classes[kWarps][kLanes];
    __shared__ float boxes[4][kLanes];
    if (threadIdx.x == 0) found.num = 0;
    const uint32_t lane = lane_of();
    const uint32_t warp = warp_of();
    const uint64_t column = static_cast<uint64_t>(blockIdx.x) * kLanes + lane;
    const uint64_t distance = args.num_rows;
    const bool is_column = column < args.num_rows;
    const uint32_t share = (args.num_classes + kWarps - 1) / kWarps;
    const uint32_t end = min((warp + 1) * share, args.num_classes);
    float best = -INFINITY;
    uint32_t best_class = 0;
    if (is_column) {
        const T* values = args.outputs[0].data + column;
        if (warp < 4) boxes[warp][lane] = widened(values[warp * distance]);
#pragma unroll 10
        for (uint32_t c = warp * share; c < end; ++c) {
            const float value = widened(values[(4 + c) * distance]);
            if (value > best) {
                best = value;
                best_class = c;
            }
        }
    }
    bests[warp][lane] = best;
    classes[warp][lane] = best_class;
    __syncthreads();
    if (warp == 0 && is_column) {
        for (uint32_t other = 1; other < kWarps; ++other) {
            if (bests[other][lane] > best) {
                best = bests[other][lane];
                best_class = classes[other][lane];
            }
        }
        if (best >= score_threshold(args)) {
            const float4 box = {boxes[0][lane], boxes[1][lane], boxes[2][lane], boxes[3][lane]};
            add(found, from_center(box, {best, best_class, static_cast<uint32_t>(column)}));
        }
    }
    append(args, found, shared);
}

}  // namespace yolo
