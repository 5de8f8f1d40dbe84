// The sites of sparse levels and their tables: crates/ops/src/sparse/rulebook/mod.rs.
//
// Steps of a level, a kernel each:
//   clear    empties the bitmaps of all levels: the words of the last frame's sites
//   mark     sets a bit for every cell that is a site: from the cells of the input, or
//            from the sites of the level before (`mark_outputs`), or of levels that are
//            seen along their first axis (`mark_merged`)
//   count    counts the bits of every tile of words
//   rank     counts the bits before every word and clears those over the capacity;
//            writes the sites in ascending order (not of the input)
//   place    writes the sites of the input, and by site the first input row of its cell
//   triples, taps   the table of a convolution
//
// Everything is integer and independent of the order in which threads run: bits are set
// by atomic or, the first row of a cell is an atomic minimum.

#include "sparse/rulebook_rank.cuh"
#include "sparse/rulebook_table.cuh"

namespace rulebook {

// For one thread of every cell that is a site of the input: its linear index, or
// `kNoRow` outside of the grid.
__device__ inline uint32_t input_index(const CellsArgs& args, uint32_t row) {
    if (args.coordinates.len == 0) {
        const uint32_t index = args.cells[row];
        return index / 32 < args.bits.len ? index : kNoRow;
    }
    const auto* at = reinterpret_cast<const int32_t*>(&args.coordinates[row]);
    const auto batch = static_cast<uint32_t>(at[0]);
    const auto c0 = static_cast<uint32_t>(at[1]);
    const auto c1 = static_cast<uint32_t>(at[2]);
    const auto c2 = static_cast<uint32_t>(at[3]);
    const uint32_t* shape = args.grid.shape;
    // A negative number is a large one.
    if (batch >= args.grid.batch_size || c0 >= shape[0] || c1 >= shape[1] || c2 >= shape[2]) {
        return kNoRow;
    }
    return line_of(args.grid, batch, c0, c1) + c2;
}

// Adds up a condition over a block, for all threads of it.
__device__ inline void count(uint32_t* entry, bool condition) {
    const int num = __syncthreads_count(condition);
    if (threadIdx.x == 0 && num != 0) atomicAdd(entry, static_cast<uint32_t>(num));
}

}  // namespace rulebook

// Grid: x by sites, y by level.
extern "C" __global__ void __launch_bounds__(rulebook::kThreads)
    rulebook_clear(const __grid_constant__ rulebook::ClearArgs args) {
    const rulebook::Level& level = args.levels[blockIdx.y];
    const uint32_t row = blockIdx.x * rulebook::kThreads + threadIdx.x;
    if (row < level.input_rows.len) level.input_rows[row] = kNoRow;
    if (row == 0) {
        level.counts[rulebook::kOutside] = 0;
        level.counts[rulebook::kDuplicates] = 0;
    }
    if (row < level.sites.len && row < level.counts[rulebook::kNumSites]) {
        level.bits[level.sites[row] / 32] = 0;
    }
}

extern "C" __global__ void __launch_bounds__(rulebook::kThreads)
    rulebook_mark_cells(const __grid_constant__ rulebook::CellsArgs args) {
    const uint32_t row = blockIdx.x * rulebook::kThreads + threadIdx.x;
    const bool is_cell = row < args.capacity && row < args.num_cells[0];
    const uint32_t index = is_cell ? rulebook::input_index(args, row) : kNoRow;
    bool is_duplicate = false;
    if (index != kNoRow) {
        const uint32_t bit = 1u << index % 32;
        is_duplicate = (atomicOr(&args.bits[index / 32], bit) & bit) != 0;
    }
    rulebook::count(&args.counts[rulebook::kOutside], is_cell && index == kNoRow);
    rulebook::count(&args.counts[rulebook::kDuplicates], is_duplicate);
}

