// Shared by all layouts of YOLO heads: crates/ops/src/decode/yolo/mod.rs.
#pragma once

#include "decode/logit.cuh"
#include "decode/select.cuh"
#include "shared/warp.cuh"

namespace yolo {

using selection::kThreads;
using selection::Shared;
using selection::widened;

constexpr uint32_t kWarps = kThreads / kLanes;
constexpr uint32_t kMaxOutputs = 8;

// The structs in Rust: crates/ops/src/decode/yolo/kernels.rs.
struct Level {
    uint32_t first_row;
    uint32_t num_columns;
    uint32_t num_cells;
    uint32_t first_anchor;
    float stride;
    uint32_t channels_last;
};

template <typename T, typename Candidate = Candidate2d>
struct Args {
    Slice<const T> outputs[kMaxOutputs];
    selection::Slices<Candidate> selection;  // at most one per row
    Slice<const float> bound;                // the score threshold as a logit
    Slice<const float2> anchors;
    uint32_t num_rows;
    uint32_t num_classes;
    uint32_t num_levels;
    uint32_t logits;
    uint32_t normalized;
    float network_width;
    float network_height;
    uint32_t reserved;
    Level levels[kMaxOutputs];
    uint32_t row_columns;  // of final rows
    uint32_t row_box;      // the first column of the box
    uint32_t row_score;
    uint32_t row_class;  // kLast: the labels are the second tensor
};

template <typename T, typename Candidate>
__device__ float score_threshold(const Args<T, Candidate>& args) {
    return args.selection.settings[0].score_threshold;
}

// The candidates of a block.
template <typename Candidate>
struct FoundCandidates {
    Candidate items[kThreads];
    uint32_t num;
};
using Found = FoundCandidates<Candidate2d>;

template <typename Candidate>
__device__ bool is_valid(const Candidate& candidate) {
    return isfinite(candidate.rank.score) && has_valid_box(candidate);
}

// For one thread: adds a candidate whose score passes, or counts it if it is no box.
template <typename T, typename Candidate>
__device__ void add(const Args<T, Candidate>& args, FoundCandidates<Candidate>& found,
                    const Candidate& candidate) {
    if (selection::check_box(args.selection, is_valid(candidate))) {
        found.items[atomicAdd(&found.num, 1)] = candidate;
    }
}

// For all threads of a block, once: appends the block's candidates.
template <typename T, typename Candidate>
__device__ void append(const Args<T, Candidate>& args, const FoundCandidates<Candidate>& found,
                       Shared& shared) {
    __syncthreads();
    const auto take = [&](uint32_t i, Candidate& candidate) {
        candidate = found.items[i];
        return true;
    };
    const auto nothing = [](auto...) {};
    selection::append(args.selection, shared, found.num, take, nothing, nothing);
}

__device__ inline Candidate2d from_center(float4 box, const Rank& rank) {
    const float half_width = box.z * 0.5f;
    const float half_height = box.w * 0.5f;
    return {box.x - half_width, box.y - half_height, box.x + half_width, box.y + half_height, rank};
}

// The class with the largest value, the lowest one on ties; kLast if no value is above
// minus infinity. Whether any value is NaN.
struct BestClass {
    float value;
    uint32_t class_index;
    bool has_nan;
};

// For a warp: the best of the classes, whose values are `distance` apart.
template <typename T>
__device__ BestClass best_class(const T* classes, uint64_t distance, uint32_t num_classes) {
    constexpr uint32_t kAtOnce = 4;
    BestClass best = {-INFINITY, kLast, false};
    for (uint32_t first = lane_of(); first < num_classes; first += kAtOnce * kLanes) {
        // All loads in flight before the first comparison.
        T values[kAtOnce] = {};
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            const uint32_t c = first + k * kLanes;
            if (c < num_classes) values[k] = classes[c * distance];
        }
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            const uint32_t c = first + k * kLanes;
            const float value = widened(values[k]);
            best.has_nan |= isnan(value);
            if (c < num_classes && value > best.value) {
                best.value = value;
                best.class_index = c;
            }
        }
    }
    // A word that ascends with the value; zeros of both signs are equal.
    const uint32_t word = ~order_word(best.value + 0.0f, best.class_index != kLast);
    const uint32_t highest = __reduce_max_sync(kAllLanes, word);
    const uint32_t index = __reduce_min_sync(kAllLanes, word == highest ? best.class_index : kLast);
    return {__shfl_sync(kAllLanes, best.value, index % kLanes), highest == 0 ? kLast : index,
            __any_sync(kAllLanes, best.has_nan) != 0};
}

}  // namespace yolo
