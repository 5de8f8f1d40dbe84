// The rows with the largest values, copied in falling order: src/ops/top_rows/mod.rs.
//
// The rank of a row is the number of rows that precede it: a warp counts it, and copies its row
// to that place if there is one. `join` puts moved rows of a memory before the best of a frame,
// `store` keeps the best of a frame in the memory.

#include "refine.cuh"

namespace top_rows {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kLanes;
constexpr uint32_t kBoxLen = 11;
constexpr uint32_t kMaxRows = 8192;

// Reads: the logits, rows and boxes of a frame. Writes: the best, from `first_target` on.
template <typename T>
struct Args {
    Slice<const float> logits;       // [rows, classes]: the value is the largest of a row
    Slice<const T> features;
    Slice<const float> boxes;        // 11 per row
    Slice<const float> confidence;   // of the first rows, before this frame; empty: none
    Slice<T> to_features;
    Slice<float> to_boxes;
    Slice<float> to_confidence;      // empty: values are logits, not confidences
    Slice<uint32_t> rows;            // that are chosen, in order
    Slice<const T> memory_features;  // copied before the best; empty: nothing is
    Slice<const float> memory_boxes;
    Slice<const float> motion;       // 12 of the transform, the interval
    uint32_t num_rows;
    uint32_t num_classes;
    uint32_t num_chosen;
    uint32_t num_memory;             // rows before the chosen ones
    uint32_t num_channels;           // a multiple of 8
    uint32_t swaps_yaw;              // sine and cosine change places
    float decay;
    uint32_t reserved;
};
static_assert(sizeof(Args<float>) == 208);

// The largest logit, NaN not counted.
__device__ inline float largest(const float* logits, uint32_t num) {
    float most = -INFINITY;
    for (uint32_t i = 0; i < num; ++i) most = fmaxf(most, logits[i]);
    return most;
}

// A word that falls while the value rises, NaN last.
__device__ inline uint32_t falling(float value) {
    const uint32_t bits = __float_as_uint(value);
    const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return isnan(value) ? 0xffffffffu : ~ascending;
}

template <typename T>
__device__ void copy_row(const T* from, T* to, uint32_t len) {
    for (uint32_t c = lane_of() * row::kGroup; c < len; c += kLanes * row::kGroup) {
        row::Raw<T> raw;
        raw.load(from + c);
        if constexpr (sizeof(T) == 2) {
            *reinterpret_cast<uint4*>(to + c) = raw.words;
        } else {
            reinterpret_cast<float4*>(to + c)[0] = raw.low;
            reinterpret_cast<float4*>(to + c)[1] = raw.high;
        }
    }
}

// A box of the frame before in the current one: by its velocity, then by the vehicle's motion.
__device__ inline void move_box(const float* from, const float* motion, bool swaps_yaw, float* to) {
    const float interval = motion[12];
    const float x = from[0] + from[8] * interval, y = from[1] + from[9] * interval, z = from[2] + from[10] * interval;
    const float sine = from[6], cosine = from[7];
    for (uint32_t i = 0; i < 3; ++i) {
        const float* m = motion + 4 * i;
        to[i] = ((m[0] * x + m[1] * y) + m[2] * z) + m[3];
        to[3 + i] = from[3 + i];
        to[8 + i] = (m[0] * from[8] + m[1] * from[9]) + m[2] * from[10];
    }
    const float new_cosine = motion[0] * cosine + motion[1] * sine, new_sine = motion[4] * cosine + motion[5] * sine;
    to[6] = swaps_yaw ? new_cosine : new_sine;
    to[7] = swaps_yaw ? new_sine : new_cosine;
}

template <typename T>
__device__ void choose(const Args<T>& args, float* values) {
    auto* words = reinterpret_cast<uint32_t*>(values) + args.num_rows;
    for (uint32_t row = threadIdx.x; row < args.num_rows; row += kThreads) {
        float value = largest(args.logits.data + static_cast<uint64_t>(row) * args.num_classes, args.num_classes);
        if (args.to_confidence.len != 0) {
            value = sigmoid(value);
            if (row < args.confidence.len) value = fmaxf(value, args.confidence.data[row] * args.decay);
        }
        values[row] = value;
        words[row] = falling(value);
    }
    __syncthreads();
    const uint32_t row = blockIdx.x * kWarps + warp_of();
    if (row < args.num_rows) {
        const uint32_t own = words[row];
        uint32_t rank = 0;
        for (uint32_t i = lane_of(); i < args.num_rows; i += kLanes) {
            rank += words[i] < own || (words[i] == own && i < row) ? 1 : 0;
        }
        rank = __reduce_add_sync(kAllLanes, rank);
        if (rank < args.num_chosen) {
            const uint64_t to = args.num_memory + rank, from = row;
            copy_row(args.features.data + from * args.num_channels, args.to_features.data + to * args.num_channels,
                     args.num_channels);
            if (lane_of() < kBoxLen) args.to_boxes.data[to * kBoxLen + lane_of()] = args.boxes.data[from * kBoxLen + lane_of()];
            if (lane_of() == 0) {
                args.rows.data[rank] = row;
                if (args.to_confidence.len != 0) args.to_confidence.data[rank] = values[row];
            }
        }
    }
    // Rows of the memory come first.
    if (row < args.num_memory && args.memory_features.len != 0) {
        const uint64_t at = row;
        copy_row(args.memory_features.data + at * args.num_channels, args.to_features.data + at * args.num_channels,
                 args.num_channels);
        if (lane_of() == 0) {
            move_box(args.memory_boxes.data + at * kBoxLen, args.motion.data, args.swaps_yaw != 0,
                     args.to_boxes.data + at * kBoxLen);
        }
    }
}

}  // namespace top_rows

#define TOP_ROWS(T, suffix)                                                       \
    extern "C" __global__ void __launch_bounds__(top_rows::kThreads)              \
        top_rows_##suffix(const __grid_constant__ top_rows::Args<T> args) {       \
        extern __shared__ uint4 shared[];                                         \
        top_rows::choose(args, reinterpret_cast<float*>(shared));                 \
    }

TOP_ROWS(__half, f16)
TOP_ROWS(float, f32)
