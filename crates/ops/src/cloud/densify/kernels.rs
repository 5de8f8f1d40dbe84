//! The parameters of `kernels/cloud/densify.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::{Count, Result};

/// Threads per block, and points per tile.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("cloud/densify.cu", "kThreads");
/// The maximum number of sweeps, including the current one.
pub const MAX_SWEEPS: usize = kernel_constant!("cloud/densify.cu", "kMaxSweeps") as usize;

/// One sweep: `Sweep` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SweepArgs<'a> {
    /// Its points.
    pub values: In<'a, f32>,
    /// Their number.
    pub num: In<'a, u32>,
    /// The transform from its frame to the current frame, row by row.
    pub rows: [[f32; 4]; 3],
    /// Its age in seconds.
    pub age_s: f32,
    /// Not 0: its points are not transformed.
    pub is_current: u32,
}

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DensifyArgs<'a> {
    /// Rows of floats.
    pub points: Out<'a, f32>,
    /// Their number.
    pub num: Out<'a, u32>,
    /// The counters of the frame.
    pub counters: Out<'a, u32>,
    /// One value: the ticket of the next tile, and the epoch of the launch.
    pub ticket: Out<'a, u64>,
    /// By tile, its aggregate and the epoch of the launch.
    pub aggregates: Out<'a, u64>,
    /// Values per point.
    pub num_channels: u32,
    /// The channel that is set to the age; `num_channels` for none.
    pub time_lag_channel: u32,
    /// The maximum number of points of a sweep.
    pub sweep_capacity: u32,
    /// The maximum number of points written.
    pub capacity: u32,
    /// Sweeps that are merged.
    pub num_sweeps: u32,
    /// Padding.
    pub reserved: u32,
    /// The sweeps, the current one first.
    pub sweeps: [SweepArgs<'a>; MAX_SWEEPS],
}

mirrors!(SweepArgs<'_>, "cloud/densify.cu", "Sweep");
mirrors!(DensifyArgs<'_>, "cloud/densify.cu", "Args");

/// `densify_points`.
pub struct Densify;

// SAFETY: `DensifyArgs` mirrors `densify::Args` (compared). A tile's sweep is below `num_sweeps`,
// at most `MAX_SWEEPS`; points are read below their number, clamped to `sweep_capacity`, for which
// every sweep is large enough (checked), so that there are at most as many tiles as `aggregates`
// holds. Rows are compared with `capacity`, for which `points` is large enough (checked). Blocks
// wait for aggregates of tiles that were taken before theirs: those blocks run and publish before
// they wait.
unsafe impl KernelSpec for Densify {
    const NAME: &'static str = "densify_points";
    type Args<'a> = DensifyArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let [num_blocks, y] = grid.num_blocks;
        let num_tiles = args.sweep_capacity.div_ceil(THREADS_PER_BLOCK).max(1);
        let num_sweeps = args.num_sweeps as usize;
        if num_blocks == 0 || y != 1 || !(1..=MAX_SWEEPS).contains(&num_sweeps) {
            let message = format!("{num_blocks} x {y} blocks do not fit {num_sweeps} sweeps");
            return Err(refused(Self::NAME, &message));
        }
        let num_channels = args.num_channels as usize;
        if num_channels < 3 {
            return Err(refused(Self::NAME, &format!("{num_channels} channels")));
        }
        let num_values = |num: u32| (num as usize).saturating_mul(num_channels);
        for sweep in &args.sweeps[..num_sweeps] {
            let needed = num_values(args.sweep_capacity);
            let slices = [("values", sweep.values.len(), needed), ("num", sweep.num.len(), 1)];
            check_lens(Self::NAME, slices)?;
        }
        let slices = [
            ("points", args.points.len(), num_values(args.capacity)),
            ("num", args.num.len(), 1),
            ("counters", args.counters.len(), Count::ALL.len()),
            ("ticket", args.ticket.len(), 1),
            ("aggregates", args.aggregates.len(), num_tiles as usize * num_sweeps),
        ];
        check_lens(Self::NAME, slices)
    }
}
