//! Computes the input of a pillar encoder from voxels.
//!
//! Output `[V, P, F]`: the voxels and their points in the order of [`Voxels`], and per
//! point
//! - the channels of the point,
//! - x, y, z minus the mean of the voxel's points,
//! - x, y, and optionally z, minus the centre of the voxel,
//!
//! so that `F = num_channels + 3 + 2`, or `+ 3` with z. All other values are zero: those
//! of points past the last one of a voxel, and rows past the last voxel.
//!
//! | encoder | channels of the points | z of the centre | F |
//! |---|---|---|---|
//! | Autoware CenterPoint | x y z time_lag | no | 9 |
//! | Autoware CenterPoint | x y z time_lag | yes | 10 |
//! | Autoware CenterPoint | x y z intensity time_lag | yes | 11 |
//! | nuScenes (mmdet3d, CenterPoint) | x y z intensity time_lag | no | 10 |
//! | Waymo (CenterPoint) | x y z intensity elongation | no | 10 |
//! | KITTI PointPillars (OpenPCDet) | x y z intensity | yes | 10 |
//!
//! Arithmetic is f32 in this order, without fused operations: the mean is the sum of
//! the points in order, divided by their number; the centre is [`Grid::center_of`]. An
//! f16 output is rounded once, to nearest even. CPU and CUDA are equal.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;

use half::f16;

use crate::cloud::voxelize::Voxels;
use det_post_types::{Error, ErrorKind, Grid, Points, Result, Tensor};

/// Number of features of a point with `num_channels` channels.
pub fn num_features(num_channels: usize, center_offset_z: bool) -> usize {
    num_channels + 3 + if center_offset_z { 3 } else { 2 }
}

/// Writes all values of `out`, `[V, P, F]`. `points` and `grid` are those of the voxels.
///
/// # Errors
/// `Argument` when the shape of `out` is not `[V, P, F]` with V at least the number of
/// voxels, P the maximum number of points per voxel and F [`num_features`], or a voxel
/// has the index of a point that does not exist.
pub fn pillar_features(
    points: &Points,
    voxels: &Voxels,
    grid: &Grid,
    center_offset_z: bool,
    out: &mut Tensor,
) -> Result<()> {
    let argument = |message| Err(Error::new(ErrorKind::Argument, "pillar_features", message));
    let num_slots = voxels.max_points_per_voxel();
    let num_features = num_features(points.num_channels(), center_offset_z);
    let fits = matches!(*out.shape(), [num_rows, slots, features]
        if num_rows >= voxels.len() && slots == num_slots && features == num_features);
    if !fits {
        return argument(format!(
            "{} voxels of {num_slots} points of {num_features} features do not fit a tensor of {:?}",
            voxels.len(),
            out.shape()
        ));
    }
    let last = (0..voxels.len()).filter_map(|voxel| voxels.points_of(voxel).last()).max();
    if let Some(&last) = last
        && last as usize >= points.len()
    {
        return argument(format!("voxels contain point {last}, there are {}", points.len()));
    }
    let input = cpu::Input { points, voxels, grid, num_features };
    match out {
        Tensor::F32 { values, .. } => cpu::pillar_features(&input, values, 0.0, |value| value),
        Tensor::F16 { values, .. } => {
            cpu::pillar_features(&input, values, f16::ZERO, f16::from_f32);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
