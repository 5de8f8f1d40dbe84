// Spatial keys: candidates with near keys are near each other. Any key is correct;
// a good one makes few leaf bounds intersect a window.
//
// Keys follow strips of cells in boustrophedon order, so that 32 consecutive ones
// cover a compact patch. Sizes are separated, since one large box widens the bounds
// of its leaf.
#pragma once

#include <cstdint>

// Logarithms of the number of cells along an axis and across a strip.
constexpr uint32_t kCellBits = 13;
constexpr uint32_t kStripBits = 5;

// The cell of a coordinate, clamped to the grid; the origin is in the middle.
__device__ inline uint32_t cell_at(float value, float cells_per_unit) {
    constexpr float kMiddle = 1u << (kCellBits - 1);
    constexpr float kLastCell = (1u << kCellBits) - 1;
    return static_cast<uint32_t>(fminf(fmaxf(value * cells_per_unit + kMiddle, 0.0f), kLastCell));
}

__device__ inline uint32_t along_strips(uint32_t column, uint32_t row) {
    constexpr uint32_t kLastCell = (1u << kCellBits) - 1;
    const uint32_t strip = row >> kStripBits;
    return strip << kCellBits | ((strip & 1) != 0 ? kLastCell - column : column);
}

// Of a point, in cells of a quarter of a unit.
__device__ inline uint32_t spatial_key_of(float x, float y) {
    return along_strips(cell_at(x, 4.0f), cell_at(y, 4.0f));
}

// Of a box: sizes between two powers of 16 share a level, with cells of a quarter of
// the smaller power.
__device__ inline uint32_t spatial_key_of(float x, float y, float size) {
    const int32_t exponent = static_cast<int32_t>(__float_as_uint(size) >> 23) - 127;
    const uint32_t level = min(max(exponent + 32, 0), 124) / 4;
    // 2 to the power of 34 - 4 * level.
    const float cells_per_unit = __uint_as_float((161 - 4 * level) << 23);
    const uint32_t position = along_strips(cell_at(x, cells_per_unit), cell_at(y, cells_per_unit));
    return level << (2 * kCellBits - kStripBits) | position;
}
