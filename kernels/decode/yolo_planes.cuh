// Heads of planes, without objectness.
#pragma once

#include "decode/yolo.cuh"

namespace yolo {

// The columns of axis-aligned boxes: cx cy w h, then a plane per class.
struct AlignedColumns {
    using Candidate = Candidate2d;
    static constexpr uint32_t kNumbers = 4;

    __device__ static Candidate make(const float* box, const Rank& rank) {
        return from_center({box[0], box[1], box[2], box[3]}, rank);
    }
};

// The columns of rotated boxes: the same, then a plane of angles.
struct RotatedColumns {
    using Candidate = CandidateRotated;
    static constexpr uint32_t kNumbers = 5;

    // As `RotatedBox2d::regularized`. The remainder is exact.
    __device__ static Candidate make(const float* box, const Rank& rank) {
        constexpr float kPi = 3.14159274f;
        constexpr float kHalfPi = 1.57079637f;
        float angle = fmodf(box[4], kPi);
        if (angle < 0.0f) angle += kPi;
        if (angle >= kHalfPi) return {box[0], box[1], box[3], box[2], angle - kHalfPi, rank};
        return {box[0], box[1], box[2], box[3], angle, rank};
    }
};

// A block decodes kLanes columns, each warp a range of the classes, in ascending order.
template <typename Columns, typename T>
__device__ void decode_planes(const Args<T, typename Columns::Candidate>& args) {
    __shared__ FoundCandidates<typename Columns::Candidate> found;
    __shared__ Shared shared;
    __shared__ float bests[kWarps][kLanes];
    __shared__ uint32_t classes[kWarps][kLanes];
    __shared__ float boxes[Columns::kNumbers][kLanes];
    __shared__ uint32_t nan_lanes[kWarps];
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
    bool has_nan = false;
    if (is_column) {
        const T* values = args.outputs[0].data + column;
        if (warp < Columns::kNumbers) {
            const uint32_t plane = warp < 4 ? warp : 4 + args.num_classes;
            boxes[warp][lane] = widened(values[plane * distance]);
        }
#pragma unroll 10
        for (uint32_t c = warp * share; c < end; ++c) {
            const float value = widened(values[(4 + c) * distance]);
            has_nan |= isnan(value);
            if (value > best) {
                best = value;
                best_class = c;
            }
        }
    }
    bests[warp][lane] = best;
    classes[warp][lane] = best_class;
    const uint32_t nan_votes = __ballot_sync(kAllLanes, has_nan);
    if (lane == 0) nan_lanes[warp] = nan_votes;
    __syncthreads();
    if (warp == 1) {
        const uint32_t votes = __reduce_or_sync(kAllLanes, lane < kWarps ? nan_lanes[lane] : 0);
        if (lane == 0) selection::count_nan(args.selection, __popc(votes));
    }
    if (warp == 0 && is_column) {
        for (uint32_t other = 1; other < kWarps; ++other) {
            if (bests[other][lane] > best) {
                best = bests[other][lane];
                best_class = classes[other][lane];
            }
        }
        if (best >= score_threshold(args)) {
            float box[Columns::kNumbers];
#pragma unroll
            for (uint32_t i = 0; i < Columns::kNumbers; ++i) box[i] = boxes[i][lane];
            add(args, found, Columns::make(box, {best, best_class, static_cast<uint32_t>(column)}));
        }
    }
    append(args, found, shared);
}

}  // namespace yolo
