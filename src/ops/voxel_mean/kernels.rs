//! The parameters of `kernels/voxel_mean.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, assert_mirrors, check_lens, check_threads, kernel_constant, refused,
};
use crate::error::Result;

/// Threads per block: a channel of a voxel each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("voxel_mean.cu", "kThreads");
/// The most channels that can have a transform.
pub const MAX_TRANSFORMS: usize = kernel_constant!("voxel_mean.cu", "kMaxTransforms") as usize;

/// The parameter of `voxel_mean_f32`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MeanArgs<'a> {
    /// Rows of `num_channels`.
    pub points: In<'a, f32>,
    /// By voxel `max_points_per_voxel`.
    pub point_indices: In<'a, u32>,
    /// By voxel its points.
    pub num_points_per_voxel: In<'a, u32>,
    /// The number of voxels.
    pub num_voxels: In<'a, u32>,
    /// Rows of `num_channels`.
    pub features: Out<'a, f32>,
    /// Channels.
    pub num_channels: u32,
    /// Indices from one voxel to the next.
    pub max_points_per_voxel: u32,
    /// Channels whose hyperbolic tangent is taken, a bit each.
    pub tanh_channels: u32,
    /// Padding.
    pub reserved: u32,
}

assert_mirrors!(MeanArgs<'_>, "voxel_mean.cu", "Args");

/// `voxel_mean_f32`.
pub struct Mean;

// SAFETY: `MeanArgs` mirrors `voxel_mean::Args`. A thread writes a value of the features
// of a voxel below the number of voxels and the length of `num_points_per_voxel`, for
// which the indices are long enough (checked); these are below the number of points, as
// `voxelize` has written them. No thread waits.
unsafe impl KernelSpec for Mean {
    const NAME: &'static str = "voxel_mean_f32";
    type Args<'a> = MeanArgs<'a>;
    fn check(args: &MeanArgs<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        if args.num_channels == 0 {
            return Err(refused(Self::NAME, "points of no channels"));
        }
        let num_voxels = args.num_points_per_voxel.len();
        let num_indices = num_voxels.saturating_mul(args.max_points_per_voxel as usize);
        check_lens(
            Self::NAME,
            [
                ("point_indices", args.point_indices.len(), num_indices),
                ("num_voxels", args.num_voxels.len(), 1),
            ],
        )
    }
}
