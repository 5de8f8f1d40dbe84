//! `kernels/nms.cuh` and the suppression ops made of it.

use super::super::{Grid, In, KernelSpec, Out, Plain};
use super::{check_len, check_threads, refused};
use crate::error::Result;
use crate::types::{Box2d, Box3d, Candidate, Kept, RotatedBox2d};

/// Threads of a block, in every step but `small` and `arrange`.
pub const THREADS_PER_BLOCK: u32 = 256;
/// Threads of a block in the step `arrange`.
pub const ARRANGE_THREADS_PER_BLOCK: u32 = 32;
/// Threads of a block in the step `small`.
pub const SMALL_THREADS_PER_BLOCK: u32 = 1024;
/// Candidates a block takes in the step `suppress`: one a warp.
pub const CANDIDATES_PER_BLOCK: u32 = 8;
/// Candidates that a block of the step `tiles` orders.
pub const PART: u32 = 64;
/// Candidates that are ordered together before they are merged.
pub const TILE: u32 = 512;
/// Tiles that a block of the step `merge` searches.
pub const TILES_AT_ONCE: u32 = 2;
/// Up to this capacity the step `small` does everything.
pub const SMALL_CAPACITY: usize = 2048;
/// The most candidates that a block of the step `small` owns.
pub const MAX_OWNED: usize = 16;
/// What the step `small` takes for few candidates, and the most of these that a
/// block owns.
const FEW_CAPACITY: usize = 512;
const MAX_FEW_OWNED: usize = 4;
/// Words that the step `small` keeps of few candidates: one for each and 32.
pub const FEW_COLUMNS: usize = FEW_CAPACITY * FEW_CAPACITY / 32;
/// Candidates that an entry of a list in the step `small` can name.
pub const PIECE: usize = 16;

/// The mirror of `NmsSettings`, in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(16))]
pub struct NmsSettings {
    /// IoU above which a better box suppresses.
    pub iou_threshold: f32,
    /// Candidates at or below it take no part, if `has_score_threshold`.
    pub score_threshold: f32,
    /// Added to widths and heights.
    pub offset: f32,
    /// Centres farther apart along an axis never meet.
    pub reach: f32,
    /// Centres farther apart than its root never meet.
    pub squared_search_distance: f32,
    /// 0 or 1.
    pub has_score_threshold: u32,
    /// The most survivors.
    pub max_num: u32,
    /// 0 aware, 1 agnostic, 2 groups.
    pub class_mode: u32,
    /// Classes that have a group.
    pub num_groups: u32,
    /// Thresholds; one holds for all classes.
    pub num_thresholds: u32,
    /// Pairs of classes that never suppress each other.
    pub num_forbidden: u32,
    /// Of a circle's threshold: 0 radius, 1 squared distance.
    pub reading: u32,
}

/// The mirror of `NmsCounts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NmsCounts {
    /// Survivors.
    pub num_kept: u32,
    /// One more than the highest class that has no threshold, else 0.
    pub class_over: u32,
}

// SAFETY: 12 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for NmsSettings {}
// SAFETY: 2 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for NmsCounts {}

