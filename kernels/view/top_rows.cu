// The rows with the largest values, copied in falling order: crates/ops/src/view/top_rows/mod.rs.
//
// The rank of a row is the number of rows that precede it: warps count it, and one copies the row
// to that place if there is one. `join` puts moved rows of a memory before the best of a frame,
// `store` keeps the best of a frame in the memory. Every block computes the values of all rows,
// which takes longer than its ranks: it has many threads and few rows, and loads its rows before it
// knows their ranks.

#include "shared/pdl.cuh"
#include "view/refine.cuh"

namespace top_rows {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kRowsPerBlock = 8;
// Warps that count the rank of a row.
constexpr uint32_t kWarps = kThreads / kLanes / kRowsPerBlock;
constexpr uint32_t kBoxLen = 11;
constexpr uint32_t kMaxRows = 8192;

// Reads: the logits, rows and boxes of a frame. Writes: the best, from `first_target` on.
template <typename T>
struct Args {
    Slice<const float> logits;  // [rows, classes]: the value is the largest of a row
    Slice<const T> features;
    Slice<const float> boxes;       // 11 per row
    Slice<const float> confidence;  // of the first rows, before this frame; empty: none
    Slice<T> to_features;
    Slice<float> to_boxes;
    Slice<float> to_confidence;      // empty: values are logits, not confidences
    Slice<uint32_t> rows;            // that are chosen, in order
    Slice<const T> memory_features;  // copied before the best; empty: nothing is
    Slice<const float> memory_boxes;
    Slice<const float> motion;  // 12 of the transform, the interval
    uint32_t num_rows;
    uint32_t num_classes;
    uint32_t num_chosen;
    uint32_t num_memory;    // rows before the chosen ones
    uint32_t num_channels;  // a multiple of 8
    uint32_t swaps_yaw;     // sine and cosine change places
    float decay;
    uint32_t reserved;
};

// The largest logits of two rows, NaN not counted: their loads do not wait for each other. Without
// a second row, null, its result is of no use. Pairs are read at once where all rows begin at a
// multiple of 8 bytes.
__device__ inline float2 largest(const float* first, const float* second, uint32_t num) {
    float2 most = make_float2(-INFINITY, -INFINITY);
    if (num % 2 == 0 && reinterpret_cast<uint64_t>(first) % sizeof(float2) == 0) {
#pragma unroll 5
        for (uint32_t i = 0; i < num; i += 2) {
            const float2 a = *reinterpret_cast<const float2*>(first + i);
            const float2 b = second != nullptr ? *reinterpret_cast<const float2*>(second + i) : a;
            most.x = fmaxf(most.x, fmaxf(a.x, a.y)), most.y = fmaxf(most.y, fmaxf(b.x, b.y));
        }
        return most;
    }
    for (uint32_t i = 0; i < num; ++i) {
        most.x = fmaxf(most.x, first[i]);
        if (second != nullptr) most.y = fmaxf(most.y, second[i]);
    }
    return most;
}

// A word that falls while the value rises, NaN last.
__device__ inline uint32_t falling(float value) {
    const uint32_t bits = __float_as_uint(value);
    const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return isnan(value) ? 0xffffffffu : ~ascending;
}

// A row on its way: the first groups of the lanes are loaded early, which is all of up to 256
// channels.
template <typename T>
struct Copy {
    const T* from;
    uint32_t len;
    row::Raw<T> first;

