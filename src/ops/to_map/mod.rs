//! To map: the sites of a level become a dense map seen from above.
//!
//! Input `[M, C]`, rows in the order of the level's sites. Output, zero where
//! there is no site:
//!
//! | axes of the level | output | channel | row | column |
//! |---|---|---|---|---|
//! | z y x | `[B, C * Z, Y, X]` | `c * Z + z` | y | x |
//! | x y z | `[B, C * Z, X, Y]` | `c * Z + z` | x | y |
//!
//! Values are copied; to f16 they are rounded once, to nearest even. CPU and
//! CUDA are equal.

mod cpu;

use half::f16;

use crate::error::{Error, ErrorKind, Result};
use crate::ops::rulebook::{SiteGrid, Sites};
use crate::types::Tensor;

/// The order of the axes of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AxisOrder {
    /// Height first: OpenPCDet, mmdet3d's `SparseEncoder`, det3d.
    #[default]
    Zyx,
    /// Height last: `BEVFusionSparseEncoder`.
    Xyz,
}

/// The shape of the map of a grid: batch, channels, rows, columns.
pub fn map_shape(grid: &SiteGrid, axes: AxisOrder, num_channels: usize) -> [usize; 4] {
    let [s0, s1, s2] = grid.shape().map(|size| size as usize);
    let batch_size = grid.batch_size() as usize;
    match axes {
        AxisOrder::Zyx => [batch_size, num_channels * s0, s1, s2],
        AxisOrder::Xyz => [batch_size, num_channels * s2, s0, s1],
    }
}

/// Writes all of `out`, of [`map_shape`], from `features`, `[M, C]`.
///
/// # Errors
/// `Argument` when there are no channels, or the number of features or the
/// shape of `out` is another.
pub fn to_map(
    features: &[f32],
    sites: &Sites,
    axes: AxisOrder,
    num_channels: usize,
    out: &mut Tensor,
) -> Result<()> {
    let shape = map_shape(sites.grid(), axes, num_channels);
    if num_channels == 0 || features.len() != sites.len() * num_channels || *out.shape() != shape {
        return Err(Error::new(
            ErrorKind::Argument,
            "to_map",
            format!(
                "{} features of {} sites of {num_channels} channels do not fit a map of {:?}, {shape:?} \
                 is needed",
                features.len(),
                sites.len(),
                out.shape()
            ),
        ));
    }
    match out {
        Tensor::F32 { values, .. } => cpu::to_map(features, sites, axes, values, |value| value),
        Tensor::F16 { values, .. } => cpu::to_map(features, sites, axes, values, f16::from_f32),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