/// The mirror of `NmsArgs`: the same for every step of an op.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NmsArgs<'a, C> {
    /// Candidates in any order; their number of places is the capacity.
    pub candidates: In<'a, C>,
    /// How many there are; at most the capacity are read.
    pub num_candidates: In<'a, u32>,
    /// The settings.
    pub settings: In<'a, NmsSettings>,
    /// Group of a class.
    pub groups: In<'a, u32>,
    /// Threshold of a class.
    pub thresholds: In<'a, f32>,
    /// Pairs of classes that never suppress each other.
    pub forbidden: In<'a, [u32; 2]>,
    /// What the exact comparison reads of each.
    pub parts: In<'a, [f32; 4]>,
    /// Keys of the tiles, by rank and by place.
    pub keys: Out<'a, u64>,
    /// Candidate and score by rank.
    pub order: Out<'a, Kept>,
    /// Rank by candidate.
    pub ranks: Out<'a, u32>,
    /// By candidate how many parts of its place are added, and their sum.
    pub places: Out<'a, u64>,
    /// Candidate by place.
    pub found_candidates: Out<'a, u32>,
    /// What is compared, by rank.
    pub items: Out<'a, [f32; 4]>,
    /// Group by rank, where there are classes.
    pub item_groups: Out<'a, u64>,
    /// What is compared, by place.
    pub found_items: Out<'a, [f32; 4]>,
    /// Rank by place.
    pub found_ranks: Out<'a, u32>,
    /// Group by place, where there are classes.
    pub found_groups: Out<'a, u64>,
    /// Bounds of 32 places.
    pub bounds: Out<'a, [u32; 4]>,
    /// Verdict by rank.
    pub states: Out<'a, u32>,
    /// The next block's turn, and the highest class over.
    pub ticket: Out<'a, u32>,
    /// Survivors, best first.
    pub kept: Out<'a, Kept>,
    /// How many.
    pub counts: Out<'a, NmsCounts>,
    /// The survivors in memory of the host.
    pub published: Out<'a, Kept>,
    /// How many, in memory of the host.
    pub published_counts: Out<'a, NmsCounts>,
    /// Of the step `small`: rank, length of the list, and how it begins.
    pub notes: Out<'a, [u32; 4]>,
    /// Of the step `small`: how the list goes on.
    pub entries: Out<'a, u32>,
    /// Of the step `small`, for few candidates: what 32 columns are to a row.
    pub columns: Out<'a, u64>,
}

const _: () = assert!(size_of::<NmsArgs<'_, Candidate<Box2d>>>() == 27 * 16);

fn check_all(kernel: &str, slices: &[(&str, usize, usize)]) -> Result<()> {
    slices.iter().try_for_each(|&(name, found, needed)| check_len(kernel, name, found, needed))
}

fn check_common<C>(kernel: &str, args: &NmsArgs<'_, C>, num_parts: usize) -> Result<()> {
    let capacity = args.candidates.len();
    check_all(
        kernel,
        &[
            ("num_candidates", args.num_candidates.len(), 1),
            ("settings", args.settings.len(), 1),
            ("parts", args.parts.len(), num_parts * capacity),
            ("order", args.order.len(), capacity),
            ("ticket", args.ticket.len(), 2),
            ("kept", args.kept.len(), capacity),
            ("counts", args.counts.len(), 1),
            ("published", args.published.len(), capacity),
            ("published_counts", args.published_counts.len(), 1),
        ],
    )
}

fn check_small<C>(
    kernel: &str,
    args: &NmsArgs<'_, C>,
    grid: &Grid,
    num_parts: usize,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, SMALL_THREADS_PER_BLOCK)?;
    check_common(kernel, args, num_parts)?;
    let capacity = args.candidates.len();
    let [num_blocks, num_rows] = grid.num_blocks;
    let owned = |num: usize| capacity.min(num).div_ceil(num_blocks.max(1) as usize);
    let fits = capacity <= SMALL_CAPACITY
        && owned(SMALL_CAPACITY) <= MAX_OWNED
        && owned(FEW_CAPACITY) <= MAX_FEW_OWNED;
    if !fits || !num_blocks.is_power_of_two() || num_rows != 1 {
        let grid = grid.num_blocks;
        return Err(refused(kernel, &format!("{capacity} candidates on a grid of {grid:?}")));
    }
    check_all(
        kernel,
        &[
            ("columns", args.columns.len(), FEW_COLUMNS),
            ("notes", args.notes.len(), capacity),
            ("entries", args.entries.len(), capacity.div_ceil(PIECE) * capacity),
        ],
    )
}

