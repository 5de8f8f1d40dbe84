// Keypoints of detections in source pixels: crates/ops/src/decode/keypoints/mod.rs.
//
// Thread mapping: a thread computes a keypoint. Reads: the numbers of its row of the network's
// output. Writes: the keypoints of the detections there are, in mapped host memory.
// Operations are in the order of the CPU, without contraction. The launcher checks that the
// output has num_rows * num_columns numbers, and that there is a place for every keypoint.

#include <cuda_fp16.h>

#include "shared/slice.cuh"

namespace keypoints {

constexpr uint32_t kThreads = 128;

// The structs in Rust: crates/ops/src/decode/keypoints/kernels.rs.
struct Settings {
    float scale[2];
    float offset[2];
    float size[2];
};

struct Keypoint {
    float x;
    float y;
    float score;
};

template <typename T>
struct Args {
    Slice<const T> output;
    // By detection, its row of the output; their number.
    Slice<const uint32_t> sources;
    Slice<const uint32_t> num;
    Slice<const Settings> settings;
    Slice<Keypoint> keypoints;
    uint32_t num_rows;
    uint32_t num_columns;
    // The column of the first number.
    uint32_t first;
    uint32_t num_keypoints;
    // Numbers of a keypoint.
    uint32_t num_values;
    // Not 0: a plane a column.
    uint32_t is_planes;
};

__device__ inline float widened(float value) { return value; }
__device__ inline float widened(__half value) { return __half2float(value); }

// As `f32::clamp`, which keeps a zero of either sign.
__device__ inline float clipped(float value, float most) {
    if (value < 0.0f) return 0.0f;
    return value > most ? most : value;
}

template <typename T>
__device__ void map_keypoint(const Args<T>& args) {
    const uint32_t own = blockIdx.x * kThreads + threadIdx.x;
    const uint32_t detection = own / args.num_keypoints;
    if (detection >= args.sources.len || detection >= args.num[0]) return;
    const uint32_t row = args.sources[detection];
    Keypoint found = {0.0f, 0.0f, 0.0f};
    if (row < args.num_rows) {
        const uint32_t column = args.first + own % args.num_keypoints * args.num_values;
        const uint64_t start = args.is_planes != 0
                                   ? static_cast<uint64_t>(column) * args.num_rows + row
                                   : static_cast<uint64_t>(row) * args.num_columns + column;
        const uint64_t distance = args.is_planes != 0 ? args.num_rows : 1;
        const float x = widened(args.output[start]);
        const float y = widened(args.output[start + distance]);
        const float score =
            args.num_values == 3 ? widened(args.output[start + 2 * distance]) : 1.0f;
        const Settings settings = args.settings[0];
        if (isfinite(x) && isfinite(y) && isfinite(score)) {
            found.x = clipped(x * settings.scale[0] + settings.offset[0], settings.size[0]);
            found.y = clipped(y * settings.scale[1] + settings.offset[1], settings.size[1]);
            found.score = score;
        } else {
            // The host counts it and puts zeros in its place.
            found.score = nanf("");
        }
    }
    args.keypoints[own] = found;
}

}  // namespace keypoints

extern "C" __global__ void __launch_bounds__(keypoints::kThreads)
    keypoints_f32(const __grid_constant__ keypoints::Args<float> args) {
    keypoints::map_keypoint(args);
}

extern "C" __global__ void __launch_bounds__(keypoints::kThreads)
    keypoints_f16(const __grid_constant__ keypoints::Args<__half> args) {
    keypoints::map_keypoint(args);
}
