// Decodes the outputs of VoxelNeXt heads on the sites of a map, crates/ops/src/decode/sites/mod.rs,
// and selects the best candidates, crates/ops/src/decode/select/mod.rs, in one kernel.
//
// Grid: x by sites, y by the classes of all tasks. A thread reads the heat of a site for the class
// of its block. Sites whose heat passes are listed in shared memory and decoded by the first
// threads.

#include "decode/logit.cuh"
#include "decode/select.cuh"
#include "decode/threshold.cuh"
#include "decode/yaw.cuh"
#include "sparse/conv.cuh"

namespace decode_sites {

using selection::kThreads;

constexpr uint32_t kMaxTasks = 16;

// The structs in Rust: crates/ops/src/decode/sites/kernels.rs. Outputs are features of sites:
// zeros, then padded rows.
struct Task {
    Slice<const uint8_t> heatmap;
    Slice<const uint8_t> offset;
    Slice<const uint8_t> height;
    Slice<const uint8_t> size;
    Slice<const uint8_t> rotation;
    Slice<const uint8_t> velocity;
    Slice<const uint8_t> iou;
    uint32_t first_source;
    uint32_t first_class;
    uint32_t num_classes;
    uint32_t heat_len;  // values of a row of the heat map
};

struct Args {
    selection::Slices<Candidate3d> selection;  // at most one per site and class
    Slice<Motion> motions;                     // by found candidate
    Slice<uint32_t> places;                    // by candidate: its index among the found
    Slice<const uint32_t> sites;               // linear indices on the map
    Slice<const uint32_t> counts;              // the first is the number of sites
    Slice<const float> range;                  // of centres: least x, y, z, then greatest
    Slice<const float> bounds;                 // by class of a task: the threshold of the heat
    Slice<const uint32_t> classes;             // task by task
    Thresholds thresholds;
    Slice<const float> least_yaw_norms;  // by class
    Slice<const float> iou_weights;      // by class
    float origin[2];
    float cell_size[2];
    uint32_t num_columns;
    uint32_t capacity;  // sites
    uint32_t row_len;   // values of a row of the other outputs
    uint32_t num_tasks;
    uint32_t has_velocity;
    uint32_t width_comes_first;
    uint32_t yaw_turns_clockwise;
    uint32_t reserved;
    Task tasks[kMaxTasks];
};

// A site whose heat passes.
struct Passing {
    uint32_t row;
    float heat;
};

template <typename E>
__device__ float value_at(Slice<const uint8_t> output, uint64_t row, uint32_t row_len,
                          uint32_t channel) {
    const auto* rows = reinterpret_cast<const E*>(output.data + sparse_conv::kZeroBytes);
    return sparse_conv::loaded(rows[row * row_len + channel]);
}

// The score with a predicted overlap.
__device__ inline float rectified(float score, float overlap, float weight) {
    const float iou = (overlap + 1.0f) * 0.5f;
    // Not fminf and fmaxf, which drop NaN.
    const float limited = iou < 0.0f ? 0.0f : iou > 1.0f ? 1.0f : iou;
    return power(score, 1.0f - weight) * power(limited, weight);
}

// Decodes a site whose heat passes; false if it is no candidate.
template <typename E>
__device__ bool decode_site(const Args& args, const Task& task, uint32_t class_index,
                            const Passing& passing, Candidate3d& candidate, Motion& motion) {
    const uint32_t row = passing.row;
    const auto value = [&](Slice<const uint8_t> output, uint32_t channel) {
        return value_at<E>(output, row, args.row_len, channel);
    };
    const uint32_t cell = args.sites[row];
    const auto column = static_cast<float>(cell % args.num_columns);
    const auto line = static_cast<float>(cell / args.num_columns);
    float score = sigmoid(passing.heat);
    const float center[3] = {
        (column + value(task.offset, 0)) * args.cell_size[0] + args.origin[0],
        (line + value(task.offset, 1)) * args.cell_size[1] + args.origin[1],
        value(task.height, 0),
    };
    bool passes = score >= args.thresholds.at_center(class_index, center);
    const float cosine = value(task.rotation, 0);
    const float sine = value(task.rotation, 1);
    if (class_index < args.least_yaw_norms.len) {
        const float norm = __fsqrt_rn(sine * sine + cosine * cosine);
        passes &= isnan(norm) || norm >= args.least_yaw_norms[class_index];
    }
    const bool has_center = isfinite(center[0]) && isfinite(center[1]) && isfinite(center[2]);
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        if (has_center) passes &= center[i] >= args.range[i] && center[i] < args.range[3 + i];
        candidate.center[i] = center[i];
    }
    const uint32_t first = args.width_comes_first != 0 ? 1 : 0;
    candidate.length = exponential(value(task.size, first));
    candidate.width = exponential(value(task.size, 1 - first));
    candidate.height = exponential(value(task.size, 2));
    candidate.yaw = yaw_of(sine, cosine, args.yaw_turns_clockwise != 0);
    if (class_index < args.iou_weights.len) {
        score = rectified(score, value(task.iou, 0), args.iou_weights[class_index]);
    }
    candidate.rank = {score, class_index, task.first_source + cell};
    bool is_valid =
        has_valid_box(candidate) && isfinite(sine) && isfinite(cosine) && isfinite(score);
    if (args.has_velocity != 0) {
        motion.velocity[0] = value(task.velocity, 0);
        motion.velocity[1] = value(task.velocity, 1);
        is_valid &= isfinite(motion.velocity[0]) && isfinite(motion.velocity[1]);
    }
    return passes && selection::check_box(args.selection, is_valid);
}

template <typename E>
__device__ void decode(const Args& args) {
    __shared__ selection::Shared shared;
    __shared__ Passing passing[kThreads];
    __shared__ uint32_t num_passing;
    if (threadIdx.x == 0) num_passing = 0;
    __syncthreads();
    uint32_t at = 0;
    while (at + 1 < args.num_tasks && blockIdx.y >= args.tasks[at + 1].first_class) ++at;
    const Task& task = args.tasks[at];
    const uint32_t channel = blockIdx.y - task.first_class;
    const uint32_t class_index = args.classes[blockIdx.y];
    const uint32_t row = blockIdx.x * kThreads + threadIdx.x;
    if (row < args.capacity && row < args.counts[0]) {
        const float heat = value_at<E>(task.heatmap, row, task.heat_len, channel);
        selection::count_nan(args.selection, isnan(heat) ? 1 : 0);
        // False for NaN.
        if (heat >= args.bounds[blockIdx.y]) passing[atomicAdd(&num_passing, 1)] = {row, heat};
    }
    __syncthreads();
    Motion motion = {};
    selection::append(
        args.selection, shared, num_passing,
        [&](uint32_t i, Candidate3d& candidate) {
            return decode_site<E>(args, task, class_index, passing[i], candidate, motion);
        },
        [&](uint32_t index) {
            if (index < args.motions.len) args.motions[index] = motion;
        },
        [&](uint32_t position, uint32_t index) {
            if (position < args.places.len) args.places[position] = index;
        });
}

}  // namespace decode_sites

// decode_sites_f32, decode_sites_f16, decode_sites_bf16.
#define DECODE_SITES(T, suffix)                                                  \
    extern "C" __global__ void __launch_bounds__(selection::kThreads, 3)         \
        decode_sites_##suffix(const __grid_constant__ decode_sites::Args args) { \
        decode_sites::decode<T>(args);                                           \
    }

DECODE_SITES(float, f32)
DECODE_SITES(__half, f16)
DECODE_SITES(__nv_bfloat16, bf16)