fn check<C>(kernel: &str, args: &NmsArgs<'_, C>, grid: &Grid, num_parts: usize) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    check_large(kernel, args, num_parts)
}

fn check_arrange<C>(
    kernel: &str,
    args: &NmsArgs<'_, C>,
    grid: &Grid,
    num_parts: usize,
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, ARRANGE_THREADS_PER_BLOCK)?;
    check_large(kernel, args, num_parts)
}

fn check_large<C>(kernel: &str, args: &NmsArgs<'_, C>, num_parts: usize) -> Result<()> {
    check_common(kernel, args, num_parts)?;
    let capacity = args.candidates.len();
    check_all(
        kernel,
        &[
            ("keys", args.keys.len(), 2 * capacity),
            ("ranks", args.ranks.len(), capacity),
            ("places", args.places.len(), capacity),
            ("found_candidates", args.found_candidates.len(), capacity),
            ("items", args.items.len(), capacity),
            ("item_groups", args.item_groups.len(), capacity),
            ("found_items", args.found_items.len(), capacity),
            ("found_ranks", args.found_ranks.len(), capacity),
            ("found_groups", args.found_groups.len(), capacity),
            ("bounds", args.bounds.len(), capacity.div_ceil(32)),
            ("states", args.states.len(), capacity),
        ],
    )
}

/// The steps of a suppression op; see the head of `kernels/nms.cuh`.
pub trait NmsSteps {
    /// What is suppressed.
    type Candidate: Plain;
    /// Vectors of 16 bytes that the exact comparison reads of a candidate; 0
    /// where the items decide alone.
    const NUM_PARTS: usize;
    /// Suppresses up to [`SMALL_CAPACITY`] candidates.
    type Small: for<'a> KernelSpec<Args<'a> = NmsArgs<'a, Self::Candidate>>;
    /// Orders tiles.
    type Tiles: for<'a> KernelSpec<Args<'a> = NmsArgs<'a, Self::Candidate>>;
    /// Merges the tiles.
    type Merge: for<'a> KernelSpec<Args<'a> = NmsArgs<'a, Self::Candidate>>;
    /// Arranges by place.
    type Arrange: for<'a> KernelSpec<Args<'a> = NmsArgs<'a, Self::Candidate>>;
    /// Compares with those whose bounds meet.
    type Suppress: for<'a> KernelSpec<Args<'a> = NmsArgs<'a, Self::Candidate>>;
    /// Writes the survivors.
    type Publish: for<'a> KernelSpec<Args<'a> = NmsArgs<'a, Self::Candidate>>;
}

macro_rules! step {
    ($module:ident, $kernel:ident, $name:literal, $candidate:ty, $parts:literal, $check:ident) => {
        /// One step.
        pub struct $kernel;

        // SAFETY: `NmsArgs` mirrors the struct of that name (27 slices of 16
        // bytes). Every index a step uses is a thread's own, below the number
        // of candidates, which it cuts to the capacity, or a position that an
        // earlier step stored; those are below the capacity, too, since memory
        // starts as zero and only positions of candidates are stored, or, where
        // they are sums, are compared with it first. Groups, thresholds and
        // forbidden pairs are read within their own lengths. The check covers
        // all other slices. Candidates are read 16 bytes at a time, as far as
        // they reach, from the start of a buffer, which is so aligned. In the
        // step `suppress` a candidate only waits for better ones, which blocks
        // that already run have taken, so that it ends. In the step `small`
        // only the last block waits for others, which wait for nobody and begin
        // before it (by the order of numbers in which GPUs begin blocks: see
        // `kernels/nms_bitmask_dense.cuh`); each round settles the best that is open.
        unsafe impl KernelSpec for $kernel {
            const NAME: &'static str = concat!(stringify!($module), "_", $name);
            type Args<'a> = NmsArgs<'a, $candidate>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                $check(Self::NAME, args, grid, $parts)
            }
        }
    };
}

