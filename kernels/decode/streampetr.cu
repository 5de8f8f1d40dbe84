// Decodes the queries of StreamPETR heads, crates/ops/src/decode/streampetr/mod.rs, and selects the
// best candidates, crates/ops/src/decode/select/mod.rs, in one kernel.
//
// Thread mapping: a thread reads the logits of a query. Queries whose logit passes are listed in
// shared memory and distributed over the threads, which decode their boxes. Candidates are
// appended by select.cuh.

#include "decode/logit.cuh"
#include "decode/select.cuh"
#include "decode/threshold.cuh"
#include "decode/yaw.cuh"

namespace decode_streampetr {

using selection::kThreads;
using selection::widened;

constexpr uint32_t kNumbers = 10;
constexpr uint32_t kNoClass = 0xffffffffu;

// In Rust: `StreamPetrArgs` in crates/ops/src/decode/streampetr/kernels.rs.
template <typename T>
struct Args {
    selection::Slices<Candidate3d> selection;  // at most one per query
    Slice<Motion> motions;                     // by found candidate
    Slice<uint32_t> places;                    // by candidate: its index among the found
    Slice<const T> logits;
    Slice<const T> boxes;
    Slice<const float> bound;  // the threshold of the logits
    Thresholds thresholds;
    Slice<const float> least_yaw_norms;  // by class
    float min[3];                        // of centres
    float max[3];
    uint32_t num_queries;
    uint32_t num_classes;
    uint32_t has_range;
    uint32_t channels_last;
    uint32_t width_comes_first;
    uint32_t yaw_turns_clockwise;
};

// A query whose logit passes.
struct Passing {
    uint32_t query;
    float logit;
    uint32_t class_index;
};

template <typename T>
__device__ float value_at(const Args<T>& args, Slice<const T> values, uint32_t num_channels,
                          uint32_t query, uint32_t channel) {
    const uint64_t at = args.channels_last != 0
                            ? static_cast<uint64_t>(query) * num_channels + channel
                            : static_cast<uint64_t>(channel) * args.num_queries + query;
    return widened(values[at]);
}

// Decodes a query whose logit passes; false if it is no candidate.
template <typename T>
__device__ bool decode_query(const Args<T>& args, const Passing& passing, Candidate3d& candidate,
                             Motion& motion) {
    const auto [query, logit, class_index] = passing;
    float numbers[kNumbers];
    bool is_valid = true;
#pragma unroll
    for (uint32_t i = 0; i < kNumbers; ++i) {
        numbers[i] = value_at(args, args.boxes, kNumbers, query, i);
        is_valid &= isfinite(numbers[i]);
    }
    const float score = sigmoid(logit);
    bool passes = score >= args.thresholds.at_center(class_index, numbers);
    const float sine = numbers[6];
    const float cosine = numbers[7];
    if (class_index < args.least_yaw_norms.len) {
        const float norm = __fsqrt_rn(sine * sine + cosine * cosine);
        passes &= isnan(norm) || norm >= args.least_yaw_norms[class_index];
    }
    const bool has_center = isfinite(numbers[0]) && isfinite(numbers[1]) && isfinite(numbers[2]);
    float size[3];
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        if (args.has_range != 0 && has_center) {
            passes &= numbers[i] >= args.min[i] && numbers[i] < args.max[i];
        }
        candidate.center[i] = numbers[i];
        size[i] = exponential(numbers[3 + i]);
    }
    const bool swapped = args.width_comes_first != 0;
    candidate.length = swapped ? size[1] : size[0];
    candidate.width = swapped ? size[0] : size[1];
    candidate.height = size[2];
    candidate.yaw = yaw_of(sine, cosine, args.yaw_turns_clockwise != 0);
    candidate.rank = {score, class_index, query};
    motion.velocity[0] = numbers[8];
    motion.velocity[1] = numbers[9];
    is_valid &= has_valid_box(candidate);
    return passes && selection::check_box(args.selection, is_valid);
}

template <typename T>
__device__ void decode(const Args<T>& args) {
    __shared__ selection::Shared shared;
    __shared__ Passing passing[kThreads];
    __shared__ uint32_t num_passing;
    if (threadIdx.x == 0) num_passing = 0;
    __syncthreads();
    const uint32_t query = blockIdx.x * kThreads + threadIdx.x;
    const float bound = args.bound[0];
    if (query < args.num_queries) {
        float best = 0.0f;
        uint32_t best_class = kNoClass;
        bool has_nan = false;
        for (uint32_t c = 0; c < args.num_classes; ++c) {
            const float logit = value_at(args, args.logits, args.num_classes, query, c);
            has_nan |= isnan(logit);
            if (!isnan(logit) && (best_class == kNoClass || logit > best)) {
                best = logit;
                best_class = c;
            }
        }
        selection::count_nan(args.selection, has_nan);
        // False for a bound that is NaN.
        if (best_class != kNoClass && best >= bound) {
            passing[atomicAdd(&num_passing, 1)] = {query, best, best_class};
        }
    }
    __syncthreads();
    Motion motion = {};
    selection::append(
        args.selection, shared, num_passing,
        [&](uint32_t i, Candidate3d& candidate) {
            return decode_query(args, passing[i], candidate, motion);
        },
        [&](uint32_t index) {
            if (index < args.motions.len) args.motions[index] = motion;
        },
        [&](uint32_t position, uint32_t index) {
            if (position < args.places.len) args.places[position] = index;
        });
}

}  // namespace decode_streampetr

extern "C" __global__ void __launch_bounds__(selection::kThreads, 3)
    decode_streampetr_f32(const __grid_constant__ decode_streampetr::Args<float> args) {
    decode_streampetr::decode(args);
}

extern "C" __global__ void __launch_bounds__(selection::kThreads, 3)
    decode_streampetr_f16(const __grid_constant__ decode_streampetr::Args<__half> args) {
    decode_streampetr::decode(args);
}