extern "C" __global__ void __launch_bounds__(rulebook::kThreads)
    rulebook_place(const __grid_constant__ rulebook::CellsArgs args) {
    const uint32_t row = blockIdx.x * rulebook::kThreads + threadIdx.x;
    if (row >= args.capacity || row >= args.num_cells[0]) return;
    const uint32_t index = rulebook::input_index(args, row);
    if (index == kNoRow) return;
    const SiteIndex sites{{args.bits.data, args.bits.len}, {args.ranks.data, args.ranks.len}};
    const uint32_t site = row_of(sites, index);
    if (site >= args.sites.len) return;
    args.sites[site] = index;
    atomicMin(&args.input_rows[site], row);
}

// rulebook_count_input, rulebook_count_output, rulebook_rank_input, rulebook_rank_output.
#define RULEBOOK_RANK(suffix, kWords, kWritesSites)                                \
    extern "C" __global__ void __launch_bounds__(rulebook::kRankThreads)           \
        rulebook_count_##suffix(const __grid_constant__ rulebook::RankArgs args) { \
        rulebook::count_bits<kWords>(args);                                        \
    }                                                                              \
    extern "C" __global__ void __launch_bounds__(rulebook::kRankThreads)           \
        rulebook_rank_##suffix(const __grid_constant__ rulebook::RankArgs args) {  \
        rulebook::rank<kWords, kWritesSites>(args);                                \
    }

// A block per tile. The sites of the input are written by `place`.
RULEBOOK_RANK(input, rulebook::kInputWords, false)
RULEBOOK_RANK(output, rulebook::kOutputWords, true)

extern "C" __global__ void __launch_bounds__(rulebook::kThreads)
    rulebook_mark_outputs(const __grid_constant__ rulebook::OutputsArgs args) {
    using namespace rulebook;
    const uint32_t row = blockIdx.x * rulebook::kThreads + threadIdx.x;
    const bool is_site = row < args.capacity && row < args.counts[kNumSites];
    bool has_output = false;
    if (is_site) {
        const SiteCell site = cell_of(args.input_grid, args.sites[row]);
        const Geometry& geometry = args.geometry;
        Run runs[3];
#pragma unroll
        for (uint32_t axis = 0; axis < 3; ++axis) {
            runs[axis] = run_of(geometry, args.is_transposed != 0, axis, site.cell[axis],
                                args.output_grid.shape[axis]);
        }
        const uint32_t num_bits = runs[2].end > runs[2].begin ? runs[2].end - runs[2].begin : 0;
        for (uint32_t c0 = runs[0].begin; c0 < runs[0].end; c0 += runs[0].step) {
            for (uint32_t c1 = runs[1].begin; c1 < runs[1].end; c1 += runs[1].step) {
                if (num_bits == 0) continue;
                has_output = true;
                const uint32_t line = line_of(args.output_grid, site.batch, c0, c1);
                if (runs[2].step == 1 && num_bits < 32) {
                    const uint32_t index = line + runs[2].begin;
                    const uint64_t bits = static_cast<uint64_t>((1u << num_bits) - 1) << index % 32;
                    const auto low = static_cast<uint32_t>(bits);
                    const auto high = static_cast<uint32_t>(bits >> 32);
                    atomicOr(&args.output_bits[index / 32], low);
                    if (high != 0) atomicOr(&args.output_bits[index / 32 + 1], high);
                    continue;
                }
                for (uint32_t c2 = runs[2].begin; c2 < runs[2].end; c2 += runs[2].step) {
                    const uint32_t index = line + c2;
                    atomicOr(&args.output_bits[index / 32], 1u << index % 32);
                }
            }
        }
    }
    count(&args.output_counts[kOutside], is_site && !has_output);
}

extern "C" __global__ void __launch_bounds__(rulebook::kThreads)
    rulebook_mark_merged(const __grid_constant__ rulebook::MergedArgs args) {
    const uint32_t row = blockIdx.x * rulebook::kThreads + threadIdx.x;
    if (row >= args.capacity || row >= args.counts[rulebook::kNumSites]) return;
    const SiteCell site = cell_of(args.input_grid, args.sites[row]);
    const uint32_t c1 = site.cell[1] * args.scale;
    const uint32_t c2 = site.cell[2] * args.scale;
    const SiteGrid& grid = args.output_grid;
    if (site.batch >= grid.batch_size || c1 >= grid.shape[1] || c2 >= grid.shape[2]) return;
    const uint32_t index = line_of(grid, site.batch, 0, c1) + c2;
    atomicOr(&args.output_bits[index / 32], 1u << index % 32);
}

