// Maps [N, C, H, W] of which a thread writes an element or 8 neighbouring channels.
#pragma once

#include "dense/tensor.cuh"

namespace dense {

// The struct in Rust: crates/ops/src/dense/launch.rs.
struct MapDims {
    uint32_t num;
    uint32_t channels;
    uint32_t height;
    uint32_t width;
    // Channels change first, else columns.
    uint32_t is_channels_last;
    uint32_t reserved;
};

// The first channel of a thread, and its place.
struct Cell {
    uint32_t n, c, y, x;

    __device__ uint32_t offset(const uint32_t (&strides)[kMaxRank]) const {
        return n * strides[0] + c * strides[1] + y * strides[2] + x * strides[3];
    }
};

// The cell of an item; false beyond the last.
template <uint32_t kWidth>
__device__ bool find_cell(const MapDims& dims, uint32_t item, Cell& cell) {
    if (dims.is_channels_last != 0) {
        const uint32_t groups = dims.channels / kWidth;
        const uint32_t texel = item / groups, row = texel / dims.width;
        cell.c = (item - texel * groups) * kWidth, cell.x = texel - row * dims.width;
        cell.n = row / dims.height, cell.y = row - cell.n * dims.height;
    } else {
        const uint32_t row = item / dims.width, plane = row / dims.height;
        cell.x = item - row * dims.width, cell.y = row - plane * dims.height;
        cell.n = plane / dims.channels, cell.c = plane - cell.n * dims.channels;
    }
    return cell.n < dims.num;
}

}  // namespace dense
