//! The parameters of `kernels/cloud/voxelize.cu`, and the grid of `kernels/cloud/grid.cuh`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, Plain, check_lens, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::{Count, RangeEnds, Result};

/// Threads per block of every step but `number`.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("cloud/bucket_order.cuh", "kThreads");
/// Threads per block of the step `number`, and points per tile.
pub const NUMBER_THREADS_PER_BLOCK: u32 = kernel_constant!("cloud/voxelize.cu", "kNumberThreads");
/// The maximum number of points of a bucket that is not large.
pub const MAX_SMALL_BUCKET: usize =
    kernel_constant!("cloud/voxel_bucket.cuh", "kMaxSmallBucket") as usize;
/// The maximum number of points: the aggregate of a tile holds the numbers of its
/// voxels and of their points.
pub const MAX_POINTS: usize = (1 << (32 - kernel_constant!("cloud/voxelize.cu", "kVoxelBits"))) - 1;
/// The maximum number of points per voxel: a warp holds twice as many.
pub const MAX_POINTS_PER_VOXEL: usize =
    kernel_constant!("cloud/bucket_order.cuh", "kMaxHeld") as usize / 2;
/// As the maximum number of points per voxel: no limit.
pub const NO_LIMIT: u32 = u32::MAX;

/// A grid: `VoxelGrid` in the kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct GridArgs {
    min: [f32; 3],
    voxel_size: [f32; 3],
    size: [u32; 3],
    max: [f32; 3],
    both_ends_outside: u32,
}

impl GridArgs {
    /// The grid as kernels read it.
    pub fn new(grid: &det_post_types::Grid) -> Self {
        Self {
            min: grid.range().min,
            voxel_size: grid.voxel_size_m(),
            size: grid.grid_size(),
            max: grid.range().max,
            both_ends_outside: u32::from(grid.ends() == RangeEnds::BothOutside),
        }
    }

    /// The number of cells, which must fit a `u32`.
    fn num_cells(&self) -> u64 {
        self.size.iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul)
    }
}

/// A cell of the frame: `Entry` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Entry {
    key: u32,
    first: u32,
    num: u32,
    voxel: u32,
}

/// All points of a voxel: a range of `bucket_points`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VoxelBucket {
    offset: u32,
    count: u32,
}

/// Dropped points of the voxels whose first point is in a tile: `DroppedPoints` in
/// the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DroppedPoints {
    over_voxel: u32,
    over_capacity: u32,
}

// SAFETY: 4 values of 4 bytes each, 16 bytes in all, any bits are a value.
unsafe impl Plain for Entry {}
// SAFETY: 2 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for VoxelBucket {}
// SAFETY: 2 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for DroppedPoints {}

mirrors!(GridArgs, "cloud/grid.cuh", "VoxelGrid");
mirrors!(Entry, "cloud/voxelize.cu", "Entry");
mirrors!(VoxelBucket, "cloud/voxel_bucket.cuh", "VoxelBucket");
mirrors!(DroppedPoints, "cloud/voxelize.cu", "DroppedPoints");

