//! `kernels/pillar_features.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, assert_mirrors, check_len, check_threads, kernel_constant, refused,
};
use crate::error::Result;
use crate::ops::voxelize::kernels::GridArgs;

/// Threads of a block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("pillar_features.cu", "kThreads");
/// Values of a row, at most, in `pillar_features_*`.
pub const FEW_VALUES: usize = kernel_constant!("pillar_features.cu", "kFew") as usize;
/// Voxels that a block takes there.
pub const FEW_VOXELS_PER_BLOCK: u32 =
    THREADS_PER_BLOCK / kernel_constant!("pillar_features.cu", "kFewLanes");
/// Values of a row, at most, in `pillar_features_many_*`.
pub const MANY_VALUES: usize = kernel_constant!("pillar_features.cu", "kMany") as usize;
/// Voxels that a block takes there.
pub const MANY_VOXELS_PER_BLOCK: u32 =
    THREADS_PER_BLOCK / kernel_constant!("pillar_features.cu", "kManyLanes");

/// The mirror of `Args`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FeatureArgs<'a, T> {
    /// Rows of floats.
    pub points: In<'a, f32>,
    /// The cell of a voxel.
    pub cells: In<'a, u32>,
    /// How many points a voxel keeps.
    pub num_points_per_voxel: In<'a, u32>,
    /// Which, in order.
    pub point_indices: In<'a, u32>,
    /// How many voxels there are.
    pub num_voxels: In<'a, u32>,
    /// The rows, `max_points_per_voxel` times `num_features` values each.
    pub out: Out<'a, T>,
    /// By row, how many of its first values may not be zero.
    pub written: Out<'a, u32>,
    /// The grid.
    pub grid: GridArgs,
    /// Rows to write.
    pub num_rows: u32,
    /// The most points of a voxel.
    pub max_points_per_voxel: u32,
    /// Floats a point.
    pub num_channels: u32,
    /// Values a point has in a row.
    pub num_features: u32,
    /// Points that there is memory for.
    pub point_capacity: u32,
}

assert_mirrors!(FeatureArgs<'_, f32>, "pillar_features.cu", "Args<float>");

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
                "{:?} blocks for {num_rows} rows of {num_slots} points of {num_channels} channels, \
                 {num_features} features",
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
        ("written", args.written.len(), num_rows),
    ];
    slices.into_iter().try_for_each(|(name, found, needed)| check_len(kernel, name, found, needed))
}

/// `pillar_features_*`: rows of up to [`FEW_VALUES`].
pub struct Few<T>(PhantomData<T>);
/// `pillar_features_many_*`: rows of up to [`MANY_VALUES`].
pub struct Many<T>(PhantomData<T>);

macro_rules! spec {
    ($spec:ty, $element:ty, $name:literal, $limits:expr) => {
        // SAFETY: `FeatureArgs` mirrors `pillar_features::Args` (size asserted,
        // `#[repr(C)]` in the same order). A warp whose first voxel is not below
        // the number of rows stops; voxels are read below the length of `cells`,
        // which the other slices over voxels have (checked), points at indices
        // cut to `point_capacity`. A row's values are at most those that the
        // block's memory holds for a group of lanes. Rows have
        // `max_points_per_voxel` times `num_features` values, as many as
        // `written` at most says, and `out` has all rows (checked); they are
        // written 16 bytes at once only where they are a multiple of that;
        // allocations are aligned. No thread waits for another warp.
        unsafe impl KernelSpec for $spec {
            const NAME: &'static str = $name;
            type Args<'a> = FeatureArgs<'a, $element>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check(Self::NAME, args, grid, $limits)
            }
        }
    };
}

spec!(Few<f32>, f32, "pillar_features_f32", (FEW_VALUES, FEW_VOXELS_PER_BLOCK));
spec!(Few<f16>, f16, "pillar_features_f16", (FEW_VALUES, FEW_VOXELS_PER_BLOCK));
spec!(Many<f32>, f32, "pillar_features_many_f32", (MANY_VALUES, MANY_VOXELS_PER_BLOCK));
spec!(Many<f16>, f16, "pillar_features_many_f16", (MANY_VALUES, MANY_VOXELS_PER_BLOCK));
