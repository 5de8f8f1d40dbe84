// Means of the points of voxels: src/ops/voxel_mean/mod.rs.
//
// A thread per voxel and channel sums the channel of the voxel's points in order of arrival
// and divides by their number. Nothing is fused, and the hyperbolic tangent is the CPU's,
// operation by operation.

#include "slice.cuh"

namespace voxel_mean {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kMaxTransforms = 32;

// The struct in Rust: src/ops/voxel_mean/kernels.rs.
struct Args {
    Slice<const float> points;
    Slice<const uint32_t> point_indices;  // by voxel `max_points_per_voxel`
    Slice<const uint32_t> num_points_per_voxel;
    Slice<const uint32_t> num_voxels;
    Slice<float> features;  // rows of `num_channels`
    uint32_t num_channels;
    uint32_t max_points_per_voxel;
    uint32_t tanh_channels;  // a bit each
    uint32_t reserved;
};
static_assert(sizeof(Args) == 96);

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
        const double inner = __dsub_rn(__ddiv_rn(1.0, 3.0), __dmul_rn(square, __ddiv_rn(2.0, 15.0)));
        result = __dsub_rn(x, __dmul_rn(__dmul_rn(x, square), inner));
    } else {
        const double e = exp_of_negative(__dmul_rn(-2.0, x));
        result = __ddiv_rn(__dsub_rn(1.0, e), __dadd_rn(1.0, e));
    }
    return copysignf(static_cast<float>(result), value);
}

}  // namespace voxel_mean

extern "C" __global__ void __launch_bounds__(voxel_mean::kThreads)
    voxel_mean_f32(const __grid_constant__ voxel_mean::Args args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * voxel_mean::kThreads + threadIdx.x;
    if (at >= args.features.len) return;
    const auto voxel = static_cast<uint32_t>(at / args.num_channels);
    const auto channel = static_cast<uint32_t>(at % args.num_channels);
    if (voxel >= args.num_points_per_voxel.len || voxel >= args.num_voxels[0]) return;
    const uint32_t num = args.num_points_per_voxel[voxel];
    const uint32_t* indices = &args.point_indices[static_cast<uint64_t>(voxel) * args.max_points_per_voxel];
    const bool is_tanh = channel < voxel_mean::kMaxTransforms && (args.tanh_channels >> channel & 1) != 0;
    float sum = 0.0f;
    for (uint32_t i = 0; i < num; ++i) {
        const float value = args.points[static_cast<uint64_t>(indices[i]) * args.num_channels + channel];
        sum += is_tanh ? voxel_mean::tanh_of(value) : value;
    }
    args.features[at] = sum / static_cast<float>(num);
}
