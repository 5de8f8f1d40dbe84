//! `kernels/voxelize.cu`, and the grid of `kernels/grid.cuh`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, Plain, assert_mirrors, check_len, check_threads, kernel_constant,
    refused,
};
use crate::error::Result;
use crate::types::{self, Count};

/// Threads of a block in every step but `number`.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("voxelize.cu", "kThreads");
/// Threads of a block in the step `number`.
pub const NUMBER_THREADS_PER_BLOCK: u32 = kernel_constant!("voxelize.cu", "kNumberThreads");
/// Blocks of the step `order` that take crowded rooms, before those for points.
pub const CROWDED_BLOCKS: u32 = kernel_constant!("voxelize.cu", "kCrowdedBlocks");
/// Points of a room that is not crowded.
pub const MAX_UNCROWDED: usize = kernel_constant!("voxelize.cu", "kCrowded") as usize;
/// The most points: those of a block's voxels share a word with their voxels.
pub const MAX_POINTS: usize = (1 << (32 - kernel_constant!("voxelize.cu", "kVoxelBits"))) - 1;
/// The most points a voxel may keep: as many more are looked at together.
pub const MAX_POINTS_PER_VOXEL: usize = kernel_constant!("voxelize.cu", "kAtOnce") as usize / 2;

/// The mirror of `VoxelGrid`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct GridArgs {
    min: [f32; 3],
    voxel_size: [f32; 3],
    size: [u32; 3],
}

impl GridArgs {
    /// The same grid, for kernels.
    pub fn new(grid: &types::Grid) -> Self {
        Self { min: grid.range().min, voxel_size: grid.voxel_size_m(), size: grid.grid_size() }
    }

    /// Its cells; a kernel's u32 must number them.
    fn num_cells(&self) -> u64 {
        self.size.iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul)
    }
}

/// What is known of a cell in a frame: the mirror of `Entry`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Entry {
    key: u32,
    first: u32,
    num: u32,
    voxel: u32,
}

/// Where all points of a voxel lie: the mirror of `Room`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Room {
    start: u32,
    num: u32,
}

/// Points of the voxels that begin in a turn: the mirror of `Lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Lost {
    over_voxel: u32,
    over_capacity: u32,
}

// SAFETY: 4 values of 4 bytes each, 16 bytes in all, any bits are a value.
unsafe impl Plain for Entry {}
// SAFETY: 2 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for Room {}
// SAFETY: 2 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for Lost {}

assert_mirrors!(GridArgs, "grid.cuh", "VoxelGrid");
assert_mirrors!(Entry, "voxelize.cu", "Entry");
assert_mirrors!(Room, "voxelize.cu", "Room");
assert_mirrors!(Lost, "voxelize.cu", "Lost");

/// The mirror of `Args`: the same for every step.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VoxelizeArgs<'a> {
    /// Rows of floats.
    pub points: In<'a, f32>,
    /// How many.
    pub num_points: In<'a, u32>,
    /// The cell of a voxel, x fastest.
    pub cells: Out<'a, u32>,
    /// How many points a voxel keeps.
    pub num_points_per_voxel: Out<'a, u32>,
    /// Which, in order.
    pub point_indices: Out<'a, u32>,
    /// How many voxels there are.
    pub num_voxels: Out<'a, u32>,
    /// The counters of the frame.
    pub counters: Out<'a, u32>,
    /// What is known of cells; zero between launches but for `voxel`.
    pub entries: Out<'a, Entry>,
    /// By point, its entry.
    pub entry_of: Out<'a, u32>,
    /// By point, its place among those of its cell.
    pub place_of: Out<'a, u32>,
    /// Points by room.
    pub members: Out<'a, u32>,
    /// By voxel, its room.
    pub rooms: Out<'a, Room>,
    /// Voxels with crowded rooms.
    pub crowded: Out<'a, u32>,
    /// How many.
    pub num_crowded: Out<'a, u32>,
    /// The next block's turn.
    pub turns: Out<'a, u64>,
    /// What each turn found.
    pub numbers: Out<'a, u64>,
    /// What the voxels of each turn lost.
    pub lost: Out<'a, Lost>,
    /// The grid.
    pub grid: GridArgs,
    /// Floats a point.
    pub num_channels: u32,
    /// The most points that are read.
    pub point_capacity: u32,
    /// The most points a voxel keeps.
    pub max_points_per_voxel: u32,
    /// The most voxels.
    pub voxel_capacity: u32,
    /// Bits to shift a hash by to get an entry; 0 where cells are entries.
    pub hash_shift: u32,
}

