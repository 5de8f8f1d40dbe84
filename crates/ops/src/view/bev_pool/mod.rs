//! Pools the features of cameras into a map seen from above, by a distribution of depth at every
//! pixel: the view transform of Lift, Splat, Shoot (LSS) and BEVFusion.
//!
//! A camera's frustum has a point for each depth and each pixel of its feature map. The feature of
//! a point is the feature of its pixel times the probability of its depth; a cell of the map has
//! the sum of its points. The products are never stored.
//!
//! Inputs: depth `[cameras, D, H, W]` after the softmax, and features `[cameras, H, W, C]`, channels
//! last, both f32 or both f16. Output `[1, levels * C, rows, columns]`, f32 or f16: rows along x
//! and columns along y ([`MapRows::X`], LSS and BEVFusion) or rows along y ([`MapRows::Y`], BEVDet);
//! channel `level * C + c` of several levels along z. Cells without points are zero.
//!
//! A [`PoolTable`] has the points of every cell. It is made when a calibration changes, not for a
//! frame.
//!
//! # Points
//! Of the `num` columns of a feature map, column `i` is the pixel `i * (width - 1) / (num - 1)` of the
//! network's image, as `linspace` has it, rows alike; depth bin `k` is `first_m + k * step_m`. A point of
//! pixel p and depth d is at `origin + d * ray` with `ray = R_l R K^-1 A^-1 (p, 1)` and
//! `origin = R_l t + t_l`: A the augmentation of the image, K the intrinsic matrix, (R, t) from the
//! camera to the grid, (R_l, t_l) the augmentation of the grid.
//!
//! The cell along an axis is `(position - min) / cell` **truncated toward zero**, as published: the
//! lowest cell also has the points up to one cell below `min`, so that a grid of z from -10 to 10 m in
//! one cell of 20 m has points from -30 m on. Points in no cell are dropped and counted
//! ([`PoolTable::num_outside`]), as are points that are not finite.
//!
//! # Numbers
//! Points and cells are f64. The published modules compute them in f32: a point within f32's rounding
//! of a border may be in the neighbouring cell there.
//!
//! The points of a cell are in the order of camera, depth, row, column. In f32, without contraction:
//! 1. the points are cut into parts of [`PART_POINTS`], the last one shorter;
//! 2. a part has four sums from 0, of the points with position 0, 1, 2 and 3 modulo 4, ascending:
//!    `sum + depth * feature`, rounded after the product and after the sum;
//! 3. a part is `(sum 0 + sum 1) + (sum 2 + sum 3)`; parts are added in order;
//! 4. for f16 one rounding, to nearest even.
//!
//! The points of a missing camera keep their positions and are not added, whatever its inputs hold.
//! NaN and infinities stay in the cells that they reach. CPU and CUDA are equal but for the bits of
//! a NaN.
//!
//! For six maps of 88x32, 118 depths, 80 channels and 360x360 cells in f32, the kernel reads 8.0 MB of
//! depth, 5.4 MB of features and up to 8.5 MB of the table, and writes 41.5 MB of map, of device
//! memory at least; each point reads the 320 bytes of its pixel from a cache.
//!
//! Source: Philion and Fidler, "Lift, Splat, Shoot" (ECCV 2020); Liu et al., "BEVFusion" (ICRA 2023).

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod geometry;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(feature = "cuda")]
mod schedule;
mod shape;
mod table;

use half::f16;

pub use self::geometry::{
    CellAxis, DepthBins, Frustum, IDENTITY, MapRows, PoolCamera, PoolGeometry, PoolGrid,
};
pub use self::shape::{FrustumShape, MapShape, OUTSIDE};
pub use self::table::{PoolPoint, PoolTable};
use det_post_types::{Error, ErrorKind, Result, Tensor, TensorValues, TensorView};

/// Points of a part of a cell, which are summed together.
pub const PART_POINTS: usize = 128;

/// The most cameras.
pub const MAX_CAMERAS: usize = 32;

/// The outputs of the network of the cameras.
#[derive(Clone, Copy, Debug)]
pub struct PoolInputs<'a> {
    /// `[cameras, D, H, W]`.
    pub depth: TensorView<'a>,
    /// `[cameras, H, W, C]`, of the element type of the depth.
    pub features: TensorView<'a>,
    /// False for a camera that is missing in this frame; `None`: all are there.
    pub present: Option<&'a [bool]>,
}

/// Writes all values of `out`, `[1, levels * C, rows, columns]`.
///
/// # Errors
/// `Argument` when depth, features or `out` do not have the shapes of the table, depth and features
/// are not both f32 or both f16, or `present` is not one value per camera.
pub fn bev_pool(inputs: &PoolInputs<'_>, table: &PoolTable, out: &mut Tensor) -> Result<()> {
    let shapes = [inputs.depth.shape(), inputs.features.shape(), out.shape()];
    let num_channels = check_shapes(table.frustum(), table.map(), shapes)?;
    let present = match inputs.present {
        Some(present) => mask_of(present, table.frustum().num_cameras)?,
        None => u32::MAX,
    };
    let pool = cpu::Pool { table, present, num_channels };
    match (inputs.depth.values(), inputs.features.values(), out) {
        (TensorValues::F32(depth), TensorValues::F32(features), Tensor::F32 { values, .. }) => {
            pool.write([depth, features], values, |value| value, |value| value);
        }
        (TensorValues::F32(depth), TensorValues::F32(features), Tensor::F16 { values, .. }) => {
            pool.write([depth, features], values, |value| value, f16::from_f32);
        }
        (TensorValues::F16(depth), TensorValues::F16(features), Tensor::F32 { values, .. }) => {
            pool.write([depth, features], values, f16::to_f32, |value| value);
        }
        (TensorValues::F16(depth), TensorValues::F16(features), Tensor::F16 { values, .. }) => {
            pool.write([depth, features], values, f16::to_f32, f16::from_f32);
        }
        (depth, features, _) => {
            let (depth, features) = (depth.element(), features.element());
            return Err(error(format!(
                "depth is {depth}, features are {features}: both f32 or both f16 are required"
            )));
        }
    }
    Ok(())
}

/// The channels of features, when depth, features and map have the shapes of a table.
fn check_shapes(
    frustum: &FrustumShape,
    map: &MapShape,
    [depth, features, found]: [&[usize]; 3],
) -> Result<usize> {
    let FrustumShape { num_cameras, num_depths, rows, columns } = *frustum;
    let num_channels = match *features {
        [n, h, w, c] if [n, h, w] == [num_cameras, rows, columns] && c > 0 => c,
        _ => {
            return Err(error(format!(
                "features are {features:?}: [{num_cameras}, {rows}, {columns}, C] is required"
            )));
        }
    };
    if *depth != [num_cameras, num_depths, rows, columns] {
        return Err(error(format!(
            "depth is {depth:?}: [{num_cameras}, {num_depths}, {rows}, {columns}] is required"
        )));
    }
    let expected = map.of_channels(num_channels);
    if *found != expected {
        return Err(error(format!("the map is {found:?}: {expected:?} is required")));
    }
    Ok(num_channels)
}

/// A bit per camera that is there.
fn mask_of(present: &[bool], num_cameras: usize) -> Result<u32> {
    if present.len() != num_cameras {
        return Err(error(format!(
            "present has {} values: one for each of {num_cameras} cameras is required",
            present.len()
        )));
    }
    Ok(present.iter().rev().fold(0, |mask, &is_present| 2 * mask + u32::from(is_present)))
}

fn error(message: String) -> Error {
    Error::new(ErrorKind::Argument, "bev_pool", message)
}

#[cfg(test)]
mod tests;
