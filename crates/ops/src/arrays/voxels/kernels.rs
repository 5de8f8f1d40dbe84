//! The parameters of `kernels/arrays/voxels.cu`.

use std::marker::PhantomData;

use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, check_lens, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block: a voxel or a point each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("arrays/voxels.cu", "kThreads");

/// The parameter of `voxel_arrays_starts`: `StartArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StartArgs<'a> {
    /// By voxel, the number of its points, at least 1.
    pub num_points_per_voxel: In<'a, u32>,
    /// The number of voxels.
    pub num_voxels: In<'a, u32>,
    /// By voxel, the number of points of the voxels before.
    pub starts: Out<'a, u32>,
    /// One value: the ticket of the next tile, and the epoch of the launch.
    pub ticket: Out<'a, u64>,
    /// By tile, its aggregate and the epoch of the launch.
    pub aggregates: Out<'a, u64>,
    /// The numbers of voxels and of points.
    pub sizes: Out<'a, u32>,
}

mirrors!(StartArgs<'_>, "arrays/voxels.cu", "StartArgs");

/// The parameter of `voxel_arrays_write_*`: `WriteArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WriteArgs<'a, Index> {
    /// By voxel, its cell, x fastest.
    pub linear_cells: In<'a, u32>,
    /// By voxel, the number of its points.
    pub num_points_per_voxel: In<'a, u32>,
    /// The indices of points.
    pub point_indices: In<'a, u32>,
    /// By voxel, the number of points of the voxels before.
    pub starts: In<'a, u32>,
    /// x, y, z by voxel.
    pub cells: Out<'a, u32>,
    /// By voxel.
    pub num_points: Out<'a, u32>,
    /// Voxel by voxel, without gaps.
    pub indices: Out<'a, Index>,
    /// Cells along x and y.
    pub size: [u32; 2],
    /// Indices from one voxel to the next; 0: without gaps.
    pub stride: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(WriteArgs<'_, Index>, "arrays/voxels.cu", "WriteArgs", Index; where Index: Mirror);

/// `voxel_arrays_starts`.
pub struct Starts;

// SAFETY: `StartArgs` mirrors the struct of that name (6 slices, compared). Voxels are read and
// starts written below the number of voxels, clamped to the length of `num_points_per_voxel`, for
// which starts and aggregates are long enough (checked). Blocks wait for aggregates of tiles that
// were taken before theirs: those blocks run and publish before they wait.
unsafe impl KernelSpec for Starts {
    const NAME: &'static str = "voxel_arrays_starts";
    type Args<'a> = StartArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let num_voxels = args.num_points_per_voxel.len();
        let num_tiles = num_voxels.div_ceil(THREADS_PER_BLOCK as usize).max(1);
        check_lens(
            Self::NAME,
            [
                ("num_voxels", args.num_voxels.len(), 1),
                ("starts", args.starts.len(), num_voxels),
                ("ticket", args.ticket.len(), 1),
                ("aggregates", args.aggregates.len(), num_tiles),
                ("sizes", args.sizes.len(), 2),
            ],
        )
    }
}

/// `voxel_arrays_write_u32` and `_i64`.
pub struct Write<Index>(PhantomData<Index>);

fn check_write<Index>(kernel: &str, args: &WriteArgs<'_, Index>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    if args.size.contains(&0) {
        return Err(refused(kernel, &format!("a grid must have cells, found {:?}", args.size)));
    }
    let num = args.num_points.len();
    check_lens(
        kernel,
        [
            ("linear_cells", args.linear_cells.len(), num),
            ("num_points_per_voxel", args.num_points_per_voxel.len(), num),
            ("starts", args.starts.len(), num),
            ("cells", args.cells.len(), num.saturating_mul(3)),
        ],
    )
}

// SAFETY: `WriteArgs` mirrors the struct of that name (7 slices and 4 values, compared). A thread
// below the length of `num_points` reads its voxel and writes its cell and number, for which the
// slices are long enough (checked). One below the length of `indices` reads starts of those voxels
// and an index of a point below their length. No thread waits.
unsafe impl KernelSpec for Write<u32> {
    const NAME: &'static str = "voxel_arrays_write_u32";
    type Args<'a> = WriteArgs<'a, u32>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_write(Self::NAME, args, grid)
    }
}

// SAFETY: as above; the bits of signed integers are written.
unsafe impl KernelSpec for Write<u64> {
    const NAME: &'static str = "voxel_arrays_write_i64";
    type Args<'a> = WriteArgs<'a, u64>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_write(Self::NAME, args, grid)
    }
}
