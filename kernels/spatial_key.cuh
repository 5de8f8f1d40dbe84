// Where candidates lie, as one word: near candidates have near words. Any
// choice is right: it only decides how many bounds meet.
//
// Words run along strips, forth and back, so that each 32 in a row fill a compact
// patch. Those of very unlike size are kept apart, since one large box widens the
// bounds of all that lie with it.
#pragma once

#include <cstdint>

// Cells along each axis, and across a strip, as bits.
constexpr uint32_t kCellBits = 13;
constexpr uint32_t kStripBits = 5;

// The cell of a coordinate, the origin in the middle; what lies outside is in
// the outermost cell.
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

// By the centre alone, to a quarter of a unit.
__device__ inline uint32_t place_of(float x, float y) {
    return along_strips(cell_at(x, 4.0f), cell_at(y, 4.0f));
}

// Sizes between two powers of 16 lie together, in cells of a quarter of the
// least of them.
__device__ inline uint32_t place_of(float x, float y, float size) {
    const int32_t exponent = static_cast<int32_t>(__float_as_uint(size) >> 23) - 127;
    const uint32_t level = min(max(exponent + 32, 0), 124) / 4;
    // 2 to the power of 34 - 4 * level.
    const float cells_per_unit = __uint_as_float((161 - 4 * level) << 23);
    const uint32_t position = along_strips(cell_at(x, cells_per_unit), cell_at(y, cells_per_unit));
    return level << (2 * kCellBits - kStripBits) | position;
}
