//! Writes the features of pillars to their cells of a dense map.
//!
//! Input: one row of C features per pillar, in the order of [`Voxels`], as `[V, C]`,
//! `[V, 1, C]` or `[V, C, 1]`; rows past the last voxel are not read. Output
//! `[1, C, ny, nx]`: row y and column x of the grid, zero in cells without a pillar.
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
use det_post_types::{Error, ErrorKind, Grid, Result, Tensor, TensorValues, TensorView};

/// Writes all values of `out`, `[1, C, ny, nx]`.
///
/// # Errors
/// `Argument` when the features have another shape, fewer rows than there are voxels or
/// another element type, `out` has another shape, the grid is more than one cell high,
/// or a voxel is outside it.
pub fn scatter(
    features: &TensorView<'_>,
    voxels: &Voxels,
    grid: &Grid,
    out: &mut Tensor,
) -> Result<()> {
    let argument = |message| Err(Error::new(ErrorKind::Argument, "scatter", message));
    let [nx, ny, nz] = grid.grid_size().map(|n| n as usize);
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
    if nz != 1 || *out.shape() != [1, num_channels, ny, nx] {
        return argument(format!(
            "features of {:?} on a grid of {nx}x{ny}x{nz} do not fit a map of {:?}",
            features.shape(),
            out.shape()
        ));
    }
    if let Some(outside) =
        voxels.coordinates().iter().find(|&&[x, y, _]| x as usize >= nx || y as usize >= ny)
    {
        return argument(format!("voxel {outside:?} is outside the grid of {nx}x{ny}x{nz}"));
    }

    let map = cpu::Map { voxels, nx, plane: nx * ny };
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
