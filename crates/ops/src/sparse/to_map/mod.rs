//! To map: the sites of a level become a dense map seen from above.
//!
//! Input `[M, C]`, rows in the order of the level's sites. Output
//! `[B, C * D, H, W]`, zero where there is no site: a site's feature `c` is in
//! channel `c * D + depth`. The axes of the grid that become depth, row and
//! column are given:
//!
//! | axes of the level | depth, row, column | rows, columns of the map |
//! |---|---|---|
//! | z y x | `[0, 1, 2]` | y, x |
//! | x y z | `[2, 0, 1]` | x, y, as `BEVFusionSparseEncoder` has it |
//! | x y z | `[2, 1, 0]` | y, x |
//!
//! Values are copied; to f16 they are rounded once, to nearest even. CPU and
//! CUDA are equal.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use half::f16;

use crate::sparse::rulebook::{SiteGrid, Sites};
use det_post_types::{Error, ErrorKind, Result, Tensor};

/// The shape of the map of a grid: batch, channels, rows, columns.
///
/// # Errors
/// `Argument` when `axes` are not 0, 1 and 2 in some order.
pub fn map_shape(grid: &SiteGrid, axes: [usize; 3], num_channels: usize) -> Result<[usize; 4]> {
    if (0..3).any(|axis| !axes.contains(&axis)) {
        return argument(format!("axes {axes:?} are not 0, 1 and 2 in some order"));
    }
    let [depth, num_rows, num_columns] = axes.map(|axis| grid.shape()[axis] as usize);
    Ok([grid.batch_size() as usize, num_channels * depth, num_rows, num_columns])
}

/// Writes all of `out`, of [`map_shape`], from `features`, `[M, C]`.
///
/// # Errors
/// `Argument` as [`map_shape`], when there are no channels, or the number of
/// features or the shape of `out` is another.
pub fn to_map(
    features: &[f32],
    sites: &Sites,
    axes: [usize; 3],
    num_channels: usize,
    out: &mut Tensor,
) -> Result<()> {
    let shape = map_shape(sites.grid(), axes, num_channels)?;
    if num_channels == 0 || features.len() != sites.len() * num_channels || *out.shape() != shape {
        return argument(format!(
            "{} features of {} sites of {num_channels} channels do not fit a map of {:?}, \
             {shape:?} is required",
            features.len(),
            sites.len(),
            out.shape()
        ));
    }
    match out {
        Tensor::F32 { values, .. } => cpu::to_map(features, sites, axes, values, |value| value),
        Tensor::F16 { values, .. } => cpu::to_map(features, sites, axes, values, f16::from_f32),
    }
    Ok(())
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "to_map", message))
}

#[cfg(test)]
mod tests;
