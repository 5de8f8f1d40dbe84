//! Writes the points of voxels as networks take them that encode voxels themselves (TransFusion,
//! BEVFusion).
//!
//! Three tensors, all in the order of [`Voxels`]:
//! - points `[V, P, C]` of f32: the points of a voxel in order, all channels, then zeros;
//! - numbers `[V]` of i32: points per voxel, 1 to P;
//! - coordinates of i32, the cell of a voxel: `[V, 4]` 0, z, y, x or `[V, 3]` z, y, x
//!   ([`VoxelCoordinates`]).
//!
//! V is the number of voxels of the frame, up to the capacity of the voxels. Values are
//! copied: CPU and CUDA are equal. Autoware's nodes write the same sets in the order of atomic
//! additions, which differs from run to run.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;

use crate::cloud::voxelize::{VoxelizeParams, Voxels};
use det_post_types::{
    Error, ErrorKind, Points, Result, TensorValues, TensorView, VoxelCoordinates,
};

/// The tensors of a frame, in memory for as many voxels as the parameters allow.
#[derive(Clone, Debug)]
pub struct VoxelPoints {
    values: Vec<f32>,
    numbers: Vec<i32>,
    coordinates: Vec<i32>,
    columns: VoxelCoordinates,
    num_channels: usize,
    max_points_per_voxel: usize,
    voxel_capacity: usize,
    /// Shapes of the three tensors.
    shapes: ([usize; 3], [usize; 1], [usize; 2]),
}

impl VoxelPoints {
    /// No voxels, with memory for the capacities in `params` and points of `num_channels` floats.
    ///
    /// # Errors
    /// `Argument` when voxels keep all of their points; `Memory` when there is not enough.
    pub fn new(
        params: &VoxelizeParams,
        num_channels: usize,
        columns: VoxelCoordinates,
    ) -> Result<Self> {
        let VoxelizeParams { max_points_per_voxel, voxel_capacity, .. } = *params;
        let num_values = voxel_capacity
            .checked_mul(max_points_per_voxel)
            .and_then(|num| num.checked_mul(num_channels))
            .filter(|_| max_points_per_voxel != VoxelizeParams::ALL_POINTS);
        let Some(num_values) = num_values else {
            return argument(format!(
                "{voxel_capacity} voxels of {max_points_per_voxel} points of {num_channels} \
                 channels have no tensor: a limit on the points of a voxel is required"
            ));
        };
        let mut values = Vec::new();
        if values.try_reserve_exact(num_values).is_err() {
            let message = format!("{num_values} values of 4 bytes exceed the memory");
            return Err(Error::new(ErrorKind::Memory, "voxel_points", message));
        }
        Ok(Self {
            values,
            numbers: Vec::with_capacity(voxel_capacity),
            coordinates: Vec::with_capacity(voxel_capacity * columns.num_columns()),
            columns,
            num_channels,
            max_points_per_voxel,
            voxel_capacity,
            shapes: ([0, max_points_per_voxel, num_channels], [0], [0, columns.num_columns()]),
        })
    }

    /// Points `[V, P, C]`, their numbers `[V]`, and the coordinates of the voxels.
    ///
    /// # Errors
    /// None: the tensors have the shapes that [`voxel_points`] gave them.
    pub fn views(&self) -> Result<[TensorView<'_>; 3]> {
        let (points, numbers, coordinates) = &self.shapes;
        Ok([
            TensorView::new(points, TensorValues::F32(&self.values))?,
            TensorView::new(numbers, TensorValues::I32(&self.numbers))?,
            TensorView::new(coordinates, TensorValues::I32(&self.coordinates))?,
        ])
    }
}

/// Replaces the contents of `out` by the points of voxels. `voxels` were made from `points`.
///
/// # Errors
/// `Argument` when `out` was made for other limits or another number of channels, or a voxel has
/// the index of a point that does not exist.
pub fn voxel_points(points: &Points, voxels: &Voxels, out: &mut VoxelPoints) -> Result<()> {
    let found = (voxels.capacity(), voxels.max_points_per_voxel(), points.num_channels());
    let expected = (out.voxel_capacity, out.max_points_per_voxel, out.num_channels);
    if found != expected {
        return argument(format!(
            "voxels, points per voxel and channels are {found:?}, the tensors are for {expected:?}"
        ));
    }
    let last = (0..voxels.len()).filter_map(|voxel| voxels.points_of(voxel).last()).max();
    if let Some(&last) = last.filter(|&&last| last as usize >= points.len()) {
        return argument(format!("voxels contain point {last}, there are {}", points.len()));
    }
    cpu::voxel_points(points, voxels, out);
    let num = voxels.len();
    (out.shapes.0[0], out.shapes.1[0], out.shapes.2[0]) = (num, num, num);
    Ok(())
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "voxel_points", message))
}

#[cfg(test)]
mod tests;
