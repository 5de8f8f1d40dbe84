//! The parameters of `kernels/cloud/voxel_points.cu`.

use crate::cloud::voxelize::kernels::GridArgs;
use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("cloud/voxel_points.cu", "kThreads");

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct VoxelPointArgs<'a> {
    /// Rows of floats.
    pub points: In<'a, f32>,
    /// The cell of a voxel.
    pub cells: In<'a, u32>,
    /// By voxel, the number of its points.
    pub num_points_per_voxel: In<'a, u32>,
    /// By voxel, the indices of its points.
    pub point_indices: In<'a, u32>,
    /// The number of voxels.
    pub num_voxels: In<'a, u32>,
    /// By voxel, its points and zeros.
    pub values: Out<'a, f32>,
    /// By voxel, the number of its points.
    pub numbers: Out<'a, i32>,
    /// By voxel, its cell.
    pub coordinates: Out<'a, i32>,
    /// The grid.
    pub grid: GridArgs,
    /// The maximum number of voxels.
    pub voxel_capacity: u32,
    /// The maximum number of points per voxel.
    pub max_points_per_voxel: u32,
    /// Floats per point.
    pub num_channels: u32,
    /// Numbers of a cell: 3 or 4.
    pub num_columns: u32,
    /// The maximum number of points.
    pub point_capacity: u32,
}

mirrors!(VoxelPointArgs<'_>, "cloud/voxel_points.cu", "Args");

/// `voxel_points_write`.
pub struct Write;

// SAFETY: `VoxelPointArgs` mirrors the struct of that name (compared). A thread whose voxel is not
// below the capacity stops; all slices over voxels are as long as the capacity (checked). A point is
// read at an index that is clamped to `point_capacity`, which is not 0. The sizes of the grid are
// not 0 ([`det_post_types::Grid`]). No thread waits.
unsafe impl KernelSpec for Write {
    const NAME: &'static str = "voxel_points_write";
    type Args<'a> = VoxelPointArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let [voxels, slots, channels, columns, points] = [
            args.voxel_capacity,
            args.max_points_per_voxel,
            args.num_channels,
            args.num_columns,
            args.point_capacity,
        ]
        .map(|n| n as usize);
        let places = voxels.saturating_mul(slots);
        let num_blocks = places.div_ceil(THREADS_PER_BLOCK as usize);
        if grid.num_blocks[0] as usize != num_blocks
            || grid.num_blocks[1] != 1
            || places == 0
            || channels == 0
            || points == 0
            || !(3..=4).contains(&columns)
        {
            let blocks = grid.num_blocks;
            let message = format!(
                "{blocks:?} blocks do not fit {voxels} voxels of {slots} points of {channels} channels, \
                 {columns} columns"
            );
            return Err(refused(Self::NAME, &message));
        }
        let slices = [
            ("points", args.points.len(), points.saturating_mul(channels)),
            ("cells", args.cells.len(), voxels),
            ("num_points_per_voxel", args.num_points_per_voxel.len(), voxels),
            ("point_indices", args.point_indices.len(), places),
            ("num_voxels", args.num_voxels.len(), 1),
            ("values", args.values.len(), places.saturating_mul(channels)),
            ("numbers", args.numbers.len(), voxels),
            ("coordinates", args.coordinates.len(), voxels.saturating_mul(columns)),
        ];
        check_lens(Self::NAME, slices)
    }
}
