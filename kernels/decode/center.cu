// Decodes CenterPoint heads, crates/ops/src/decode/center/mod.rs, and selects the best
// candidates, crates/ops/src/decode/select/mod.rs, in one kernel.
//
// Thread mapping: a thread reads the heat of kCells cells of one task, a block apart.
// Cells whose heat passes are listed in shared memory and distributed over the
// threads, which decode their boxes. Candidates are appended by select.cuh.

#include "decode/logit.cuh"
#include "decode/select.cuh"
#include "decode/threshold.cuh"
#include "decode/yaw.cuh"

namespace decode_center {

using selection::kThreads;
using selection::widened;

constexpr uint32_t kCells = 4;
constexpr uint32_t kMaxTasks = 16;
constexpr uint32_t kNoClass = 0xffffffffu;

// The structs in Rust: crates/ops/src/decode/center/kernels.rs.
struct Settings {
    uint32_t has_range;
    float min[3];
    float max[3];
    uint32_t reserved;
};

template <typename T>
struct Task {
    Slice<const T> heatmap;
    Slice<const T> offset;
    Slice<const T> height;
    Slice<const T> size;
    Slice<const T> rotation;
    Slice<const T> velocity;
    uint32_t num_rows;
    uint32_t num_columns;
    uint32_t first_source;
    uint32_t first_class;
    uint32_t num_classes;
    uint32_t reserved;
};

template <typename T>
struct Args {
    selection::Slices<Candidate3d> selection;  // at most one per cell
    Slice<Motion> motions;                     // by found candidate
    Slice<uint32_t> places;                    // by candidate: its index among the found
    Slice<const uint32_t> num_voxels;          // 0: no cell passes
    Slice<const Settings> settings;
    Slice<const float> bounds;      // by task: the threshold of the heat
    Slice<const uint32_t> classes;  // task by task, the class of each channel
    Thresholds thresholds;
    Slice<const float> least_yaw_norms;  // by class
    float origin[2];
    float cell_size[2];
    uint32_t heat_is_logit;
    uint32_t width_comes_first;
    uint32_t size_is_log;
    uint32_t yaw_turns_clockwise;
    uint32_t has_velocity;
    uint32_t has_variance;
    Task<T> tasks[kMaxTasks];
};

// A cell whose heat passes.
struct Passing {
    uint32_t cell;
    float heat;
    uint32_t class_index;
};

// The values of a cell in a map, from a first channel on.
template <typename T, uint32_t kChannels>
struct Values {
    float at[kChannels];

    __device__ Values(Slice<const T> map, uint32_t num_cells, uint32_t cell, uint32_t first) {
#pragma unroll
        for (uint32_t c = 0; c < kChannels; ++c) {
            at[c] = widened(map[static_cast<uint64_t>(first + c) * num_cells + cell]);
        }
    }

    __device__ bool is_finite() const {
        bool all = true;
#pragma unroll
        for (uint32_t c = 0; c < kChannels; ++c) all &= isfinite(at[c]);
        return all;
    }
};

// Reads the variances of a box; `size` is in the order of the channels. False if a
// variance is not finite.
template <typename T>
__device__ bool read_variances(const Args<T>& args, const Task<T>& task, uint32_t cell,
                               const float* size, const Values<T, 2>& rotation, Motion& out) {
    const uint32_t num_cells = task.num_rows * task.num_columns;
    const Values<T, 2> offset(task.offset, num_cells, cell, 2);
    const Values<T, 1> height(task.height, num_cells, cell, 1);
    const Values<T, 3> sizes(task.size, num_cells, cell, 3);
    const Values<T, 2> turns(task.rotation, num_cells, cell, 2);
    const float cell_x = args.cell_size[0];
    const float cell_y = args.cell_size[1];
    out.center_variance[0] = exponential(offset.at[0]) * (cell_x * cell_x);
    out.center_variance[1] = exponential(offset.at[1]) * (cell_y * cell_y);
    out.center_variance[2] = exponential(height.at[0]);
    bool is_finite = true;
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        float variance = exponential(sizes.at[i]);
        if (args.size_is_log != 0) variance = variance * (size[i] * size[i]);
        const uint32_t to = args.width_comes_first != 0 && i < 2 ? 1 - i : i;
        out.size_variance[to] = variance;
        is_finite &= isfinite(variance) && isfinite(out.center_variance[i]);
    }
    const float sine = rotation.at[0];
    const float cosine = rotation.at[1];
    const float of_sine = exponential(turns.at[0]);
    const float of_cosine = exponential(turns.at[1]);
    const float square = sine * sine + cosine * cosine;
    out.yaw_variance =
        __fdiv_rn(cosine * cosine * of_sine + sine * sine * of_cosine, square * square);
    is_finite &= isfinite(out.yaw_variance);
    if (args.has_velocity != 0) {
        const Values<T, 2> velocity(task.velocity, num_cells, cell, 2);
        out.velocity_variance[0] = exponential(velocity.at[0]);
        out.velocity_variance[1] = exponential(velocity.at[1]);
        is_finite &= isfinite(out.velocity_variance[0]) && isfinite(out.velocity_variance[1]);
    }
    return is_finite;
}