// Grid: x by output row, y by k0. One word for the three taps along the last axis.
extern "C" __global__ void __launch_bounds__(rulebook::kThreads)
    rulebook_triples(const __grid_constant__ rulebook::TableArgs args) {
    using namespace rulebook;
    const uint32_t row = blockIdx.x * rulebook::kThreads + threadIdx.x;
    if (row >= args.sites.len || row >= args.counts[kNumSites]) return;
    const Geometry& geometry = args.geometry;
    const uint32_t* shape = args.input_grid.shape;
    const SiteCell site = cell_of(args.output_grid, args.sites[row]);
    const uint32_t c0 = multiplied(geometry, 0, site.cell[0], blockIdx.y, shape[0]);
    const auto first =
        static_cast<int32_t>(site.cell[2] * geometry.stride[2] - geometry.padding[2]);
    uint32_t* words =
        &args.words[static_cast<uint64_t>(blockIdx.y * geometry.kernel[1]) * args.stride + row];
    for (uint32_t k1 = 0; k1 < geometry.kernel[1]; k1 += kUnrolled) {
        Triple triples[kUnrolled];
#pragma unroll
        for (uint32_t i = 0; i < kUnrolled; ++i) {
            const uint32_t c1 = multiplied(geometry, 1, site.cell[1], k1 + i, shape[1]);
            const bool is_inside = c0 != kNoRow && c1 != kNoRow;
            const uint32_t line = is_inside ? line_of(args.input_grid, site.batch, c0, c1) : 0;
            triples[i].load(args.input, line, first, shape[2], is_inside);
        }
#pragma unroll
        for (uint32_t i = 0; i < kUnrolled; ++i) triples[i].load_rank(args.input);
#pragma unroll
        for (uint32_t i = 0; i < kUnrolled; ++i) {
            if (k1 + i < geometry.kernel[1]) {
                words[static_cast<uint64_t>(k1 + i) * args.stride] = triples[i].value();
            }
        }
    }
}

// Grid: x by output row, y by k0 and k1. One word a tap.
extern "C" __global__ void __launch_bounds__(rulebook::kThreads)
    rulebook_taps(const __grid_constant__ rulebook::TableArgs args) {
    using namespace rulebook;
    const uint32_t row = blockIdx.x * rulebook::kThreads + threadIdx.x;
    if (row >= args.sites.len || row >= args.counts[kNumSites]) return;
    const Geometry& geometry = args.geometry;
    const uint32_t* shape = args.input_grid.shape;
    const bool is_divided = args.is_divided != 0;
    const SiteCell site = cell_of(args.output_grid, args.sites[row]);
    const uint32_t k0 = blockIdx.y / geometry.kernel[1];
    const uint32_t k1 = blockIdx.y % geometry.kernel[1];
    const uint32_t c0 = joined(geometry, is_divided, 0, site.cell[0], k0, shape[0]);
    const uint32_t c1 = joined(geometry, is_divided, 1, site.cell[1], k1, shape[1]);
    for (uint32_t k2 = 0; k2 < geometry.kernel[2]; ++k2) {
        const uint32_t c2 = joined(geometry, is_divided, 2, site.cell[2], k2, shape[2]);
        uint32_t found = kNoRow;
        if (c0 != kNoRow && c1 != kNoRow && c2 != kNoRow) {
            found = row_of(args.input, line_of(args.input_grid, site.batch, c0, c1) + c2);
        }
        const uint64_t tap = blockIdx.y * geometry.kernel[2] + k2;
        args.words[tap * args.stride + row] = found == kNoRow ? 0 : found << 3 | 1;
    }
}
