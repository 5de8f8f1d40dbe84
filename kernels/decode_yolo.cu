// Decoding of YOLO heads: src/ops/decode_yolo/mod.rs, and the choice of the
// best: src/ops/select/mod.rs. One kernel does both.
//
// Blocks read their rows and append what passes: see select.cuh.

#include "select.cuh"

namespace yolo {

using selection::kAllLanes;
using selection::kLanes;
using selection::kThreads;
using selection::Shared;
using selection::widened;

constexpr uint32_t kWarps = kThreads / kLanes;
constexpr uint32_t kMaxLevels = 8;
constexpr uint32_t kRowsPerBlock = 128;

// The mirrors of these stand in src/device/cuda/abi/decode_yolo.rs.
struct Level {
    uint32_t first_row;
    uint32_t num_columns;
    float stride;
    uint32_t reserved;
};

template <typename T>
struct Args {
    Slice<const T> values;
    selection::Slices<Candidate2d> selection;  // a place a row
    uint32_t num_rows;
    uint32_t num_classes;
    uint32_t num_levels;
    uint32_t reserved;
    Level levels[kMaxLevels];
};

// What a block found.
struct Found {
    Candidate2d items[kThreads];
    uint32_t num;
};

// For one thread: adds a candidate, if its numbers are finite.
__device__ inline void add(Found& found, const Candidate2d& candidate) {
    if (!isfinite(candidate.rank.score) || !has_finite_box(candidate)) return;
    found.items[atomicAdd(&found.num, 1)] = candidate;
}

// For all threads of a block, once: appends what the block found.
template <typename T>
__device__ void append(const Args<T>& args, const Found& found, Shared& shared) {
    __syncthreads();
    const auto take = [&](uint32_t i, Candidate2d& candidate) {
        candidate = found.items[i];
        return true;
    };
    const auto nothing = [](auto...) {};
    selection::append(args.selection, shared, found.num, take, nothing, nothing);
}

__device__ inline Candidate2d from_center(float4 box, float score, uint32_t class_index,
                                          uint32_t source) {
    const float half_width = box.z * 0.5f;
    const float half_height = box.w * 0.5f;
    return {box.x - half_width, box.y - half_height, box.x + half_width, box.y + half_height,
            {score, class_index, source}};
}

// For lanes 0 to 3: one number of a box that lies in a cell of its level.
template <typename T>
__device__ float placed_in_cell(const Args<T>& args, uint32_t row, uint32_t lane, float value) {
    Level level = args.levels[0];
#pragma unroll
    for (uint32_t i = 1; i < kMaxLevels; ++i) {
        if (i < args.num_levels && row >= args.levels[i].first_row) level = args.levels[i];
    }
    const uint32_t cell = row - level.first_row;
    if (lane >= 2) return static_cast<float>(exp(static_cast<double>(value))) * level.stride;
    const uint32_t at = lane == 0 ? cell % level.num_columns : cell / level.num_columns;
    return (value + static_cast<float>(at)) * level.stride;
}

// For a warp: decodes a row whose objectness passes.
template <typename T, bool kCells>
__device__ void decode_row(const Args<T>& args, Found& found, uint32_t row, float objectness) {
    const uint32_t lane = threadIdx.x % kLanes;
    const T* values = args.values.data + static_cast<uint64_t>(row) * (5 + args.num_classes);
    float number = widened(values[lane % 4]);
    float best = -INFINITY;
    uint32_t best_class = kLast;
#pragma unroll 4
    for (uint32_t c = lane; c < args.num_classes; c += kLanes) {
        const float value = widened(values[5 + c]);
        if (value > best) {
            best = value;
            best_class = c;
        }
    }
    // A word that rises with the value; zeros of both signs are equal.
    const uint32_t word = ~order_word(best + 0.0f, best_class != kLast);
    const uint32_t highest = __reduce_max_sync(kAllLanes, word);
    if (highest == 0) return;
    best_class = __reduce_min_sync(kAllLanes, word == highest ? best_class : kLast);
    best = __shfl_sync(kAllLanes, best, best_class % kLanes);
    const float score = objectness * best;
    if (!(score >= args.selection.settings[0].score_threshold)) return;
    if (kCells) number = placed_in_cell(args, row, lane % 4, number);
    const float4 box = {__shfl_sync(kAllLanes, number, 0), __shfl_sync(kAllLanes, number, 1),
                        __shfl_sync(kAllLanes, number, 2), __shfl_sync(kAllLanes, number, 3)};
    if (lane == 0) add(found, from_center(box, score, best_class, row));
}

// Rows `… objectness classes`. Half of the threads look at one objectness
// each; a warp takes a row that passes. A block's rows lie far apart, since those that pass lie
// together.
template <typename T, bool kCells>
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
    const float own = is_row ? widened(args.values[row * (5 + args.num_classes) + 4]) : 0.0f;
    const bool passes = is_row && own >= args.selection.settings[0].score_threshold;
    __syncthreads();
    if (passes) {
        const uint32_t position = atomicAdd(&num_rows, 1);
        rows[position] = static_cast<uint32_t>(row);
        objectness[position] = own;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x / kLanes; i < num_rows; i += kWarps) {
        decode_row<T, kCells>(args, found, rows[i], objectness[i]);
    }
    append(args, found, shared);
}

// Planes of columns: cx cy w h, then a plane a class. A block takes 32
// columns, each warp a share of the classes, in rising order.
template <typename T>
__device__ void decode_planes(const Args<T>& args) {
    __shared__ Found found;
    __shared__ Shared shared;
    __shared__ float bests[kWarps][kLanes];
    __shared__ uint32_t classes[kWarps][kLanes];
    __shared__ float boxes[4][kLanes];
    if (threadIdx.x == 0) found.num = 0;
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    const uint64_t column = static_cast<uint64_t>(blockIdx.x) * kLanes + lane;
    const uint64_t distance = args.num_rows;
    const bool is_column = column < args.num_rows;
    const uint32_t share = (args.num_classes + kWarps - 1) / kWarps;
    const uint32_t end = min((warp + 1) * share, args.num_classes);
    float best = -INFINITY;
    uint32_t best_class = 0;
    if (is_column) {
        const T* values = args.values.data + column;
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
        if (best >= args.selection.settings[0].score_threshold) {
            const float4 box = {boxes[0][lane], boxes[1][lane], boxes[2][lane], boxes[3][lane]};
            add(found, from_center(box, best, best_class, static_cast<uint32_t>(column)));
        }
    }
    append(args, found, shared);
}

}  // namespace yolo

#define DECODE_YOLO_KERNELS(T, suffix)                                                \
    extern "C" __global__ void __launch_bounds__(yolo::kThreads)                      \
        decode_yolo_rows_##suffix(const __grid_constant__ yolo::Args<T> args) {       \
        yolo::decode_rows<T, false>(args);                                            \
    }                                                                                 \
    extern "C" __global__ void __launch_bounds__(yolo::kThreads)                      \
        decode_yolo_cells_##suffix(const __grid_constant__ yolo::Args<T> args) {      \
        yolo::decode_rows<T, true>(args);                                             \
    }                                                                                 \
    extern "C" __global__ void __launch_bounds__(yolo::kThreads)                      \
        decode_yolo_planes_##suffix(const __grid_constant__ yolo::Args<T> args) {     \
        yolo::decode_planes<T>(args);                                                 \
    }

DECODE_YOLO_KERNELS(float, f32)
DECODE_YOLO_KERNELS(__half, f16)
