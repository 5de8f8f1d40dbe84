// Decodes anchor heads, crates/ops/src/decode/anchor/mod.rs, and selects the best
// candidates, crates/ops/src/decode/select/mod.rs, in one kernel.
//
// Thread mapping: a thread reads the class logits of kItems anchors, a block apart,
// in memory order. Anchors whose logit passes are listed in shared memory and
// distributed over the threads, which decode their boxes. Candidates are appended by
// select.cuh.

#include "decode/logit.cuh"
#include "decode/select.cuh"
#include "decode/threshold.cuh"

namespace decode_anchor {

using selection::kThreads;
using selection::widened;

constexpr uint32_t kItems = 4;
constexpr uint32_t kNoClass = 0xffffffffu;
constexpr float kPi = 3.14159274f;

// The structs in Rust: crates/ops/src/decode/anchor/kernels.rs.
struct Anchor {
    float size_m[3];  // length, width, height
    float center_z_m;
};

template <typename T>
struct Args {
    selection::Slices<Candidate3d> selection;  // at most one per anchor
    Slice<const T> classes;
    Slice<const T> boxes;
    Slice<const T> directions;         // none: no direction classifier
    Slice<const uint32_t> num_voxels;  // 0: no anchor passes
    Slice<const float> bound;          // the threshold of the logits
    Thresholds thresholds;
    Slice<const Anchor> anchors;  // by class
    Slice<const float> rotations;
    uint32_t num_cells;
    uint32_t num_columns;
    uint32_t num_anchors;  // of a cell
    uint32_t num_classes;
    uint32_t channels_last;
    float direction_offset;
    // The first anchor along x and y, and the distance of anchors.
    float first[2];
    float step[2];
};

// The position of an anchor: its cell and its index in the cell.
struct AnchorPosition {
    uint32_t cell;
    uint32_t anchor;
};

// An anchor whose logit passes.
struct Passing {
    AnchorPosition position;
    float logit;
    uint32_t class_index;
};

template <typename T>
__device__ AnchorPosition position_of(const Args<T>& args, uint32_t item) {
    if (args.channels_last != 0) {
        const uint32_t cell = item / args.num_anchors;
        return {cell, item - cell * args.num_anchors};
    }
    const uint32_t anchor = item / args.num_cells;
    return {item - anchor * args.num_cells, anchor};
}

template <typename T>
__device__ float value_at(const Args<T>& args, Slice<const T> map, uint32_t per_anchor,
                          const AnchorPosition& position, uint32_t channel) {
    const uint64_t of_cell = position.anchor * per_anchor + channel;
    const uint64_t num_channels = static_cast<uint64_t>(args.num_anchors) * per_anchor;
    return widened(map[args.channels_last != 0 ? position.cell * num_channels + of_cell
                                               : of_cell * args.num_cells + position.cell]);
}

// An angle normalized to [0, period).
__device__ inline float wrapped(float angle, float period) {
    return angle - floorf(__fdiv_rn(angle, period)) * period;
}

// Decodes an anchor whose logit passes; false if it is no candidate.
template <typename T>
__device__ bool decode_box(const Args<T>& args, const Passing& passing, Candidate3d& candidate) {
    const auto [position, logit, class_index] = passing;
    float residuals[7];
#pragma unroll
    for (uint32_t i = 0; i < 7; ++i) residuals[i] = value_at(args, args.boxes, 7, position, i);
    const uint32_t num_rotations = static_cast<uint32_t>(args.rotations.len);
    const Anchor anchor = args.anchors[position.anchor / num_rotations];
    const float diagonal =
        __fsqrt_rn(anchor.size_m[0] * anchor.size_m[0] + anchor.size_m[1] * anchor.size_m[1]);
    const float column = static_cast<float>(position.cell % args.num_columns);
    const float row = static_cast<float>(position.cell / args.num_columns);
    candidate.center[0] = residuals[0] * diagonal + (column * args.step[0] + args.first[0]);
    candidate.center[1] = residuals[1] * diagonal + (row * args.step[1] + args.first[1]);
    candidate.center[2] = residuals[2] * anchor.size_m[2] + anchor.center_z_m;
    candidate.length = exponential(residuals[3]) * anchor.size_m[0];
    candidate.width = exponential(residuals[4]) * anchor.size_m[1];
    candidate.height = exponential(residuals[5]) * anchor.size_m[2];
    float yaw = residuals[6] + args.rotations[position.anchor % num_rotations];
    bool is_valid = true;
    if (args.directions.len != 0) {
        const float first = value_at(args, args.directions, 2, position, 0);
        const float second = value_at(args, args.directions, 2, position, 1);
        is_valid = !isnan(first) && !isnan(second);
        yaw = wrapped(yaw - args.direction_offset, kPi) + args.direction_offset;
        if (first < second) yaw = yaw + kPi;
    }
    yaw = wrapped(yaw + kPi, 2.0f * kPi) - kPi;
    candidate.yaw = yaw;
    const float score = sigmoid(logit);
    candidate.rank = {score, class_index, position.cell * args.num_anchors + position.anchor};
    return score >= args.thresholds.at_center(class_index, candidate.center) &&
           selection::check_box(args.selection, is_valid && has_valid_box(candidate));
}

template <typename T>
__device__ void decode(const Args<T>& args) {
    __shared__ selection::Shared shared;
    __shared__ Passing passing[kThreads * kItems];
    __shared__ uint32_t num_passing;
    if (threadIdx.x == 0) num_passing = 0;
    __syncthreads();
    const uint32_t num_items = args.num_cells * args.num_anchors;
    const uint32_t first = blockIdx.x * kThreads * kItems + threadIdx.x;
    const float bound = args.bound[0];
    const bool has_voxels = args.num_voxels[0] != 0;
    const bool may_pass = has_voxels && !isnan(bound);
    uint32_t num_nan = 0;
#pragma unroll
    for (uint32_t k = 0; k < kItems; ++k) {
        const uint32_t item = first + k * kThreads;
        if (item >= num_items) continue;
        const AnchorPosition position = position_of(args, item);
        float best = 0.0f;
        uint32_t best_class = kNoClass;
        bool has_nan = false;
        for (uint32_t c = 0; c < args.num_classes; ++c) {
            const float logit = value_at(args, args.classes, args.num_classes, position, c);
            has_nan |= isnan(logit);
            if (!isnan(logit) && (best_class == kNoClass || logit > best)) {
                best = logit;
                best_class = c;
            }
        }
        num_nan += has_nan;
        if (may_pass && best_class != kNoClass && best >= bound) {
            passing[atomicAdd(&num_passing, 1)] = {position, best, best_class};
        }
    }
    if (has_voxels) selection::count_nan(args.selection, num_nan);
    __syncthreads();
    const auto nothing = [](auto...) {};
    const auto decode = [&](uint32_t i, Candidate3d& candidate) {
        return decode_box(args, passing[i], candidate);
    };
    selection::append(args.selection, shared, num_passing, decode, nothing, nothing);
}

}  // namespace decode_anchor

extern "C" __global__ void __launch_bounds__(selection::kThreads, 3)
    decode_anchor_f32(const __grid_constant__ decode_anchor::Args<float> args) {
    decode_anchor::decode(args);
}

extern "C" __global__ void __launch_bounds__(selection::kThreads, 3)
    decode_anchor_f16(const __grid_constant__ decode_anchor::Args<__half> args) {
    decode_anchor::decode(args);
}