assert_mirrors!(VoxelizeArgs<'_>, "voxelize.cu", "Args");

fn check(kernel: &str, args: &VoxelizeArgs<'_>, grid: &Grid, step: &Step) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, step.threads_per_block)?;
    let points = args.point_capacity as usize;
    let voxels = args.voxel_capacity as usize;
    let wanted = args.max_points_per_voxel as usize;
    let num_cells = args.grid.num_cells();
    if grid.num_blocks[0] <= step.further_blocks
        || grid.num_blocks[1] != 1
        || !(1..=MAX_POINTS_PER_VOXEL).contains(&wanted)
        || !(1..=u64::from(u32::MAX)).contains(&num_cells)
        || args.num_channels < 3
        || points > MAX_POINTS
    {
        let blocks = grid.num_blocks;
        let message = format!(
            "{blocks:?} blocks, {points} points of {} channels, {wanted} a voxel, {num_cells} cells",
            args.num_channels
        );
        return Err(refused(kernel, &message));
    }
    let num_entries = match args.hash_shift {
        0 => num_cells as usize,
        shift @ 1..=31 if args.entries.len() == 1 << (32 - shift) => 2 * points,
        shift => {
            let message = format!("{} entries, hashes shifted by {shift}", args.entries.len());
            return Err(refused(kernel, &message));
        }
    };
    let num_turns = points.div_ceil(NUMBER_THREADS_PER_BLOCK as usize).max(1);
    let slices = [
        ("points", args.points.len(), points.saturating_mul(args.num_channels as usize)),
        ("num_points", args.num_points.len(), 1),
        ("cells", args.cells.len(), voxels),
        ("num_points_per_voxel", args.num_points_per_voxel.len(), voxels),
        ("point_indices", args.point_indices.len(), voxels.saturating_mul(wanted)),
        ("num_voxels", args.num_voxels.len(), 1),
        ("counters", args.counters.len(), Count::ALL.len()),
        ("entries", args.entries.len(), num_entries),
        ("entry_of", args.entry_of.len(), points),
        ("place_of", args.place_of.len(), points),
        ("members", args.members.len(), points),
        ("rooms", args.rooms.len(), voxels),
        ("num_crowded", args.num_crowded.len(), 1),
        ("turns", args.turns.len(), 1),
        ("numbers", args.numbers.len(), num_turns),
        ("lost", args.lost.len(), num_turns),
    ];
    slices.into_iter().try_for_each(|(name, found, needed)| check_len(kernel, name, found, needed))
}

/// How a step is launched.
struct Step {
    threads_per_block: u32,
    /// Beside those for points.
    further_blocks: u32,
}

macro_rules! step {
    ($kernel:ident, $name:literal, $text:literal, $threads:expr, $further_blocks:expr) => {
        #[doc = $text]
        pub struct $kernel;

        // SAFETY: `VoxelizeArgs` mirrors `voxelize::Args` (size asserted,
        // `#[repr(C)]` in the same order). Points are read below their number,
        // cut to `point_capacity`, voxels written below `voxel_capacity`; the
        // slices have that many places (checked). A cell of the grid is below
        // the number of entries, a hashed one is brought below it. Hashed there
        // are twice as many entries as points, all empty at first and emptied
        // by the step `order`, so that looking for a free one ends. Rooms lie
        // one behind another and hold each point once, so that they end below
        // the number of points. Blocks wait for numbers of turns that were
        // taken before theirs: those blocks run and publish before they wait.
        unsafe impl KernelSpec for $kernel {
            const NAME: &'static str = $name;
            type Args<'a> = VoxelizeArgs<'a>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                let step = Step { threads_per_block: $threads, further_blocks: $further_blocks };
                check(Self::NAME, args, grid, &step)
            }
        }
    };
}

step!(Claim, "voxelize_claim", "Finds the entry of every point.", THREADS_PER_BLOCK, 0);
step!(Number, "voxelize_number", "Numbers the voxels.", NUMBER_THREADS_PER_BLOCK, 0);
step!(Fill, "voxelize_fill", "Brings points to their voxels.", THREADS_PER_BLOCK, 0);
step!(Order, "voxelize_order", "Orders the points of voxels.", THREADS_PER_BLOCK, CROWDED_BLOCKS);