    __device__ Copy(const T* from, uint32_t len) : from(from), len(len) {
        if (lane_of() * row::kGroup < len) first.load(from + lane_of() * row::kGroup);
    }
    __device__ void store(T* to) const {
        for (uint32_t c = lane_of() * row::kGroup; c < len; c += kLanes * row::kGroup) {
            row::Raw<T> raw = first;
            if (c >= kLanes * row::kGroup) raw.load(from + c);
            if constexpr (sizeof(T) == 2) {
                *reinterpret_cast<uint4*>(to + c) = raw.words;
            } else {
                reinterpret_cast<float4*>(to + c)[0] = raw.low;
                reinterpret_cast<float4*>(to + c)[1] = raw.high;
            }
        }
    }
};

// A box of the frame before in the current one: by its velocity, then by the vehicle's motion.
__device__ inline void move_box(const float* from, const float* motion, bool swaps_yaw, float* to) {
    const float interval = motion[12];
    const float x = from[0] + from[8] * interval, y = from[1] + from[9] * interval,
                z = from[2] + from[10] * interval;
    const float sine = from[6], cosine = from[7];
    for (uint32_t i = 0; i < 3; ++i) {
        const float* m = motion + 4 * i;
        to[i] = ((m[0] * x + m[1] * y) + m[2] * z) + m[3];
        to[3 + i] = from[3 + i];
        to[8 + i] = (m[0] * from[8] + m[1] * from[9]) + m[2] * from[10];
    }
    const float new_cosine = motion[0] * cosine + motion[1] * sine,
                new_sine = motion[4] * cosine + motion[5] * sine;
    to[6] = swaps_yaw ? new_cosine : new_sine;
    to[7] = swaps_yaw ? new_sine : new_cosine;
}

template <typename T>
__device__ void choose(const Args<T>& args, uint32_t* words) {
    __shared__ float moved[kRowsPerBlock][kLanes];
    __shared__ uint32_t ranks[kRowsPerBlock][kWarps];
    pdl::trigger();
    pdl::wait();
    const uint32_t num_rows = args.num_rows;
    auto* values = reinterpret_cast<float*>(words + num_rows);
    // The first warp of a row copies it, the last one copies the row of the memory.
    const uint32_t own_row = warp_of() / kWarps, part = warp_of() % kWarps;
    const uint32_t row = blockIdx.x * kRowsPerBlock + own_row;
    const uint64_t from = row;
    const bool is_row = row < num_rows, is_first = part == 0;
    const bool is_memory =
        part == kWarps - 1 && row < args.num_memory && args.memory_features.len != 0;
    const uint32_t num_channels = args.num_channels;
    const Copy<T> copy(args.features.data + from * num_channels,
                       is_row && is_first ? num_channels : 0);
    const Copy<T> memory(args.memory_features.data + from * num_channels,
                         is_memory ? num_channels : 0);
    const float box =
        is_row && is_first && lane_of() < kBoxLen ? args.boxes.data[from * kBoxLen + lane_of()] : 0;
    float to_move = 0;
    if (is_memory && lane_of() < kBoxLen + 13) {
        to_move = lane_of() < kBoxLen ? args.memory_boxes.data[from * kBoxLen + lane_of()]
                                      : args.motion.data[lane_of() - kBoxLen];
    }
    // First all loads, two rows at a time; the confidences before wait in the place of the words.
    const bool has_confidence = args.to_confidence.len != 0;
    const auto confidence = [&args](uint32_t i) {
        return i < args.confidence.len ? args.confidence.data[i] : NAN;
    };
    for (uint32_t i = threadIdx.x; i < num_rows; i += 2 * kThreads) {
        const uint32_t next = i + kThreads;
        const bool has_next = next < num_rows;
        const float before = has_confidence ? confidence(i) : NAN,
                    before_next = has_confidence ? confidence(next) : NAN;
        const float* first = args.logits.data + static_cast<uint64_t>(i) * args.num_classes;
        const float2 most = largest(first, has_next ? first + kThreads * args.num_classes : nullptr,
                                    args.num_classes);
        values[i] = most.x, words[i] = __float_as_uint(before);
        if (has_next) values[next] = most.y, words[next] = __float_as_uint(before_next);
    }
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < num_rows; i += kThreads) {
        float value = values[i];
        if (has_confidence) value = fmaxf(sigmoid(value), __uint_as_float(words[i]) * args.decay);
        values[i] = value;
        words[i] = falling(value);
    }
    if (is_memory) moved[own_row][lane_of()] = to_move;
    __syncthreads();
    if (is_row) {
        // Rows before it precede it if they are equal: no value is NaN, so that a word has a
        // successor.
        const uint32_t own = words[row];
        uint32_t rank = 0;
        const auto count = [own, row, &rank](uint32_t i, uint32_t word) {
            rank += word < own + (i < row ? 1 : 0) ? 1 : 0;
        };
        const uint32_t lane = part * kLanes + lane_of(), num_groups = num_rows / 4;
#pragma unroll 2
        for (uint32_t i = lane; i < num_groups; i += kWarps * kLanes) {
            const uint4 group = reinterpret_cast<const uint4*>(words)[i];
            count(4 * i, group.x), count(4 * i + 1, group.y), count(4 * i + 2, group.z),
                count(4 * i + 3, group.w);
        }
        if (lane < num_rows % 4) count(4 * num_groups + lane, words[4 * num_groups + lane]);
        rank = __reduce_add_sync(kAllLanes, rank);
        if (lane_of() == 0) ranks[own_row][part] = rank;
    }
    __syncthreads();
    // Rows of the memory come first.
    if (is_memory) {
        memory.store(args.to_features.data + from * num_channels);
        if (lane_of() == 0)
            move_box(moved[own_row], moved[own_row] + kBoxLen, args.swaps_yaw != 0,
                     args.to_boxes.data + from * kBoxLen);
    }
    if (!is_row || !is_first) return;
    uint32_t rank = 0;
#pragma unroll
    for (uint32_t i = 0; i < kWarps; ++i) rank += ranks[own_row][i];
    if (rank >= args.num_chosen) return;
    const uint64_t to = args.num_memory + rank;
    copy.store(args.to_features.data + to * num_channels);
    if (lane_of() < kBoxLen) args.to_boxes.data[to * kBoxLen + lane_of()] = box;
    if (lane_of() == 0) {
        args.rows.data[rank] = row;
        if (has_confidence) args.to_confidence.data[rank] = values[row];
    }
}

}  // namespace top_rows

// top_rows_f16, top_rows_f32.
#define TOP_ROWS(T, suffix)                                                 \
    extern "C" __global__ void __launch_bounds__(top_rows::kThreads, 1)     \
        top_rows_##suffix(const __grid_constant__ top_rows::Args<T> args) { \
        extern __shared__ uint4 shared[];                                   \
        top_rows::choose(args, reinterpret_cast<uint32_t*>(shared));        \
    }

TOP_ROWS(__half, f16)
TOP_ROWS(float, f32)
