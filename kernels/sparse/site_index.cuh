// The bitmap of a sparse level with ranks, and grids of sites: `Sites` and
// `SiteGrid` in crates/ops/src/sparse/rulebook/sites.rs.
#pragma once

#include "shared/slice.cuh"

// Cells of a scene by axis, slowest first, and the number of scenes.
struct SiteGrid {
    uint32_t shape[3];
    uint32_t batch_size;
};

// Bit i of word w: cell 32 w + i is a site. The rank of a word is the number of
// sites before it, undefined where the word has none.
struct SiteIndex {
    Slice<const uint32_t> bits;
    Slice<const uint32_t> ranks;
};

constexpr uint32_t kNoRow = 0xffffffffu;

struct SiteCell {
    uint32_t batch;
    uint32_t cell[3];
};

__device__ inline SiteCell cell_of(const SiteGrid& grid, uint32_t index) {
    SiteCell found;
    found.cell[2] = index % grid.shape[2];
    index /= grid.shape[2];
    found.cell[1] = index % grid.shape[1];
    index /= grid.shape[1];
    found.cell[0] = index % grid.shape[0];
    found.batch = index / grid.shape[0];
    return found;
}

// The index of the first cell of a line along the last axis.
__device__ inline uint32_t line_of(const SiteGrid& grid, uint32_t batch, uint32_t c0, uint32_t c1) {
    return ((batch * grid.shape[0] + c0) * grid.shape[1] + c1) * grid.shape[2];
}

// The row of a cell; `kNoRow` where it is no site.
__device__ inline uint32_t row_of(const SiteIndex& sites, uint32_t index) {
    const uint32_t bits = sites.bits[index / 32];
    const uint32_t bit = 1u << index % 32;
    if ((bits & bit) == 0) return kNoRow;
    return sites.ranks[index / 32] + __popc(bits & (bit - 1));
}