macro_rules! steps {
    ($module:ident, $steps:ident, $candidate:ty, $parts:literal, $text:literal) => {
        #[doc = $text]
        pub mod $module {
            use super::*;

            step!($module, Small, "small", $candidate, $parts, check_small);
            step!($module, Tiles, "tiles", $candidate, $parts, check);
            step!($module, Merge, "merge", $candidate, $parts, check);
            step!($module, Arrange, "arrange", $candidate, $parts, check_arrange);
            step!($module, Suppress, "suppress", $candidate, $parts, check);
            step!($module, Publish, "publish", $candidate, $parts, check);

            #[doc = $text]
            pub struct $steps;

            impl NmsSteps for $steps {
                type Candidate = $candidate;
                const NUM_PARTS: usize = $parts;
                type Small = Small;
                type Tiles = Tiles;
                type Merge = Merge;
                type Arrange = Arrange;
                type Suppress = Suppress;
                type Publish = Publish;
            }
        }
    };
}

steps!(nms_iou, NmsIouSteps, Candidate<Box2d>, 0, "`kernels/nms_iou.cu`.");
steps!(nms_fast, NmsFastSteps, Candidate<Box2d>, 0, "`kernels/nms_fast.cu`.");
steps!(nms_circle, NmsCircleSteps, Candidate<Box3d>, 0, "`kernels/nms_circle.cu`.");
steps!(nms_rotated, NmsRotatedSteps, Candidate<RotatedBox2d>, 2, "`kernels/nms_rotated.cu`.");
steps!(nms_bev, NmsBevSteps, Candidate<Box3d>, 2, "`kernels/nms_bev.cu`.");
steps!(nms_iou_3d, NmsIou3dSteps, Candidate<Box3d>, 3, "`kernels/nms_iou_3d.cu`.");

/// The mirror of `PrepareArgs`: what the step `prepare` makes, of an op whose
/// items do not decide alone.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PrepareArgs<'a, C> {
    /// Candidates in any order.
    pub candidates: In<'a, C>,
    /// How many there are; at most the capacity are read.
    pub num_candidates: In<'a, u32>,
    /// Part `p` of candidate `i` at `p * capacity + i`.
    pub parts: Out<'a, [f32; 4]>,
}

const _: () = assert!(size_of::<PrepareArgs<'_, Candidate<Box3d>>>() == 3 * 16);

/// The steps of an op whose exact comparison reads parts.
pub trait PreparedSteps: NmsSteps {
    /// Makes the parts, before all other steps.
    type Prepare: for<'a> KernelSpec<Args<'a> = PrepareArgs<'a, Self::Candidate>>;
}

macro_rules! prepare {
    ($module:ident, $steps:ident, $kernel:ident, $candidate:ty) => {
        /// The step `prepare`.
        pub struct $kernel;

        // SAFETY: `PrepareArgs` mirrors the struct of that name (3 slices of 16
        // bytes). A thread whose position is not below the number of
        // candidates, cut to the capacity, does nothing; the others read their
        // own and write its parts, for which the check asks for room.
        unsafe impl KernelSpec for $kernel {
            const NAME: &'static str = concat!(stringify!($module), "_prepare");
            type Args<'a> = PrepareArgs<'a, $candidate>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
                let needed = $module::$steps::NUM_PARTS * args.candidates.len();
                check_len(Self::NAME, "parts", args.parts.len(), needed)?;
                check_len(Self::NAME, "num_candidates", args.num_candidates.len(), 1)
            }
        }

        impl PreparedSteps for $module::$steps {
            type Prepare = $kernel;
        }
    };
}

prepare!(nms_rotated, NmsRotatedSteps, PrepareRotated, Candidate<RotatedBox2d>);
prepare!(nms_bev, NmsBevSteps, PrepareBev, Candidate<Box3d>);
prepare!(nms_iou_3d, NmsIou3dSteps, PrepareIou3d, Candidate<Box3d>);
