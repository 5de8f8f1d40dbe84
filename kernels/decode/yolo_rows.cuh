// Heads with objectness: rows `cx cy w h objectness classes`.
#pragma once

#include "decode/yolo.cuh"

namespace yolo {

constexpr uint32_t kRowsPerBlock = 128;

// The address and the stride of a row's values.
template <typename T>
struct RowPlace {
    const T* first;
    uint64_t distance;

    __device__ float number(uint32_t i) const { return widened(first[i * distance]); }
};

template <typename T>
__device__ Level level_of(const Args<T>& args, uint32_t row) {
    Level level = args.levels[0];
#pragma unroll
    for (uint32_t i = 1; i < kMaxOutputs; ++i) {
        if (i < args.num_levels && row >= args.levels[i].first_row) level = args.levels[i];
    }
    return level;
}

// Rows in pixels, activated.
template <typename T>
struct Rows {
    static constexpr bool kLogits = false;

    __device__ static RowPlace<T> place(const Args<T>& args, uint32_t row) {
        const uint64_t length = 5 + args.num_classes;
        return {args.outputs[0].data + row * length, 1};
    }

    // For lanes 0 to 3: one value of the box.
    __device__ static float box_number(const Args<T>&, uint32_t, uint32_t, float value) {
        return value;
    }
};

// The same, with boxes relative to their cells.
template <typename T>
struct Cells : Rows<T> {
    __device__ static float box_number(const Args<T>& args, uint32_t row, uint32_t lane,
                                       float value) {
        const Level level = level_of(args, row);
        const uint32_t cell = row - level.first_row;
        if (lane >= 2) return exponential(value) * level.stride;
        const uint32_t at = lane == 0 ? cell % level.num_columns : cell / level.num_columns;
        return (value + static_cast<float>(at)) * level.stride;
    }
};

// One tensor per level, logits, channels outermost or innermost.
template <typename T>
struct Raw {
    static constexpr bool kLogits = true;

    __device__ static RowPlace<T> place(const Args<T>& args, uint32_t row) {
        const T* values = args.outputs[0].data;
#pragma unroll
        for (uint32_t i = 1; i < kMaxOutputs; ++i) {
            if (i < args.num_levels && row >= args.levels[i].first_row) {
                values = args.outputs[i].data;
            }
        }
        const Level level = level_of(args, row);
        const uint64_t length = 5 + args.num_classes;
        const uint32_t own = row - level.first_row;
        if (level.channels_last != 0) return {values + own * length, 1};
        const uint64_t anchor = own / level.num_cells;
        const uint32_t cell = own % level.num_cells;
        return {values + anchor * length * level.num_cells + cell, level.num_cells};
    }

    __device__ static float box_number(const Args<T>& args, uint32_t row, uint32_t lane,
                                       float value) {
        const Level level = level_of(args, row);
        const uint32_t own = row - level.first_row;
        const uint32_t cell = own % level.num_cells;
        const float twice = sigmoid(value) * 2.0f;
        if (lane < 2) {
            const uint32_t at = lane == 0 ? cell % level.num_columns : cell / level.num_columns;
            return (twice - 0.5f + static_cast<float>(at)) * level.stride;
        }
        const float2 anchor = args.anchors[level.first_anchor + own / level.num_cells];
        return twice * twice * (lane == 2 ? anchor.x : anchor.y);
    }
};

// For a warp: decodes a row whose objectness passes.
template <typename Layout, typename T>
__device__ void decode_row(const Args<T>& args, Found& found, uint32_t row, float objectness) {
    const RowPlace<T> place = Layout::place(args, row);
    float number = place.number(lane_of() % 4);
    const BestClass best =
        best_class(place.first + 5 * place.distance, place.distance, args.num_classes);
    if (lane_of() == 0) selection::count_nan(args.selection, best.has_nan);
    if (best.class_index == kLast) return;
    float score = objectness * best.value;
    if (Layout::kLogits) {
        if (!(best.value >= args.bound[0])) return;
        score = sigmoid(objectness) * sigmoid(best.value);
    }
    if (!(score >= score_threshold(args))) return;
    number = Layout::box_number(args, row, lane_of() % 4, number);
    const float4 box = {__shfl_sync(kAllLanes, number, 0), __shfl_sync(kAllLanes, number, 1),
                        __shfl_sync(kAllLanes, number, 2), __shfl_sync(kAllLanes, number, 3)};
    if (lane_of() == 0) add(args, found, from_center(box, {score, best.class_index, row}));
}

// Half of the threads read one objectness each; a warp decodes a row that passes. The
// rows of a block are far apart, since rows that pass are close together.
template <typename Layout, typename T>
__device__ void decode_rows(const Args<T>& args) {
    __shared__ Found found;
    __shared__ Shared shared;
    __shared__ uint32_t rows[kRowsPerBlock];
    __shared__ float objectness[kRowsPerBlock];
    __shared__ uint32_t num_rows;
    if (threadIdx.x == 0) {
        found.num = 0;
        num_rows = 0;
    }
    const uint64_t row = static_cast<uint64_t>(threadIdx.x) * gridDim.x + blockIdx.x;
    const bool is_row = threadIdx.x < kRowsPerBlock && row < args.num_rows;
    const float own = is_row ? Layout::place(args, static_cast<uint32_t>(row)).number(4) : 0.0f;
    const float least = Layout::kLogits ? args.bound[0] : score_threshold(args);
    const bool passes = is_row && own >= least;
    selection::count_nan(args.selection, isnan(own));
    __syncthreads();
    if (passes) {
        const uint32_t position = atomicAdd(&num_rows, 1);
        rows[position] = static_cast<uint32_t>(row);
        objectness[position] = own;
    }
    __syncthreads();
    for (uint32_t i = warp_of(); i < num_rows; i += kWarps) {
        decode_row<Layout>(args, found, rows[i], objectness[i]);
    }
    append(args, found, shared);
}

}  // namespace yolo
