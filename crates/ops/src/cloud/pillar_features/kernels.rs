//! The parameters of `kernels/cloud/pillar_features.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::cloud::voxelize::kernels::GridArgs;
use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, check_lens, check_threads, kernel_constant, kernel_specs,
    mirrors, refused,
};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("cloud/pillar_features.cu", "kThreads");
/// The maximum number of values of a row in `pillar_features_*`.
pub const FEW_VALUES: usize = kernel_constant!("cloud/pillar_features.cu", "kFew") as usize;
/// Voxels per block of these kernels.
pub const FEW_VOXELS_PER_BLOCK: u32 =
    THREADS_PER_BLOCK / kernel_constant!("cloud/pillar_features.cu", "kFewLanes");
/// The maximum number of values of a row in `pillar_features_many_*`.
pub const MANY_VALUES: usize = kernel_constant!("cloud/pillar_features.cu", "kMany") as usize;
/// Voxels per block of these kernels.
pub const MANY_VOXELS_PER_BLOCK: u32 =
    THREADS_PER_BLOCK / kernel_constant!("cloud/pillar_features.cu", "kManyLanes");

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FeatureArgs<'a, T> {
    /// Rows of floats.
    pub points: In<'a, f32>,
    /// The cell of a voxel.
    pub cells: In<'a, u32>,
    /// By voxel, the number of its points.
    pub num_points_per_voxel: In<'a, u32>,
    /// By voxel, the indices of its points, ascending.
    pub point_indices: In<'a, u32>,
    /// The number of voxels.
    pub num_voxels: In<'a, u32>,
    /// The rows, `max_points_per_voxel` times `num_features` values each.
    pub out: Out<'a, T>,
    /// By row, how many of its first values may be nonzero; empty: all.
    pub written: Out<'a, u32>,
    /// The grid.
    pub grid: GridArgs,
    /// The number of rows to write.
    pub num_rows: u32,
    /// The maximum number of points per voxel.
    pub max_points_per_voxel: u32,
    /// Floats per point.
    pub num_channels: u32,
    /// Values per point in a row.
    pub num_features: u32,
    /// The maximum number of points.
    pub point_capacity: u32,
}

mirrors!(FeatureArgs<'_, T>, "cloud/pillar_features.cu", "Args", T; where T: Mirror);

fn check<T>(
    kernel: &str,
    args: &FeatureArgs<'_, T>,
    grid: &Grid,
    (max_values, voxels_per_block): (usize, u32),
) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [num_rows, num_slots, num_channels, num_features, num_points] = [
        args.num_rows,
        args.max_points_per_voxel,
        args.num_channels,
        args.num_features,
        args.point_capacity,
    ]
    .map(|n| n as usize);
    let offsets = num_features.checked_sub(num_channels);
    if grid.num_blocks[0] != args.num_rows.div_ceil(voxels_per_block)
        || grid.num_blocks[1] != 1
        || num_slots.saturating_mul(num_features) > max_values
        || num_channels < 3
        || num_points == 0
        || offsets.is_none_or(|offsets| offsets > 6)
    {
        return Err(refused(
            kernel,
            &format!(
                "{:?} blocks do not fit {num_rows} rows of {num_slots} points of {num_channels} \
                 channels, {num_features} features",
                grid.num_blocks
            ),
        ));
    }
    let num_voxels = args.cells.len();
    let row_len = num_slots.saturating_mul(num_features);
    let slices = [
        ("points", args.points.len(), num_points.saturating_mul(num_channels)),
        ("num_points_per_voxel", args.num_points_per_voxel.len(), num_voxels),
        ("point_indices", args.point_indices.len(), num_voxels.saturating_mul(num_slots)),
        ("num_voxels", args.num_voxels.len(), 1),
        ("out", args.out.len(), num_rows.saturating_mul(row_len)),
        ("written", args.written.len(), if args.written.is_empty() { 0 } else { num_rows }),
    ];
    check_lens(kernel, slices)
}

/// `pillar_features_*`: rows of up to [`FEW_VALUES`].
pub struct Few<T>(PhantomData<T>);
/// `pillar_features_many_*`: rows of up to [`MANY_VALUES`].
pub struct Many<T>(PhantomData<T>);

// SAFETY: `FeatureArgs` mirrors `pillar_features::Args` (compared). A warp whose first voxel is not
// below the number of rows stops; voxels are read below the length of `cells`, for which the other
// slices over voxels are long enough (checked), points at indices clamped to `point_capacity`. A
// row is at most as long as the shared memory of a group of lanes (checked). Rows have
// `max_points_per_voxel` times `num_features` values, the maximum of `written`. `out` has all rows,
// and `written` has them or is empty and not accessed (checked). Rows are written by 16 bytes only
// where their length is a multiple of that; buffers are aligned. No thread waits for another warp.
kernel_specs! {
    check;
    unsafe Few<f32>: "pillar_features_f32", FeatureArgs<f32>, FEW;
    unsafe Few<f16>: "pillar_features_f16", FeatureArgs<f16>, FEW;
    unsafe Many<f32>: "pillar_features_many_f32", FeatureArgs<f32>, MANY;
    unsafe Many<f16>: "pillar_features_many_f16", FeatureArgs<f16>, MANY;
}

const FEW: (usize, u32) = (FEW_VALUES, FEW_VOXELS_PER_BLOCK);
const MANY: (usize, u32) = (MANY_VALUES, MANY_VOXELS_PER_BLOCK);