/// The parameter of every step: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VoxelizeArgs<'a> {
    /// Rows of floats.
    pub points: In<'a, f32>,
    /// Their number.
    pub num_points: In<'a, u32>,
    /// The cell of a voxel, x fastest.
    pub cells: Out<'a, u32>,
    /// By voxel, the number of its points.
    pub num_points_per_voxel: Out<'a, u32>,
    /// By voxel, the indices of its points, ascending; without a limit as `buckets`.
    pub point_indices: Out<'a, u32>,
    /// The number of voxels.
    pub num_voxels: Out<'a, u32>,
    /// The counters of the frame.
    pub counters: Out<'a, u32>,
    /// Cells; zero between launches but for `voxel`.
    pub entries: Out<'a, Entry>,
    /// By point, its entry.
    pub point_entries: Out<'a, u32>,
    /// By point, its position in the bucket.
    pub point_positions: Out<'a, u32>,
    /// Points, bucket by bucket.
    pub bucket_points: Out<'a, u32>,
    /// By voxel, its bucket.
    pub buckets: Out<'a, VoxelBucket>,
    /// Voxels with large buckets.
    pub large_buckets: Out<'a, u32>,
    /// Their number.
    pub num_large_buckets: Out<'a, u32>,
    /// One value: the ticket of the next tile, and the epoch of the launch.
    pub ticket: Out<'a, u64>,
    /// By tile, its aggregate and the epoch of the launch.
    pub aggregates: Out<'a, u64>,
    /// By tile, the points that its voxels drop.
    pub dropped: Out<'a, DroppedPoints>,
    /// The grid.
    pub grid: GridArgs,
    /// Floats per point.
    pub num_channels: u32,
    /// The maximum number of points.
    pub point_capacity: u32,
    /// The maximum number of points per voxel, or [`NO_LIMIT`].
    pub max_points_per_voxel: u32,
    /// The maximum number of voxels.
    pub voxel_capacity: u32,
    /// The shift from a hash to an entry; 0: an entry per cell.
    pub hash_shift: u32,
    /// Blocks of the step `order` for large buckets, at least 1.
    pub num_large_blocks: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(VoxelizeArgs<'_>, "cloud/voxelize.cu", "Args");

fn check(kernel: &str, args: &VoxelizeArgs<'_>, grid: &Grid, step: &Step) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, step.threads_per_block)?;
    let points = args.point_capacity as usize;
    let voxels = args.voxel_capacity as usize;
    let wanted = args.max_points_per_voxel as usize;
    let has_limit = args.max_points_per_voxel != NO_LIMIT;
    let has_step = match step.points {
        Points::Some => has_limit,
        Points::All => !has_limit,
        Points::SomeOrAll => true,
    };
    let num_cells = args.grid.num_cells();
    let further_blocks = if step.has_large { args.num_large_blocks } else { 0 };
    if grid.num_blocks[0] <= further_blocks
        || args.num_large_blocks == 0
        || grid.num_blocks[1] != 1
        || !has_step
        || has_limit && !(1..=MAX_POINTS_PER_VOXEL).contains(&wanted)
        || !(1..=u64::from(u32::MAX)).contains(&num_cells)
        || args.num_channels < 3
        || points > MAX_POINTS
    {
        let blocks = grid.num_blocks;
        let message = format!(
            "{blocks:?} blocks do not fit {points} points of {} channels, {wanted} per voxel, \
             {num_cells} cells",
            args.num_channels
        );
        return Err(refused(kernel, &message));
    }
    let num_entries = match args.hash_shift {
        0 => num_cells as usize,
        shift @ 1..=31 if args.entries.len() == 1 << (32 - shift) => 2 * points,
        shift => {
            let message =
                format!("{} entries do not fit hashes shifted by {shift}", args.entries.len());
            return Err(refused(kernel, &message));
        }
    };
    let num_indices = if has_limit { voxels.saturating_mul(wanted) } else { points };
    let num_tiles = points.div_ceil(NUMBER_THREADS_PER_BLOCK as usize).max(1);
    let slices = [
        ("points", args.points.len(), points.saturating_mul(args.num_channels as usize)),
        ("num_points", args.num_points.len(), 1),
        ("cells", args.cells.len(), voxels),
        ("num_points_per_voxel", args.num_points_per_voxel.len(), voxels),
        ("point_indices", args.point_indices.len(), num_indices),
        ("num_voxels", args.num_voxels.len(), 1),
        ("counters", args.counters.len(), Count::ALL.len()),
        ("entries", args.entries.len(), num_entries),
        ("point_entries", args.point_entries.len(), points),
        ("point_positions", args.point_positions.len(), points),
        ("bucket_points", args.bucket_points.len(), points),
        ("buckets", args.buckets.len(), voxels),
        ("num_large_buckets", args.num_large_buckets.len(), 1),
        ("ticket", args.ticket.len(), 1),
        ("aggregates", args.aggregates.len(), num_tiles),
        ("dropped", args.dropped.len(), num_tiles),
    ];
    check_lens(kernel, slices)
}

/// The launch shape of a step.
struct Step {
    threads_per_block: u32,
    /// Whether it has blocks for large buckets, too.
    has_large: bool,
    points: Points,
}

/// The points of a voxel that a step is for.
enum Points {
    /// The points below the limit.
    Some,
    /// All: there is no limit.
    All,
    /// Either.
    SomeOrAll,
}

macro_rules! step {
    ($kernel:ident, $name:literal, $text:literal, $threads:expr, $has_large:literal, $points:ident) => {
        #[doc = $text]
        pub struct $kernel;

        // SAFETY: `VoxelizeArgs` mirrors `voxelize::Args` (compared). Points are read below their
        // number, clamped to `point_capacity`, voxels written below `voxel_capacity`, for which the
        // slices are large enough (checked). A cell of the grid is below the number of entries, and
        // so is a hash. A hash table has twice as many entries as points, all empty at first and
        // cleared by the step `order`, so that the search for a free entry ends. Buckets are
        // disjoint ranges and hold each point once, so that they end below the number of points;
        // without a limit the indices of points are as many (checked). Blocks wait for aggregates
        // of tiles that were taken before theirs: those blocks run and publish before they wait.
        unsafe impl KernelSpec for $kernel {
            const NAME: &'static str = $name;
            type Args<'a> = VoxelizeArgs<'a>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                let step = Step {
                    threads_per_block: $threads,
                    has_large: $has_large,
                    points: Points::$points,
                };
                check(Self::NAME, args, grid, &step)
            }
        }
    };
}

step!(
    Claim,
    "voxelize_claim",
    "Finds the entry of every point's cell.",
    THREADS_PER_BLOCK,
    false,
    SomeOrAll
);
step!(
    Number,
    "voxelize_number",
    "Assigns indices to voxels.",
    NUMBER_THREADS_PER_BLOCK,
    false,
    SomeOrAll
);
step!(
    Fill,
    "voxelize_fill",
    "Writes points to their buckets.",
    THREADS_PER_BLOCK,
    false,
    SomeOrAll
);
step!(Order, "voxelize_order", "Orders the points of every voxel.", THREADS_PER_BLOCK, true, Some);
step!(
    OrderAll,
    "voxelize_order_all",
    "Orders the points of every voxel, of which there may be any number.",
    THREADS_PER_BLOCK,
    true,
    All
);
