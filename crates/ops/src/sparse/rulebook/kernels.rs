//! The parameters of `kernels/sparse/rulebook.cu`.

use super::SiteGrid;
use super::args::{GeometryArgs, GridArgs, SiteIndexArgs};
use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, kernel_specs, mirrors,
    refused,
};
use det_post_types::Result;

/// Threads per block of every step but `count` and `rank`.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("sparse/rulebook.cuh", "kThreads");
/// Threads per block of the steps `count` and `rank`.
pub const RANK_THREADS_PER_BLOCK: u32 = kernel_constant!("sparse/rulebook.cuh", "kRankThreads");
/// Words per thread of `count` and `rank`, of the input's level.
pub const INPUT_WORDS: u32 = kernel_constant!("sparse/rulebook.cuh", "kInputWords");
/// Words per thread of `count` and `rank`, of other levels.
pub const OUTPUT_WORDS: u32 = kernel_constant!("sparse/rulebook.cuh", "kOutputWords");
/// The most levels that are cleared at once.
pub const MAX_LEVELS: usize = kernel_constant!("sparse/rulebook.cuh", "kMaxLevels") as usize;
/// Values of [`LevelArgs::counts`].
pub const NUM_COUNTS: usize = 4;
/// Of the counts: sites kept.
pub const NUM_SITES: usize = kernel_constant!("sparse/rulebook.cuh", "kNumSites") as usize;
/// Of the counts: sites over the capacity.
pub const OVER_CAPACITY: usize = kernel_constant!("sparse/rulebook.cuh", "kOverCapacity") as usize;
/// Of the counts: rows outside the grid, or sites of the level before without output.
pub const OUTSIDE: usize = kernel_constant!("sparse/rulebook.cuh", "kOutside") as usize;
/// Of the counts: rows of a cell that an earlier row has.
pub const DUPLICATES: usize = kernel_constant!("sparse/rulebook.cuh", "kDuplicates") as usize;

/// A level to clear: `Level` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LevelArgs<'a> {
    /// Sites of the last frame.
    pub sites: Out<'a, u32>,
    /// A bit per cell.
    pub bits: Out<'a, u32>,
    /// [`NUM_COUNTS`] counts.
    pub counts: Out<'a, u32>,
    /// By site the input row; empty on levels after the first.
    pub input_rows: Out<'a, u32>,
}

/// The parameter of `rulebook_clear`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ClearArgs<'a> {
    /// The first `num_levels` of them are cleared.
    pub levels: [LevelArgs<'a>; MAX_LEVELS],
    /// Number of levels.
    pub num_levels: u32,
    /// Padding.
    pub reserved: u32,
}

/// The parameter of `rulebook_mark_cells` and `rulebook_place`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CellsArgs<'a> {
    /// Batch, c0, c1, c2 by row; empty: `cells`.
    pub coordinates: In<'a, [u32; 4]>,
    /// Linear indices.
    pub cells: In<'a, u32>,
    /// Their number.
    pub num_cells: In<'a, u32>,
    /// A bit per cell.
    pub bits: Out<'a, u32>,
    /// By word the sites before it.
    pub ranks: Out<'a, u32>,
    /// [`NUM_COUNTS`] counts.
    pub counts: Out<'a, u32>,
    /// Linear indices, ascending.
    pub sites: Out<'a, u32>,
    /// By site the first row of its cell.
    pub input_rows: Out<'a, u32>,
    /// The grid.
    pub grid: GridArgs,
    /// The most rows.
    pub capacity: u32,
    /// Padding.
    pub reserved: u32,
}

/// The parameter of `rulebook_count_*` and `rulebook_rank_*`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RankArgs<'a> {
    /// A bit per cell.
    pub bits: Out<'a, u32>,
    /// By word the sites before it.
    pub ranks: Out<'a, u32>,
    /// Linear indices, ascending.
    pub sites: Out<'a, u32>,
    /// Bits by tile.
    pub sums: Out<'a, u32>,
    /// [`NUM_COUNTS`] counts.
    pub counts: Out<'a, u32>,
    /// Words of the bitmap, a multiple of 4.
    pub num_words: u32,
    /// The most sites.
    pub capacity: u32,
}

/// The parameter of `rulebook_mark_outputs`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OutputsArgs<'a> {
    /// Sites of the input.
    pub sites: In<'a, u32>,
    /// Their counts.
    pub counts: In<'a, u32>,
    /// A bit per cell of the output.
    pub output_bits: Out<'a, u32>,
    /// Counts of the output.
    pub output_counts: Out<'a, u32>,
    /// The grid of the input.
    pub input_grid: GridArgs,
    /// The grid of the output.
    pub output_grid: GridArgs,
    /// The convolution.
    pub geometry: GeometryArgs,
    /// The most sites of the input.
    pub capacity: u32,
    /// 1: `output = input * stride - padding + tap * dilation`.
    pub is_transposed: u32,
}

