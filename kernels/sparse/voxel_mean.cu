// Means of the points of voxels: crates/ops/src/sparse/voxel_mean/mod.rs.
//
// A thread per voxel and channel sums the channel of the voxel's points in order of arrival
// and divides by their number. Nothing is fused, and the hyperbolic tangent is the CPU's,
// operation by operation.
//
// Without a limit on the points of a voxel, a block per large voxel loads their values side
// by side; a thread per channel sums them, in the same order.

#include "cloud/voxel_bucket.cuh"
#include "shared/slice.cuh"

namespace voxel_mean {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kMaxTransforms = 32;
// The values that a block for large voxels holds.
constexpr uint32_t kMaxHeld = 4096;

// The struct in Rust: crates/ops/src/sparse/voxel_mean/kernels.rs.
struct Args {
    Slice<const float> points;
    // By voxel `max_points_per_voxel`; without a limit as buckets.
    Slice<const uint32_t> point_indices;
    Slice<const uint32_t> num_points_per_voxel;
    Slice<const uint32_t> num_voxels;
    Slice<const VoxelBucket> buckets;  // by voxel
    Slice<const uint32_t> large_voxels;
    Slice<const uint32_t> num_large_voxels;
    Slice<float> features;  // rows of `num_channels`
    uint32_t num_channels;
    uint32_t max_points_per_voxel;
    uint32_t tanh_channels;     // a bit each
    uint32_t num_large_blocks;  // without a limit: blocks for large voxels, the first ones
};

// exp(x) for -20 <= x <= 0.
__device__ inline double exp_of_negative(double x) {
    const auto n = static_cast<long long>(__dsub_rn(__dmul_rn(x, 1.4426950408889634), 0.5));
    const double r = __dsub_rn(x, __dmul_rn(static_cast<double>(n), 0.6931471805599453));
    double sum = 1.0;
    for (int term = 13; term >= 1; --term) {
        sum = __dadd_rn(1.0, __ddiv_rn(__dmul_rn(sum, r), static_cast<double>(term)));
    }
    return __dmul_rn(sum, __longlong_as_double((1023 + n) << 52));
}

__device__ inline float tanh_of(float value) {
    const double x = fabs(static_cast<double>(value));
    if (!(x < 10.0)) return value != value ? value : copysignf(1.0f, value);
    const double square = __dmul_rn(x, x);
    double result;
    if (x < 0.015625) {
        const double inner =
            __dsub_rn(__ddiv_rn(1.0, 3.0), __dmul_rn(square, __ddiv_rn(2.0, 15.0)));
        result = __dsub_rn(x, __dmul_rn(__dmul_rn(x, square), inner));
    } else {
        const double e = exp_of_negative(__dmul_rn(-2.0, x));
        result = __ddiv_rn(__dsub_rn(1.0, e), __dadd_rn(1.0, e));
    }
    return copysignf(static_cast<float>(result), value);
}

__device__ inline float transformed(const Args& args, float value, uint32_t channel) {
    const bool is_tanh = channel < kMaxTransforms && (args.tanh_channels >> channel & 1) != 0;
    return is_tanh ? tanh_of(value) : value;
}

// For a thread: a channel of a voxel whose points begin at `indices`.
__device__ inline float mean_of(const Args& args, const uint32_t* indices, uint32_t num,
                                uint32_t channel) {
    float sum = 0.0f;
    for (uint32_t i = 0; i < num; ++i) {
        sum += transformed(
            args, args.points[static_cast<uint64_t>(indices[i]) * args.num_channels + channel],
            channel);
    }
    return sum / static_cast<float>(num);
}

// For a block: the channels of a large voxel. There are at most as many as threads.
__device__ inline void write_large_mean(const Args& args, uint32_t voxel, float (&held)[kMaxHeld]) {
    const VoxelBucket bucket = args.buckets[voxel];
    const uint32_t* indices = args.point_indices.data + bucket.offset;
    const uint32_t num_channels = args.num_channels;
    const uint32_t points_at_once = kMaxHeld / num_channels;
    float sum = 0.0f;
    for (uint32_t start = 0; start < bucket.count; start += points_at_once) {
        const uint32_t num = min(bucket.count - start, points_at_once);
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < num * num_channels; i += kThreads) {
            const uint32_t channel = i % num_channels;
            const uint64_t point = indices[start + i / num_channels];
            held[i] = transformed(args, args.points[point * num_channels + channel], channel);
        }
        __syncthreads();
        if (threadIdx.x < num_channels) {
#pragma unroll 8
            for (uint32_t i = 0; i < num; ++i) sum += held[i * num_channels + threadIdx.x];
        }
        __syncthreads();
    }
    if (threadIdx.x < num_channels) {
        const uint64_t at = static_cast<uint64_t>(voxel) * num_channels + threadIdx.x;
        args.features[at] = sum / static_cast<float>(bucket.count);
    }
}

// For a thread: a value of a voxel, in the blocks after `first_block`. Without a limit, large
// voxels are left out.
template <bool kHasLimit>
__device__ inline void write_mean(const Args& args, uint32_t first_block) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x - first_block) * kThreads + threadIdx.x;
    if (at >= args.features.len) return;
    const auto voxel = static_cast<uint32_t>(at / args.num_channels);
    const auto channel = static_cast<uint32_t>(at % args.num_channels);
    if (voxel >= args.num_points_per_voxel.len || voxel >= args.num_voxels[0]) return;
    const uint32_t num = args.num_points_per_voxel[voxel];
    if (!kHasLimit && num > kMaxSmallBucket) return;
    const uint64_t first = kHasLimit ? static_cast<uint64_t>(voxel) * args.max_points_per_voxel
                                     : args.buckets[voxel].offset;
    args.features[at] = mean_of(args, &args.point_indices[first], num, channel);
}

}  // namespace voxel_mean

extern "C" __global__ void __launch_bounds__(voxel_mean::kThreads)
    voxel_mean_f32(const __grid_constant__ voxel_mean::Args args) {
    voxel_mean::write_mean<true>(args, 0);
}

extern "C" __global__ void __launch_bounds__(voxel_mean::kThreads)
    voxel_mean_all_f32(const __grid_constant__ voxel_mean::Args args) {
    using namespace voxel_mean;
    __shared__ float held[kMaxHeld];
    if (blockIdx.x >= args.num_large_blocks) return write_mean<false>(args, args.num_large_blocks);
    const uint32_t num =
        min(args.num_large_voxels[0], static_cast<uint32_t>(args.large_voxels.len));
    for (uint32_t i = blockIdx.x; i < num; i += args.num_large_blocks) {
        write_large_mean(args, args.large_voxels[i], held);
    }
}
