// Heads whose outputs are final boxes: end to end, and DETR.
#pragma once

#include "decode/yolo.cuh"
#include "decode/yolo_planes.cuh"

namespace yolo {

// A class given as a float, truncated; kLast if it is no class.
__device__ inline uint32_t class_of(float value, uint32_t num_classes) {
    const bool is_class = value >= 0.0f && value < static_cast<float>(num_classes);
    return is_class ? static_cast<uint32_t>(value) : kLast;
}

template <typename T>
__device__ float4 four(const T* values) {
    return {widened(values[0]), widened(values[1]), widened(values[2]), widened(values[3])};
}

// For all threads, once: appends the candidates of `decode(row, candidate)`, a row per
// thread.
template <typename T, typename Candidate, typename Decode>
__device__ void append_rows(const Args<T, Candidate>& args, const Decode& decode) {
    __shared__ Shared shared;
    const uint32_t first = blockIdx.x * kThreads;
    const uint32_t num = first < args.num_rows ? min(args.num_rows - first, kThreads) : 0;
    const auto of_thread = [&](uint32_t i, Candidate& candidate) {
        return decode(first + i, candidate) &&
               selection::check_box(args.selection, is_valid(candidate));
    };
    const auto nothing = [](auto...) {};
    selection::append(args.selection, shared, num, of_thread, nothing, nothing);
}

// Whether a final row passes, with its rank.
template <typename T, typename Candidate>
__device__ bool passes_final(const Args<T, Candidate>& args, uint32_t row, const T* values,
                             Rank& rank) {
    const bool has_labels = args.row_class == kLast;
    const float score = widened(values[args.row_score]);
    const float label =
        has_labels ? widened(args.outputs[1][row]) : widened(values[args.row_class]);
    const uint32_t class_index = class_of(label, args.num_classes);
    rank = {score, class_index, row};
    selection::count_nan(args.selection, isnan(score));
    if (!(score >= score_threshold(args))) return false;
    // Padding.
    if (has_labels && label < 0.0f) return false;
    return selection::check_class(args.selection, class_index);
}

template <typename T, typename Candidate>
__device__ const T* final_row(const Args<T, Candidate>& args, uint32_t row) {
    return args.outputs[0].data + static_cast<uint64_t>(row) * args.row_columns;
}

// Rows with corners.
template <typename T>
__device__ void decode_end_to_end(const Args<T>& args) {
    append_rows(args, [&](uint32_t row, Candidate2d& candidate) {
        const T* values = final_row(args, row);
        const float4 box = four(values + args.row_box);
        Rank rank;
        const bool passes = passes_final(args, row, values, rank);
        candidate = {box.x, box.y, box.z, box.w, rank};
        return passes;
    });
}

// Rows with centre and size; the angle is last.
template <typename T>
__device__ void decode_obb_end_to_end(const Args<T, CandidateRotated>& args) {
    append_rows(args, [&](uint32_t row, CandidateRotated& candidate) {
        const T* values = final_row(args, row);
        const float4 box = four(values + args.row_box);
        const float numbers[] = {box.x, box.y, box.z, box.w, widened(values[args.row_columns - 1])};
        Rank rank;
        const bool passes = passes_final(args, row, values, rank);
        candidate = RotatedColumns::make(numbers, rank);
        return passes;
    });
}

// A row of DETR boxes with its score or logit.
template <typename T>
__device__ Candidate2d detr_candidate(const Args<T>& args, uint32_t row, float value,
                                      uint32_t class_index) {
    const float4 box = four(args.outputs[0].data + static_cast<uint64_t>(row) * 4);
    const Rank rank = {args.logits != 0 ? sigmoid(value) : value, class_index, row};
    if (args.normalized == 0) return {box.x, box.y, box.z, box.w, rank};
    const float width = args.network_width;
    const float height = args.network_height;
    return from_center({box.x * width, box.y * height, box.z * width, box.w * height}, rank);
}

template <typename T>
__device__ float detr_bound(const Args<T>& args) {
    return args.logits != 0 ? args.bound[0] : score_threshold(args);
}

// Boxes, and scores by class: a warp per row.
template <typename T>
__device__ void decode_detr(const Args<T>& args) {
    __shared__ Found found;
    __shared__ Shared shared;
    if (threadIdx.x == 0) found.num = 0;
    __syncthreads();
    const uint32_t row = blockIdx.x * kWarps + warp_of();
    if (row < args.num_rows) {
        const T* scores = args.outputs[1].data + static_cast<uint64_t>(row) * args.num_classes;
        const BestClass best = best_class(scores, 1, args.num_classes);
        if (lane_of() == 0) selection::count_nan(args.selection, best.has_nan);
        if (best.class_index != kLast && best.value >= detr_bound(args) && lane_of() == 0) {
            add(args, found, detr_candidate(args, row, best.value, best.class_index));
        }
    }
    append(args, found, shared);
}

// Boxes, and scores by class that are a candidate each: kWarps rows per block, a thread per score.
template <typename T>
__device__ void decode_detr_classes(const Args<T>& args) {
    __shared__ Shared shared;
    const uint32_t first = blockIdx.x * kWarps;
    const uint32_t num_rows = first < args.num_rows ? min(args.num_rows - first, kWarps) : 0;
    const uint32_t num_classes = args.num_classes;
    const T* scores = args.outputs[1].data + static_cast<uint64_t>(first) * num_classes;
    // A row with a NaN counts once.
    if (warp_of() < num_rows) {
        bool has_nan = false;
        for (uint32_t c = lane_of(); c < num_classes; c += kLanes) {
            has_nan |= isnan(widened(scores[warp_of() * num_classes + c]));
        }
        has_nan = __any_sync(kAllLanes, has_nan) != 0;
        if (lane_of() == 0) selection::count_nan(args.selection, has_nan);
    }
    const float bound = detr_bound(args);
    const auto of_thread = [&](uint32_t i, Candidate2d& candidate) {
        const float value = widened(scores[i]);
        if (!(value >= bound)) return false;
        candidate = detr_candidate(args, first + i / num_classes, value, i % num_classes);
        return selection::check_box(args.selection, is_valid(candidate));
    };
    const auto nothing = [](auto...) {};
    selection::append(args.selection, shared, num_rows * num_classes, of_thread, nothing, nothing);
}

// Boxes, scores and labels.
template <typename T>
__device__ void decode_detr_labels(const Args<T>& args) {
    append_rows(args, [&](uint32_t row, Candidate2d& candidate) {
        const float value = widened(args.outputs[1][row]);
        const uint32_t class_index = class_of(widened(args.outputs[2][row]), args.num_classes);
        selection::count_nan(args.selection, isnan(value));
        if (!(value >= detr_bound(args))) return false;
        if (!selection::check_class(args.selection, class_index)) return false;
        candidate = detr_candidate(args, row, value, class_index);
        return true;
    });
}

}  // namespace yolo
