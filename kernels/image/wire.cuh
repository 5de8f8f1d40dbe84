// Pixels of images in the layouts of their messages: the kernel text of
// crates/ops/src/image/wire.rs.
#pragma once

#include <cstdint>

namespace wire {

// In Rust: `WireLayout` in crates/ops/src/image/wire_layout.rs.
enum Layout : uint32_t {
    kPacked3 = 0,
    kPacked4 = 1,
    kMono8 = 2,
    kMono16Little = 3,
    kMono16Big = 4,
    kUyvy = 5,
    kYuy2 = 6,
    kNv12 = 7,
    kNv21 = 8,
    kBayerRedFirst = 9,
    kBayerBlueFirst = 10,
    kBayerGreenThenBlue = 11,
    kBayerGreenThenRed = 12,
};

constexpr float kIntoMantissa = 8388608.0f;  // 2^23

struct Pixel {
    float c[3];
};

// A byte as a float, exact, without a conversion instruction.
__device__ inline float byte_value(uint32_t byte) {
    return __uint_as_float(0x4b000000u | byte) - kIntoMantissa;
}

// BT.601 limited range in 20 fraction bits; the constants of
// crates/ops/src/image/wire.rs.
__device__ inline Pixel pixel_of_yuv(int32_t luma, int32_t u, int32_t v) {
    constexpr int32_t kHalf = 1 << 19;
    luma = max(luma - 16, 0) * 1220542;
    u -= 128;
    v -= 128;
    int32_t red = (luma + (kHalf + 1673527 * v)) >> 20;
    int32_t green = (luma + (kHalf - 852492 * v - 409993 * u)) >> 20;
    int32_t blue = (luma + (kHalf + 2116026 * u)) >> 20;
    return {{byte_value(min(max(red, 0), 255)), byte_value(min(max(green, 0), 255)),
             byte_value(min(max(blue, 0), 255))}};
}

template <uint32_t kLayout>
struct WireImage {
    const uint8_t* data;
    uint64_t step;
    uint32_t width;
    uint32_t height;

    __device__ const uint8_t* row(uint32_t y) const { return data + y * step; }

    __device__ Pixel at(uint32_t x, uint32_t y) const {
        const uint8_t* line = row(y);
        if constexpr (kLayout == kPacked3 || kLayout == kPacked4) {
            const uint8_t* p = line + (kLayout == kPacked3 ? 3 : 4) * x;
            return {{byte_value(p[0]), byte_value(p[1]), byte_value(p[2])}};
        } else if constexpr (kLayout == kMono8) {
            float value = byte_value(line[x]);
            return {{value, value, value}};
        } else if constexpr (kLayout == kMono16Little || kLayout == kMono16Big) {
            uint32_t low = line[2 * x + (kLayout == kMono16Little ? 0 : 1)];
            uint32_t high = line[2 * x + (kLayout == kMono16Little ? 1 : 0)];
            float value = __fdiv_rn(static_cast<float>(high << 8 | low), 257.0f);
            return {{value, value, value}};
        } else if constexpr (kLayout == kUyvy || kLayout == kYuy2) {
            const uint8_t* pair = line + 4 * (x / 2);
            constexpr uint32_t kLuma = kLayout == kUyvy ? 1 : 0;
            return pixel_of_yuv(pair[2 * (x % 2) + kLuma], pair[1 - kLuma], pair[3 - kLuma]);
        } else if constexpr (kLayout == kNv12 || kLayout == kNv21) {
            const uint8_t* chroma = row(height + y / 2) + 2 * (x / 2);
            constexpr uint32_t kU = kLayout == kNv12 ? 0 : 1;
            return pixel_of_yuv(line[x], chroma[kU], chroma[1 - kU]);
        } else {
            return demosaic(x, y);
        }
    }

    // Neighbours are mirrored at the borders; width and height are at least 2.
    __device__ Pixel demosaic(uint32_t x, uint32_t y) const {
        constexpr bool kRedFirst = kLayout == kBayerRedFirst || kLayout == kBayerGreenThenRed;
        constexpr uint32_t kFirstX =
            kLayout == kBayerGreenThenBlue || kLayout == kBayerGreenThenRed ? 1 : 0;
        const uint8_t* here = row(y);
        const uint8_t* above = row(y == 0 ? 1 : y - 1);
        const uint8_t* below = row(y + 1 == height ? height - 2 : y + 1);
        uint32_t left = x == 0 ? 1 : x - 1;
        uint32_t right = x + 1 == width ? width - 2 : x + 1;
        uint32_t odd = y % 2;
        uint32_t own, green, other;
        if (x % 2 == (kFirstX + odd) % 2) {
            own = here[x];
            green = (above[x] + below[x] + here[left] + here[right] + 2) >> 2;
            other = (above[left] + above[right] + below[left] + below[right] + 2) >> 2;
        } else {
            own = (here[left] + here[right] + 1) >> 1;
            green = here[x];
            other = (above[x] + below[x] + 1) >> 1;
        }
        bool own_is_red = kRedFirst == (odd == 0);
        return {{byte_value(own_is_red ? own : other), byte_value(green),
                 byte_value(own_is_red ? other : own)}};
    }
};

}  // namespace wire
