// Arguments of the steps that make rulebooks, and geometry.
#pragma once

#include "sparse/site_index.cuh"

namespace rulebook {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kRankThreads = 512;
// Words per thread of `count` and `rank`.
constexpr uint32_t kInputWords = 8;
constexpr uint32_t kOutputWords = 1;
constexpr uint32_t kMaxLevels = 12;
// Counts of a level.
constexpr uint32_t kNumSites = 0;
constexpr uint32_t kOverCapacity = 1;
// Input cells outside the grid, or input sites without an output.
constexpr uint32_t kOutside = 2;
constexpr uint32_t kDuplicates = 3;
// Line steps that a thread of a table looks up at once.
constexpr uint32_t kUnrolled = 3;

// The structs in Rust: crates/ops/src/sparse/rulebook/kernels.rs.
struct Level {
    Slice<uint32_t> sites;
    Slice<uint32_t> bits;
    Slice<uint32_t> counts;
    Slice<uint32_t> input_rows;
};

struct ClearArgs {
    Level levels[kMaxLevels];
    uint32_t num_levels;
    uint32_t reserved;
};

struct CellsArgs {
    Slice<const int4> coordinates;  // batch, c0, c1, c2 by row; empty: `cells`
    Slice<const uint32_t> cells;    // linear indices
    Slice<const uint32_t> num_cells;
    Slice<uint32_t> bits;
    Slice<uint32_t> ranks;
    Slice<uint32_t> counts;
    Slice<uint32_t> sites;
    Slice<uint32_t> input_rows;  // by site
    SiteGrid grid;
    uint32_t capacity;  // of cells
    uint32_t reserved;
};

struct RankArgs {
    Slice<uint32_t> bits;
    Slice<uint32_t> ranks;
    Slice<uint32_t> sites;
    Slice<uint32_t> sums;  // bits by tile
    Slice<uint32_t> counts;
    uint32_t num_words;
    uint32_t capacity;
};

// `input = output * stride - padding + tap * dilation`; the other way round when
// `is_divided`: `output = input * stride - padding + tap * dilation`.
struct Geometry {
    uint32_t kernel[3];
    uint32_t stride[3];
    uint32_t padding[3];
    uint32_t dilation[3];
};

struct OutputsArgs {
    Slice<const uint32_t> sites;   // of the input
    Slice<const uint32_t> counts;  // of the input
    Slice<uint32_t> output_bits;
    Slice<uint32_t> output_counts;
    SiteGrid input_grid;
    SiteGrid output_grid;
    Geometry geometry;
    uint32_t capacity;  // of the input
    uint32_t is_transposed;
};

struct MergedArgs {
    Slice<const uint32_t> sites;   // of the level
    Slice<const uint32_t> counts;  // of the level
    Slice<uint32_t> output_bits;
    SiteGrid input_grid;
    SiteGrid output_grid;
    uint32_t capacity;  // of the level
    uint32_t scale;     // cells of the output that a cell of the level is wide
};

struct TableArgs {
    SiteIndex input;
    Slice<const uint32_t> sites;   // of the output
    Slice<const uint32_t> counts;  // of the output
    Slice<uint32_t> words;
    SiteGrid input_grid;
    SiteGrid output_grid;
    Geometry geometry;
    uint32_t stride;  // from one group of words to the next
    uint32_t is_divided;
};

// A cell of an axis from a cell of the other side and a tap; `kNoRow` where none is.
__device__ inline uint32_t multiplied(const Geometry& geometry, uint32_t axis, uint32_t cell,
                                      uint32_t tap, uint32_t size) {
    const uint32_t found =
        cell * geometry.stride[axis] + tap * geometry.dilation[axis] - geometry.padding[axis];
    return found < size ? found : kNoRow;
}

__device__ inline uint32_t divided(const Geometry& geometry, uint32_t axis, uint32_t cell,
                                   uint32_t tap, uint32_t size) {
    const uint32_t offset = tap * geometry.dilation[axis];
    const uint32_t padded = cell + geometry.padding[axis];
    if (padded < offset) return kNoRow;
    const uint32_t found = (padded - offset) / geometry.stride[axis];
    return found * geometry.stride[axis] == padded - offset && found < size ? found : kNoRow;
}

// The cells of an axis that the taps join to a cell of the input: `begin`, then every
// `step`, below `end`.
struct Run {
    uint32_t begin, end, step;
};

__device__ inline Run run_of(const Geometry& geometry, bool is_transposed, uint32_t axis,
                             uint32_t cell, uint32_t size) {
    const auto stride = static_cast<int32_t>(geometry.stride[axis]);
    const auto dilation = static_cast<int32_t>(geometry.dilation[axis]);
    const auto kernel = static_cast<int32_t>(geometry.kernel[axis]);
    const auto padding = static_cast<int32_t>(geometry.padding[axis]);
    const auto limit = static_cast<int32_t>(size);
    int32_t begin, end, step;
    if (is_transposed) {
        // begin + tap * dilation
        begin = static_cast<int32_t>(cell) * stride - padding;
        end = begin + (kernel - 1) * dilation + 1;
        step = dilation;
    } else if (dilation == 1) {
        // Every output whose kernel covers the cell.
        const int32_t padded = static_cast<int32_t>(cell) + padding;
        begin = padded < kernel ? 0
                                : static_cast<int32_t>(static_cast<uint32_t>(padded - kernel) /
                                                       geometry.stride[axis]) +
                                      1;
        end = static_cast<int32_t>(static_cast<uint32_t>(padded) / geometry.stride[axis]) + 1;
        step = 1;
    } else {
        // (cell + padding - tap * dilation) / stride, where that has no remainder: from one
        // such tap to the next are stride / gcd(stride, dilation) taps.
        const int32_t padded = static_cast<int32_t>(cell) + padding;
        int32_t period = 1;
        while (period * dilation % stride != 0) ++period;
        int32_t tap = 0;
        while (tap < period && tap < kernel && (padded - tap * dilation) % stride != 0) ++tap;
        step = period * dilation / stride;
        if (tap == period || tap >= kernel) return {0, 0, 1};
        const int32_t num = (kernel - 1 - tap) / period;
        const int32_t last = (padded - tap * dilation) / stride;
        if (padded < tap * dilation) return {0, 0, 1};
        begin = last - num * step;
        end = last + 1;
    }
    if (begin < 0) begin += (-begin + step - 1) / step * step;
    if (end > limit) end = limit;
    return begin < end ? Run{static_cast<uint32_t>(begin), static_cast<uint32_t>(end),
                             static_cast<uint32_t>(step)}
                       : Run{0, 0, 1};
}

__device__ inline uint32_t joined(const Geometry& geometry, bool is_divided, uint32_t axis,
                                  uint32_t cell, uint32_t tap, uint32_t size) {
    return is_divided ? divided(geometry, axis, cell, tap, size)
                      : multiplied(geometry, axis, cell, tap, size);
}

}  // namespace rulebook
