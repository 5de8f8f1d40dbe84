// Candidates from arrays of boxes, scores and classes, and survivors as arrays:
// crates/ops/src/arrays/candidates/mod.rs.

#include "nms/args.cuh"
#include "shared/candidate.cuh"

namespace candidate_arrays {

constexpr uint32_t kThreads = 256;

// The struct in Rust: crates/ops/src/arrays/candidates/kernels.rs.
template <typename Candidate>
struct Args {
    Slice<const float> boxes;  // row by row
    Slice<const float> scores;
    Slice<const int32_t> classes32;  // one of the two, or neither
    Slice<const int64_t> classes64;
    Slice<Candidate> candidates;
    Slice<uint32_t> num;
    Slice<uint32_t> refused;  // receives `call` if a class is out of range
    uint32_t num_columns;
    uint32_t call;
};

// Arrays of the candidates that a suppression keeps.
template <typename Candidate>
struct ColumnArgs {
    Slice<const Candidate> candidates;
    Slice<const Kept> kept;
    Slice<float> boxes;  // row by row
    Slice<float> scores;
    Slice<int64_t> classes64;  // classes and sources of 64 bits or of 32
    Slice<int64_t> sources64;
    Slice<uint32_t> classes32;
    Slice<uint32_t> sources32;
};

struct SurvivorArgs {
    Slice<const Kept> kept;
    Slice<int64_t> indices;
    Slice<float> scores;  // empty: none are written
};

// Velocities and variances of the candidates that a suppression keeps.
struct MotionArgs {
    Slice<const Kept> kept;
    Slice<const uint32_t> places;  // by candidate its index among the found ones
    Slice<const Motion> motions;   // by found candidate
    Slice<float> velocities;       // 2 each
    Slice<float> variances;        // 9 each: centre, sizes, yaw, velocity; or none
};

// A candidate is its box, then its rank.
template <typename Candidate>
constexpr uint32_t kNumbersOf = (sizeof(Candidate) - sizeof(Rank)) / sizeof(float);

template <typename Candidate>
__device__ inline void copy(const Args<Candidate>& args) {
    constexpr uint32_t kNumbers = kNumbersOf<Candidate>;
    const uint64_t own = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
    const uint64_t num = min(args.scores.len, args.candidates.len);
    if (own == 0) args.num[0] = static_cast<uint32_t>(num);
    if (own >= num) return;
    float numbers[kNumbers];
#pragma unroll
    for (uint32_t column = 0; column < kNumbers; ++column) {
        const bool is_given = column < args.num_columns;
        numbers[column] = is_given ? args.boxes[own * args.num_columns + column] : 0.0f;
    }
    Candidate candidate;
    memcpy(&candidate, numbers, sizeof(numbers));
    int64_t class_index = 0;
    if (args.classes32.len != 0) class_index = args.classes32[own];
    if (args.classes64.len != 0) class_index = args.classes64[own];
    if (class_index < 0 || class_index > UINT32_MAX) args.refused[0] = args.call;
    candidate.rank.score = args.scores[own];
    candidate.rank.class_index = static_cast<uint32_t>(class_index);
    candidate.rank.source = static_cast<uint32_t>(own);
    args.candidates[own] = candidate;
}

template <typename Candidate>
__device__ inline void write_columns(const ColumnArgs<Candidate>& args) {
    constexpr uint32_t kNumbers = kNumbersOf<Candidate>;
    const uint64_t own = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (own >= min(args.kept.len, args.scores.len)) return;
    const uint32_t index = args.kept[own].index;
    if (index >= args.candidates.len) return;
    const Candidate candidate = args.candidates[index];
    float numbers[kNumbers];
    memcpy(numbers, &candidate, sizeof(numbers));
#pragma unroll
    for (uint32_t column = 0; column < kNumbers; ++column) {
        args.boxes[own * kNumbers + column] = numbers[column];
    }
    args.scores[own] = candidate.rank.score;
    if (args.classes64.len != 0) args.classes64[own] = candidate.rank.class_index;
    if (args.sources64.len != 0) args.sources64[own] = candidate.rank.source;
    if (args.classes32.len != 0) args.classes32[own] = candidate.rank.class_index;
    if (args.sources32.len != 0) args.sources32[own] = candidate.rank.source;
}

}  // namespace candidate_arrays

extern "C" __global__ void __launch_bounds__(candidate_arrays::kThreads)
    candidate_arrays_2d(const __grid_constant__ candidate_arrays::Args<Candidate2d> args) {
    candidate_arrays::copy(args);
}

extern "C" __global__ void __launch_bounds__(candidate_arrays::kThreads) candidate_arrays_rotated(
    const __grid_constant__ candidate_arrays::Args<CandidateRotated> args) {
    candidate_arrays::copy(args);
}

extern "C" __global__ void __launch_bounds__(candidate_arrays::kThreads)
    candidate_arrays_3d(const __grid_constant__ candidate_arrays::Args<Candidate3d> args) {
    candidate_arrays::copy(args);
}

extern "C" __global__ void __launch_bounds__(candidate_arrays::kThreads)
    candidate_arrays_survivors(const __grid_constant__ candidate_arrays::SurvivorArgs args) {
    const uint64_t own =
        static_cast<uint64_t>(blockIdx.x) * candidate_arrays::kThreads + threadIdx.x;
    if (own >= min(args.kept.len, args.indices.len)) return;
    const Kept kept = args.kept[own];
    args.indices[own] = kept.index;
    if (own < args.scores.len) args.scores[own] = kept.score;
}

extern "C" __global__ void __launch_bounds__(candidate_arrays::kThreads)
    candidate_arrays_columns_2d(
        const __grid_constant__ candidate_arrays::ColumnArgs<Candidate2d> args) {
    candidate_arrays::write_columns(args);
}

extern "C" __global__ void __launch_bounds__(candidate_arrays::kThreads)
    candidate_arrays_columns_rotated(
        const __grid_constant__ candidate_arrays::ColumnArgs<CandidateRotated> args) {
    candidate_arrays::write_columns(args);
}

extern "C" __global__ void __launch_bounds__(candidate_arrays::kThreads)
    candidate_arrays_columns_3d(
        const __grid_constant__ candidate_arrays::ColumnArgs<Candidate3d> args) {
    candidate_arrays::write_columns(args);
}

extern "C" __global__ void __launch_bounds__(candidate_arrays::kThreads)
    candidate_arrays_motions(const __grid_constant__ candidate_arrays::MotionArgs args) {
    const uint64_t own =
        static_cast<uint64_t>(blockIdx.x) * candidate_arrays::kThreads + threadIdx.x;
    if (own >= args.kept.len || 2 * own + 2 > args.velocities.len) return;
    const uint32_t index = args.kept[own].index;
    if (index >= args.places.len || args.places[index] >= args.motions.len) return;
    const Motion motion = args.motions[args.places[index]];
    args.velocities[2 * own] = motion.velocity[0];
    args.velocities[2 * own + 1] = motion.velocity[1];
    if (9 * own + 9 > args.variances.len) return;
    float* variances = args.variances.data + 9 * own;
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        variances[i] = motion.center_variance[i];
        variances[3 + i] = motion.size_variance[i];
    }
    variances[6] = motion.yaw_variance;
    variances[7] = motion.velocity_variance[0];
    variances[8] = motion.velocity_variance[1];
}
