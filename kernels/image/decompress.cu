// The planes of a JPEG image to rgb8, with the arithmetic of libjpeg-turbo:
// crates/ops/src/image/decompress/mod.rs.
//
// A thread per two pixels of a row. Reads: the three planes, each without padding. Writes:
// every pixel of the image.

#include "shared/slice.cuh"

namespace decompress {

constexpr uint32_t kThreads = 256;

// The struct in Rust: crates/ops/src/image/decompress/kernels.rs.
struct Args {
    Slice<const uint8_t> planes;  // Y, Cb, Cr
    Slice<uint8_t> rgb;
    uint32_t width;
    uint32_t height;
    uint32_t chroma_width;
    uint32_t chroma_height;
};

__device__ int32_t clamped(int32_t i, int32_t size) { return min(max(i, 0), size - 1); }

// jdsample.c, at pixel (x, y) of the image: `h2v1_fancy_upsample`, `h2v2_fancy_upsample`, or
// the sample itself where a plane is not halved or has at most two columns. Samples beyond
// an edge are those at the edge.
__device__ int32_t upsampled(const uint8_t* plane, const Args& args, int32_t x, int32_t y) {
    const int32_t width = args.chroma_width, height = args.chroma_height;
    const bool is_narrow = args.chroma_width != args.width;
    const bool is_low = args.chroma_height != args.height;
    const int32_t column = is_narrow ? x >> 1 : x, row = is_low ? y >> 1 : y;
    const uint8_t* near = plane + static_cast<uint64_t>(row) * args.chroma_width;
    if (!is_narrow || width <= 2) return near[column];
    // Towards the neighbour that is nearer to the pixel.
    const int32_t beside = clamped(column + (x & 1 ? 1 : -1), width);
    if (!is_low) return (3 * near[column] + near[beside] + (x & 1 ? 2 : 1)) >> 2;
    const int32_t other = clamped(row + (y & 1 ? 1 : -1), height);
    const uint8_t* far = plane + static_cast<uint64_t>(other) * args.chroma_width;
    const int32_t sum = 3 * near[column] + far[column];
    const int32_t sum_beside = 3 * near[beside] + far[beside];
    return (3 * sum + sum_beside + (x & 1 ? 7 : 8)) >> 4;
}

__device__ uint8_t to_byte(int32_t value) { return static_cast<uint8_t>(min(max(value, 0), 255)); }

// jdcolor.c, `ycc_rgb_convert`: constants times 2^16, rounded half up but for green, which
// is rounded once.
__device__ void convert(int32_t y, int32_t cb, int32_t cr, uint8_t* rgb) {
    constexpr int32_t kHalf = 1 << 15;
    cb -= 128;
    cr -= 128;
    rgb[0] = to_byte(y + ((91881 * cr + kHalf) >> 16));
    rgb[1] = to_byte(y + ((-22554 * cb - 46802 * cr + kHalf) >> 16));
    rgb[2] = to_byte(y + ((116130 * cb + kHalf) >> 16));
}

}  // namespace decompress

extern "C" __global__ void __launch_bounds__(decompress::kThreads)
    decompress_planes(const __grid_constant__ decompress::Args args) {
    using namespace decompress;
    const uint32_t pair = blockIdx.x * kThreads + threadIdx.x;
    const uint32_t num_pairs = (args.width + 1) / 2;
    if (pair >= num_pairs * args.height) return;
    const uint32_t y = pair / num_pairs, x = pair % num_pairs * 2;
    const uint64_t num_pixels = static_cast<uint64_t>(args.width) * args.height;
    const uint8_t* cb = args.planes.data + num_pixels;
    const uint8_t* cr = cb + static_cast<uint64_t>(args.chroma_width) * args.chroma_height;
    const uint64_t first = static_cast<uint64_t>(y) * args.width + x;
    for (uint32_t i = 0; i < 2 && x + i < args.width; ++i) {
        convert(args.planes[first + i], upsampled(cb, args, x + i, y),
                upsampled(cr, args, x + i, y), &args.rgb[3 * (first + i)]);
    }
}