// Decodes a cell whose heat passes; false if it is no candidate.
template <typename T>
__device__ bool decode_cell(const Args<T>& args, const Task<T>& task, const Passing& passing,
                            Candidate3d& candidate, Motion& motion) {
    const auto [cell, heat, class_index] = passing;
    const uint32_t num_cells = task.num_rows * task.num_columns;
    const Values<T, 2> offset(task.offset, num_cells, cell, 0);
    const Values<T, 1> height(task.height, num_cells, cell, 0);
    const Values<T, 3> raw_size(task.size, num_cells, cell, 0);
    const Values<T, 2> rotation(task.rotation, num_cells, cell, 0);
    const float score = args.heat_is_logit != 0 ? sigmoid(heat) : heat;
    const float column = static_cast<float>(cell % task.num_columns);
    const float row = static_cast<float>(cell / task.num_columns);
    const float center[3] = {
        (column + offset.at[0]) * args.cell_size[0] + args.origin[0],
        (row + offset.at[1]) * args.cell_size[1] + args.origin[1],
        height.at[0],
    };
    bool passes = score >= args.thresholds.at_center(class_index, center);
    const float sine = rotation.at[0];
    const float cosine = rotation.at[1];
    if (class_index < args.least_yaw_norms.len) {
        const float norm = __fsqrt_rn(sine * sine + cosine * cosine);
        passes &= isnan(norm) || norm >= args.least_yaw_norms[class_index];
    }
    const Settings& settings = args.settings[0];
    const bool has_center = isfinite(center[0]) && isfinite(center[1]) && isfinite(center[2]);
    float size[3];
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        if (settings.has_range != 0 && has_center) {
            passes &= center[i] >= settings.min[i] && center[i] < settings.max[i];
        }
        size[i] = args.size_is_log != 0 ? exponential(raw_size.at[i]) : raw_size.at[i];
        candidate.center[i] = center[i];
    }
    const bool swapped = args.width_comes_first != 0;
    candidate.length = swapped ? size[1] : size[0];
    candidate.width = swapped ? size[0] : size[1];
    candidate.height = size[2];
    candidate.yaw = yaw_of(sine, cosine, args.yaw_turns_clockwise != 0);
    candidate.rank = {score, class_index, task.first_source + cell};
    bool is_valid = has_valid_box(candidate) && isfinite(sine) && isfinite(cosine);
    if (args.has_velocity != 0) {
        const Values<T, 2> velocity(task.velocity, num_cells, cell, 0);
        motion.velocity[0] = velocity.at[0];
        motion.velocity[1] = velocity.at[1];
        is_valid &= velocity.is_finite();
    }
    if (args.has_variance != 0) {
        is_valid &= read_variances(args, task, cell, size, rotation, motion);
    }
    return passes && selection::check_box(args.selection, is_valid);
}

template <typename T>
__device__ void decode(const Args<T>& args) {
    __shared__ selection::Shared shared;
    __shared__ Passing passing[kThreads * kCells];
    __shared__ uint32_t num_passing;
    if (threadIdx.x == 0) num_passing = 0;
    const Task<T>& task = args.tasks[blockIdx.y];
    const uint32_t num_cells = task.num_rows * task.num_columns;
    const uint32_t first = blockIdx.x * kThreads * kCells + threadIdx.x;
    const float bound = args.bounds[blockIdx.y];
    const bool has_voxels = args.num_voxels[0] != 0;
    float best[kCells];
    uint32_t best_class[kCells];
    uint32_t nan_cells = 0;  // a bit per cell of the thread
#pragma unroll
    for (uint32_t k = 0; k < kCells; ++k) {
        best[k] = -INFINITY;
        best_class[k] = kNoClass;
    }
#pragma unroll 5
    for (uint32_t channel = 0; channel < task.num_classes; ++channel) {
        const uint32_t class_index = args.classes[task.first_class + channel];
        const T* heat = task.heatmap.data + static_cast<uint64_t>(channel) * num_cells;
#pragma unroll
        for (uint32_t k = 0; k < kCells; ++k) {
            const uint32_t cell = first + k * kThreads;
            const float value = cell < num_cells ? widened(heat[cell]) : -INFINITY;
            if (isnan(value)) nan_cells |= 1u << k;
            if (value > best[k] || (value == best[k] && class_index < best_class[k])) {
                best[k] = value;
                best_class[k] = class_index;
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (uint32_t k = 0; k < kCells; ++k) {
        const uint32_t cell = first + k * kThreads;
        if (has_voxels && cell < num_cells && best[k] >= bound && best_class[k] != kNoClass) {
            passing[atomicAdd(&num_passing, 1)] = {cell, best[k], best_class[k]};
        }
    }
    if (has_voxels) selection::count_nan(args.selection, __popc(nan_cells));
    __syncthreads();
    Motion motion = {};
    selection::append(
        args.selection, shared, num_passing,
        [&](uint32_t i, Candidate3d& candidate) {
            return decode_cell(args, task, passing[i], candidate, motion);
        },
        [&](uint32_t index) {
            if (index < args.motions.len) args.motions[index] = motion;
        },
        [&](uint32_t position, uint32_t index) {
            if (position < args.places.len) args.places[position] = index;
        });
}

}  // namespace decode_center

extern "C" __global__ void __launch_bounds__(selection::kThreads, 3)
    decode_center_f32(const __grid_constant__ decode_center::Args<float> args) {
    decode_center::decode(args);
}

extern "C" __global__ void __launch_bounds__(selection::kThreads, 3)
    decode_center_f16(const __grid_constant__ decode_center::Args<__half> args) {
    decode_center::decode(args);
}
