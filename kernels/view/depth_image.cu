// Images of the depths of points: crates/ops/src/view/depth_image/mod.rs.
//
// Three launches: all pixels are cleared, each point is compared with the pixel that it is in, of
// every view, and the bits that are kept become depths. Depths are above 0, so that their bits are
// in their order; what is kept is the largest of the complements, the nearest point, in any order.

#include "shared/slice.cuh"

namespace depth_image {

constexpr uint32_t kThreads = 256;
// The most views.
constexpr uint32_t kMaxViews = 16;
// Blocks of `depth_image_points`, which take every so many points.
constexpr uint32_t kMaxBlocks = 2048;

// In Rust: `ViewArgs` in crates/ops/src/view/depth_image/kernels.rs.
struct View {
    float rows[12];  // to (u z, v z, z), [3, 4]
};

// In Rust: `DepthImageArgs`.
struct Args {
    Slice<const float> points;
    Slice<const uint32_t> num_points;
    Slice<float> images;  // [views, height, width]
    View views[kMaxViews];
    float range_min[3];
    float range_max[3];
    float min_depth;
    uint32_t present;  // a bit per view
    uint32_t num_views;
    uint32_t width;
    uint32_t height;
    uint32_t num_channels;
    uint32_t point_capacity;
    uint32_t reserved;
};

__device__ inline uint32_t* words(const Args& args) {
    return reinterpret_cast<uint32_t*>(args.images.data);
}

__device__ inline uint64_t num_pixels(const Args& args) {
    return static_cast<uint64_t>(args.num_views) * args.height * args.width;
}

__device__ inline bool is_inside(const Args& args, const float (&point)[3]) {
    bool inside = true;
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        inside = inside && point[i] >= args.range_min[i] && point[i] < args.range_max[i];
    }
    return inside;
}

__device__ inline float row(const float* m, const float (&point)[3]) {
    return ((m[0] * point[0] + m[1] * point[1]) + m[2] * point[2]) + m[3];
}

__device__ inline void take(const Args& args, uint32_t view, const float (&point)[3]) {
    const float* rows = args.views[view].rows;
    const float depth = row(rows + 8, point);
    if (!(depth > args.min_depth)) return;
    const float u = row(rows, point) / depth;
    const float v = row(rows + 4, point) / depth;
    const bool is_seen = u >= 0.0f && u < static_cast<float>(args.width) && v >= 0.0f &&
                         v < static_cast<float>(args.height);
    if (!is_seen) return;
    const uint64_t place =
        (static_cast<uint64_t>(view) * args.height + static_cast<uint32_t>(v)) * args.width +
        static_cast<uint32_t>(u);
    atomicMax(words(args) + place, ~__float_as_uint(depth));
}

}  // namespace depth_image

extern "C" __global__ void __launch_bounds__(depth_image::kThreads)
    depth_image_clear(const __grid_constant__ depth_image::Args args) {
    using namespace depth_image;
    const uint64_t own = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (own < num_pixels(args)) words(args)[own] = 0;
}

extern "C" __global__ void __launch_bounds__(depth_image::kThreads)
    depth_image_points(const __grid_constant__ depth_image::Args args) {
    using namespace depth_image;
    const uint32_t num = min(args.num_points[0], args.point_capacity);
    const uint32_t step = gridDim.x * kThreads;
    for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < num; i += step) {
        const float* from = args.points.data + static_cast<uint64_t>(i) * args.num_channels;
        const float point[3] = {from[0], from[1], from[2]};
        if (!is_inside(args, point)) continue;
        for (uint32_t view = 0; view < args.num_views; ++view) {
            if (args.present >> view & 1) take(args, view, point);
        }
    }
}

extern "C" __global__ void __launch_bounds__(depth_image::kThreads)
    depth_image_finish(const __grid_constant__ depth_image::Args args) {
    using namespace depth_image;
    const uint64_t own = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (own >= num_pixels(args)) return;
    const uint32_t kept = words(args)[own];
    if (kept != 0) words(args)[own] = ~kept;
}
