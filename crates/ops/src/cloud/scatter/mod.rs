//! Writes the features of pillars to their cells of a dense map.
//!
//! Input: one row of C features per pillar, in the order of [`Voxels`], as `[V, C]`,
//! `[V, 1, C]` or `[V, C, 1]`; rows past the last voxel are not read. Output
//! `[1, C, ny, nx]`, or with channels last `[1, ny, nx, C]`: row y and column x of the grid, zero in cells without
//! a pillar.
//! Values are copied; between f32 and f16 they are rounded once, to nearest even. CPU
//! and CUDA are equal.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;

use half::f16;

use crate::cloud::voxelize::Voxels;
use det_post_types::{Error, ErrorKind, Grid, MapLayout, Result, Tensor, TensorValues, TensorView};

/// The shape of a map of this many channels.
///
/// # Errors
/// `Argument` for a grid of more than one cell in height, and for channels in blocks of 32.
pub(super) fn map_shape(grid: &Grid, layout: MapLayout, num_channels: usize) -> Result<[usize; 4]> {
    let [nx, ny, nz] = grid.grid_size().map(|n| n as usize);
    match layout {
        _ if nz != 1 => argument(format!("the grid must be one cell high, found {nx}x{ny}x{nz}")),
        MapLayout::Planar => Ok([1, num_channels, ny, nx]),
        MapLayout::ChannelsLast => Ok([1, ny, nx, num_channels]),
        MapLayout::Blocks32 => {
            argument("the layout blocks_32; allowed: planar, channels_last".into())
        }
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "scatter", message))
}

/// Writes all values of `out`, `[1, C, ny, nx]` or, with channels last, `[1, ny, nx, C]`.
///
/// # Errors
/// `Argument` when the features have another shape, fewer rows than there are voxels or
/// another element type, `out` has another shape, the grid is more than one cell high,
/// a voxel is outside it, or the layout is of blocks.
pub fn scatter(
    features: &TensorView<'_>,
    voxels: &Voxels,
    grid: &Grid,
    layout: MapLayout,
    out: &mut Tensor,
) -> Result<()> {
    let [nx, ny, _] = grid.grid_size().map(|n| n as usize);
    let num_channels = match *features.shape() {
        [num_rows, n] | [num_rows, 1, n] | [num_rows, n, 1] if num_rows >= voxels.len() => n,
        _ => {
            return argument(format!(
                "features of {:?} are not [V, C], [V, 1, C] or [V, C, 1] with V of {} or more",
                features.shape(),
                voxels.len()
            ));
        }
    };
    if *out.shape() != map_shape(grid, layout, num_channels)? {
        return argument(format!(
            "features of {:?} on a grid of {nx}x{ny}x1 do not fit a map of {:?}",
            features.shape(),
            out.shape()
        ));
    }
    if let Some(outside) =
        voxels.coordinates().iter().find(|&&[x, y, _]| x as usize >= nx || y as usize >= ny)
    {
        return argument(format!("voxel {outside:?} is outside the grid of {nx}x{ny}x1"));
    }

    let map = cpu::Map { voxels, nx, plane: nx * ny, layout };
    match (features.values(), out) {
        (TensorValues::F32(from), Tensor::F32 { values: to, .. }) => {
            cpu::scatter(&map, from, to, |value| value);
        }
        (TensorValues::F16(from), Tensor::F16 { values: to, .. }) => {
            cpu::scatter(&map, from, to, |value| value);
        }
        (TensorValues::F32(from), Tensor::F16 { values: to, .. }) => {
            cpu::scatter(&map, from, to, f16::from_f32);
        }
        (TensorValues::F16(from), Tensor::F32 { values: to, .. }) => {
            cpu::scatter(&map, from, to, f16::to_f32);
        }
        (integers, _) => {
            return argument(format!("features are {}, not floats", integers.element()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
