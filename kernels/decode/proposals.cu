// Decodes the proposals of LiDAR networks, crates/ops/src/decode/proposals/mod.rs, and selects the
// best candidates, crates/ops/src/decode/select/mod.rs, in one kernel.
//
// Thread mapping: a thread reads the scores of a proposal and, where they pass, decodes its box.
// Candidates are appended by select.cuh.

#include "decode/logit.cuh"
#include "decode/select.cuh"
#include "decode/threshold.cuh"
#include "decode/yaw.cuh"

namespace decode_proposals {

using selection::kThreads;
using selection::widened;

constexpr uint32_t kNumbers = 6;

// In Rust: `ProposalArgs` in crates/ops/src/decode/proposals/kernels.rs.
template <typename T>
struct Args {
    selection::Slices<Candidate3d> selection;  // at most one per proposal
    Slice<Motion> motions;                     // by found candidate
    Slice<uint32_t> places;                    // by candidate: its index among the found
    Slice<const uint32_t> num_voxels;          // 0: no proposal passes
    Slice<const T> boxes;
    Slice<const T> scores;
    Slice<const T> directions;  // without labels
    Slice<const float> labels;  // with labels
    Slice<const float> lowest;  // the lowest threshold of any class
    Thresholds thresholds;
    Slice<const float> least_yaw_norms;  // by class
    float origin[2];
    float cell_size[2];
    uint32_t num_proposals;
    uint32_t num_classes;
    uint32_t has_labels;
    uint32_t reserved;
};

template <typename T>
__device__ float value_at(const Args<T>& args, Slice<const T> values, uint32_t channel,
                          uint32_t proposal) {
    return widened(values[static_cast<uint64_t>(channel) * args.num_proposals + proposal]);
}

// The class of a proposal, and its score; kLast for a label that is no class.
template <typename T>
__device__ Rank rank_of(const Args<T>& args, uint32_t proposal) {
    float score = value_at(args, args.scores, 0, proposal);
    bool has_nan = isnan(score);
    uint32_t class_index = 0;
    if (args.has_labels != 0) {
        const float label = args.labels[proposal];
        const bool is_class = label >= 0.0f && label < static_cast<float>(args.num_classes);
        class_index = is_class ? static_cast<uint32_t>(label) : kLast;
    } else {
        for (uint32_t c = 1; c < args.num_classes; ++c) {
            const float other = value_at(args, args.scores, c, proposal);
            has_nan |= isnan(other);
            if (other > score) {
                score = other;
                class_index = c;
            }
        }
    }
    selection::count_nan(args.selection, has_nan);
    return {score, class_index, proposal};
}

// Decodes a proposal; false if it is no candidate.
template <typename T>
__device__ bool decode_proposal(const Args<T>& args, uint32_t proposal, Candidate3d& candidate,
                                Motion& motion) {
    const Rank rank = rank_of(args, proposal);
    if (!(rank.score > 0.0f && rank.score >= args.lowest[0])) return false;
    if (!selection::check_class(args.selection, rank.class_index)) return false;
    float numbers[kNumbers];
    bool is_valid = true;
#pragma unroll
    for (uint32_t i = 0; i < kNumbers; ++i) {
        numbers[i] = value_at(args, args.boxes, i, proposal);
        is_valid &= isfinite(numbers[i]);
    }
    const bool has_labels = args.has_labels != 0;
    const float sine = has_labels ? value_at(args, args.boxes, kNumbers, proposal)
                                  : value_at(args, args.directions, 0, proposal);
    const float cosine = has_labels ? value_at(args, args.boxes, kNumbers + 1, proposal)
                                    : value_at(args, args.directions, 1, proposal);
    candidate.center[0] = numbers[0] * args.cell_size[0] + args.origin[0];
    candidate.center[1] = numbers[1] * args.cell_size[1] + args.origin[1];
    candidate.center[2] = numbers[2];
    bool passes = rank.score >= args.thresholds.at_center(rank.class_index, candidate.center);
    if (rank.class_index < args.least_yaw_norms.len) {
        const float norm = __fsqrt_rn(sine * sine + cosine * cosine);
        passes &= isnan(norm) || norm >= args.least_yaw_norms[rank.class_index];
    }
    candidate.length = exponential(numbers[3]);
    candidate.width = exponential(numbers[4]);
    candidate.height = exponential(numbers[5]);
    candidate.yaw = yaw_of(sine, cosine, false);
    candidate.rank = rank;
    is_valid &= has_valid_box(candidate) && isfinite(sine) && isfinite(cosine);
    if (has_labels) {
        motion.velocity[0] = value_at(args, args.boxes, kNumbers + 2, proposal);
        motion.velocity[1] = value_at(args, args.boxes, kNumbers + 3, proposal);
        is_valid &= isfinite(motion.velocity[0]) && isfinite(motion.velocity[1]);
    }
    return passes && selection::check_box(args.selection, is_valid);
}

template <typename T>
__device__ void decode(const Args<T>& args) {
    __shared__ selection::Shared shared;
    const uint32_t first = blockIdx.x * kThreads;
    const bool has_any = first < args.num_proposals && args.num_voxels[0] != 0;
    const uint32_t num = has_any ? min(args.num_proposals - first, kThreads) : 0;
    Motion motion = {};
    selection::append(
        args.selection, shared, num,
        [&](uint32_t i, Candidate3d& candidate) {
            return decode_proposal(args, first + i, candidate, motion);
        },
        [&](uint32_t index) {
            if (index < args.motions.len) args.motions[index] = motion;
        },
        [&](uint32_t position, uint32_t index) {
            if (position < args.places.len) args.places[position] = index;
        });
}

}  // namespace decode_proposals

extern "C" __global__ void __launch_bounds__(selection::kThreads, 3)
    decode_proposals_f32(const __grid_constant__ decode_proposals::Args<float> args) {
    decode_proposals::decode(args);
}

extern "C" __global__ void __launch_bounds__(selection::kThreads, 3)
    decode_proposals_f16(const __grid_constant__ decode_proposals::Args<__half> args) {
    decode_proposals::decode(args);
}