/// The parameter of `rulebook_mark_merged`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MergedArgs<'a> {
    /// Sites of the level.
    pub sites: In<'a, u32>,
    /// Their counts.
    pub counts: In<'a, u32>,
    /// A bit per cell of the plane.
    pub output_bits: Out<'a, u32>,
    /// The grid of the level.
    pub input_grid: GridArgs,
    /// The grid of the plane.
    pub output_grid: GridArgs,
    /// The most sites of the level.
    pub capacity: u32,
    /// Cells of the plane that a cell of the level is wide.
    pub scale: u32,
}

/// The parameter of `rulebook_triples` and `rulebook_taps`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TableArgs<'a> {
    /// The input's level.
    pub input: SiteIndexArgs<'a>,
    /// Sites of the output.
    pub sites: In<'a, u32>,
    /// Their counts.
    pub counts: In<'a, u32>,
    /// Words of the table.
    pub words: Out<'a, u32>,
    /// The grid of the input.
    pub input_grid: GridArgs,
    /// The grid of the output.
    pub output_grid: GridArgs,
    /// The convolution.
    pub geometry: GeometryArgs,
    /// Words from one group to the next.
    pub stride: u32,
    /// 1: the input is the output divided by the stride.
    pub is_divided: u32,
}

mirrors!(LevelArgs<'_>, "sparse/rulebook.cuh", "Level");
mirrors!(ClearArgs<'_>, "sparse/rulebook.cuh", "ClearArgs");
mirrors!(CellsArgs<'_>, "sparse/rulebook.cuh", "CellsArgs");
mirrors!(RankArgs<'_>, "sparse/rulebook.cuh", "RankArgs");
mirrors!(OutputsArgs<'_>, "sparse/rulebook.cuh", "OutputsArgs");
mirrors!(MergedArgs<'_>, "sparse/rulebook.cuh", "MergedArgs");
mirrors!(TableArgs<'_>, "sparse/rulebook.cuh", "TableArgs");

/// Empties the bitmaps of levels.
pub struct Clear;

// SAFETY: `ClearArgs` mirrors the struct of that name. A thread reads a site below the
// number of sites and the length of the slice; sites are cells of the bitmap. No thread
// waits.
unsafe impl KernelSpec for Clear {
    const NAME: &'static str = "rulebook_clear";
    type Args<'a> = ClearArgs<'a>;
    fn check(args: &ClearArgs<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let num_levels = args.num_levels as usize;
        if num_levels > MAX_LEVELS || grid.num_blocks[1] as usize > num_levels {
            let message = format!("{num_levels} levels, {:?} blocks", grid.num_blocks);
            return Err(refused(Self::NAME, &message));
        }
        let levels = &args.levels[..num_levels];
        check_lens(
            Self::NAME,
            levels.iter().map(|level| ("counts", level.counts.len(), NUM_COUNTS)),
        )
    }
}

fn check_cells(kernel: &str, args: &CellsArgs<'_>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let num_words = args.grid.num_cells().div_ceil(32) as usize;
    let capacity = args.capacity as usize;
    let num_rows =
        if args.coordinates.is_empty() { &args.cells.len() } else { &args.coordinates.len() };
    check_lens(
        kernel,
        [
            ("rows", *num_rows, capacity),
            ("num_cells", args.num_cells.len(), 1),
            ("bits", args.bits.len(), num_words),
            ("ranks", args.ranks.len(), args.bits.len()),
            ("counts", args.counts.len(), NUM_COUNTS),
            ("input_rows", args.input_rows.len(), args.sites.len()),
        ],
    )
}

/// Sets the bits of the input's cells.
pub struct MarkCells;
/// Writes the sites of the input and their first rows.
pub struct Place;

// SAFETY: `CellsArgs` mirrors the struct of that name. Rows are read below the number of rows and
// the capacity, for which the slices are long enough. A cell is inside the grid or below 32 times
// the bitmap's length. A site is compared with the length of `sites`. No thread waits.
kernel_specs! {
    check_cells;
    unsafe MarkCells: "rulebook_mark_cells", CellsArgs;
    unsafe Place: "rulebook_place", CellsArgs;
}

fn check_rank(kernel: &str, args: &RankArgs<'_>, grid: &Grid, words: u32) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, RANK_THREADS_PER_BLOCK)?;
    let num_tiles = args.num_words.div_ceil(RANK_THREADS_PER_BLOCK * words);
    if grid.num_blocks != [num_tiles, 1] || !args.num_words.is_multiple_of(4) {
        let message = format!("{:?} blocks do not fit {} words", grid.num_blocks, args.num_words);
        return Err(refused(kernel, &message));
    }
    check_lens(
        kernel,
        [
            ("bits", args.bits.len(), args.num_words as usize),
            ("ranks", args.ranks.len(), args.num_words as usize),
            ("sites", args.sites.len(), args.capacity as usize),
            ("sums", args.sums.len(), num_tiles as usize),
            ("counts", args.counts.len(), NUM_COUNTS),
        ],
    )
}

/// Counts the bits of tiles of the input.
pub struct CountInput;
/// Ranks the words of the input.
pub struct RankInput;
/// Counts the bits of tiles.
pub struct CountOutput;
/// Ranks the words and writes the sites.
pub struct RankOutput;

// SAFETY: `RankArgs` mirrors the struct of that name. A block per tile reads and writes words
// below `num_words`, and sites below the capacity; the check covers both. No thread waits.
kernel_specs! {
    check_rank;
    unsafe CountInput: "rulebook_count_input", RankArgs, INPUT_WORDS;
    unsafe RankInput: "rulebook_rank_input", RankArgs, INPUT_WORDS;
    unsafe CountOutput: "rulebook_count_output", RankArgs, OUTPUT_WORDS;
    unsafe RankOutput: "rulebook_rank_output", RankArgs, OUTPUT_WORDS;
}

/// Sets the bits of the cells that sites reach.
pub struct MarkOutputs;

// SAFETY: `OutputsArgs` mirrors the struct of that name. Sites are read below their
// number and the capacity; a cell of the output is inside its grid, for which the bitmap
// is long enough. Loops are bounded by the geometry, whose values are checked. No thread
// waits.
unsafe impl KernelSpec for MarkOutputs {
    const NAME: &'static str = "rulebook_mark_outputs";
    type Args<'a> = OutputsArgs<'a>;
    fn check(args: &OutputsArgs<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        if !args.geometry.is_possible() || args.output_grid.num_cells() > SiteGrid::MAX_CELLS {
            return Err(refused(Self::NAME, &format!("{:?}", args.geometry)));
        }
        let num_words = args.output_grid.num_cells().div_ceil(32) as usize;
        check_lens(
            Self::NAME,
            [
                ("sites", args.sites.len(), args.capacity as usize),
                ("counts", args.counts.len(), NUM_COUNTS),
                ("output_bits", args.output_bits.len(), num_words),
                ("output_counts", args.output_counts.len(), NUM_COUNTS),
            ],
        )
    }
}

/// Sets the bits of the cells of a plane that are under sites.
pub struct MarkMerged;

// SAFETY: `MergedArgs` mirrors the struct of that name. Sites are read below their number and the
// capacity; a cell of the plane is compared with its grid, for which the bitmap is long enough. No
// thread waits.
unsafe impl KernelSpec for MarkMerged {
    const NAME: &'static str = "rulebook_mark_merged";
    type Args<'a> = MergedArgs<'a>;
    fn check(args: &MergedArgs<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        if args.output_grid.num_cells() > SiteGrid::MAX_CELLS {
            return Err(refused(Self::NAME, &format!("{:?}", args.output_grid)));
        }
        let num_words = args.output_grid.num_cells().div_ceil(32) as usize;
        check_lens(
            Self::NAME,
            [
                ("sites", args.sites.len(), args.capacity as usize),
                ("counts", args.counts.len(), NUM_COUNTS),
                ("output_bits", args.output_bits.len(), num_words),
            ],
        )
    }
}

fn check_table(
    kernel: &str,
    args: &TableArgs<'_>,
    grid: &Grid,
    groups_per_block: u32,
    num_groups: u32,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let fits = args.geometry.is_possible()
        && grid.num_blocks[1] * groups_per_block == num_groups
        && args.input.has_cells(args.input_grid.num_cells())
        && args.stride as usize >= args.sites.len();
    if !fits {
        let message = format!("{:?} blocks for {:?}", grid.num_blocks, args.geometry);
        return Err(refused(kernel, &message));
    }
    let num_words = num_groups as usize * args.stride as usize;
    check_lens(
        kernel,
        [("counts", args.counts.len(), NUM_COUNTS), ("words", args.words.len(), num_words)],
    )
}

/// Fills a table of triples.
pub struct Triples;

// SAFETY: `TableArgs` mirrors the struct of that name. A thread has a site below the
// number of sites and the length of `sites`, which is not above the stride, and writes
// the words of the groups of its block's y. Cells of the input are inside its grid. No
// thread waits.
unsafe impl KernelSpec for Triples {
    const NAME: &'static str = "rulebook_triples";
    type Args<'a> = TableArgs<'a>;
    fn check(args: &TableArgs<'_>, grid: &Grid) -> Result<()> {
        let [k0, k1, k2] = args.geometry.kernel;
        if k2 != 3 || args.is_divided != 0 {
            return Err(refused(Self::NAME, &format!("{:?}", args.geometry)));
        }
        check_table(Self::NAME, args, grid, k1, k0 * k1)
    }
}

/// Fills a table of taps.
pub struct TapWords;

// SAFETY: as for `Triples`; a thread writes a word per tap.
unsafe impl KernelSpec for TapWords {
    const NAME: &'static str = "rulebook_taps";
    type Args<'a> = TableArgs<'a>;
    fn check(args: &TableArgs<'_>, grid: &Grid) -> Result<()> {
        let [k0, k1, k2] = args.geometry.kernel;
        check_table(Self::NAME, args, grid, k2, k0 * k1 * k2)
    }
}
