//! The parameters of `kernels/sparse/voxel_mean.cu`.

use crate::cloud::voxelize::kernels::{NO_LIMIT, VoxelBucket};
use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block: a channel of a voxel each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("sparse/voxel_mean.cu", "kThreads");
/// The most channels that can have a transform.
pub const MAX_TRANSFORMS: usize =
    kernel_constant!("sparse/voxel_mean.cu", "kMaxTransforms") as usize;

/// The parameter of both kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MeanArgs<'a> {
    /// Rows of `num_channels`.
    pub points: In<'a, f32>,
    /// By voxel `max_points_per_voxel`; without a limit as `buckets`.
    pub point_indices: In<'a, u32>,
    /// By voxel its points.
    pub num_points_per_voxel: In<'a, u32>,
    /// The number of voxels.
    pub num_voxels: In<'a, u32>,
    /// By voxel, the range of its points.
    pub buckets: In<'a, VoxelBucket>,
    /// Voxels that a block sums.
    pub large_voxels: In<'a, u32>,
    /// Their number.
    pub num_large_voxels: In<'a, u32>,
    /// Rows of `num_channels`.
    pub features: Out<'a, f32>,
    /// Channels.
    pub num_channels: u32,
    /// Indices from one voxel to the next, or [`NO_LIMIT`].
    pub max_points_per_voxel: u32,
    /// Channels whose hyperbolic tangent is taken, a bit each.
    pub tanh_channels: u32,
    /// Without a limit, the blocks for large voxels, at least 1.
    pub num_large_blocks: u32,
}

mirrors!(MeanArgs<'_>, "sparse/voxel_mean.cu", "Args");

/// `voxel_mean_f32`: voxels with a limit on their points.
pub struct Mean;

/// `voxel_mean_all_f32`: voxels of any number of points.
pub struct MeanOfAll;

// SAFETY: `MeanArgs` mirrors `voxel_mean::Args`. A thread writes a value of the features
// of a voxel below the number of voxels and the length of `num_points_per_voxel`, for
// which the indices are long enough (checked); these are below the number of points, as
// `voxelize` has written them. No thread waits.
unsafe impl KernelSpec for Mean {
    const NAME: &'static str = "voxel_mean_f32";
    type Args<'a> = MeanArgs<'a>;
    fn check(args: &MeanArgs<'_>, grid: &Grid) -> Result<()> {
        check(Self::NAME, args, grid)?;
        let num_voxels = args.num_points_per_voxel.len();
        let num_indices = num_voxels.saturating_mul(args.max_points_per_voxel as usize);
        check_lens(Self::NAME, [("point_indices", args.point_indices.len(), num_indices)])
    }
}

// SAFETY: as for `Mean`, but the indices of a voxel are those of its bucket, which is within
// `point_indices`: `voxelize` has written both for the same points. Large voxels are below the
// number of voxels, for which the features are long enough (checked). A block holds a value of
// each channel and has a thread for it (checked); no block waits for another.
unsafe impl KernelSpec for MeanOfAll {
    const NAME: &'static str = "voxel_mean_all_f32";
    type Args<'a> = MeanArgs<'a>;
    fn check(args: &MeanArgs<'_>, grid: &Grid) -> Result<()> {
        check(Self::NAME, args, grid)?;
        let num_blocks = grid.num_blocks[0];
        if args.max_points_per_voxel != NO_LIMIT
            || args.num_channels > THREADS_PER_BLOCK
            || args.num_large_blocks == 0
            || num_blocks <= args.num_large_blocks
        {
            let message = format!(
                "{num_blocks} blocks do not fit {} channels, {} points per voxel",
                args.num_channels, args.max_points_per_voxel
            );
            return Err(refused(Self::NAME, &message));
        }
        let num_voxels = args.num_points_per_voxel.len();
        let num_values = num_voxels.saturating_mul(args.num_channels as usize);
        check_lens(
            Self::NAME,
            [
                ("buckets", args.buckets.len(), num_voxels),
                ("num_large_voxels", args.num_large_voxels.len(), 1),
                ("features", args.features.len(), num_values),
            ],
        )
    }
}

fn check(kernel: &str, args: &MeanArgs<'_>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    if args.num_channels == 0 {
        return Err(refused(kernel, "points must have channels"));
    }
    check_lens(kernel, [("num_voxels", args.num_voxels.len(), 1)])
}
