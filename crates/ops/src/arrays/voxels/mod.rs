//! Voxels as arrays: the cell of each, the number of its points, and the positions of all
//! points, voxel by voxel without gaps.
//!
//! Order and contents are those of [`voxelize`](crate::cloud::voxelize::voxelize()). On the CPU,
//! [`Voxels`] holds cells and numbers as arrays. On the device both are in memory whose
//! size is the capacity, and the points of a voxel with a limit leave gaps: there
//! [`cuda::Workspace`] counts first and writes when the caller has arrays of the right
//! sizes. All values are integers, equal on every device.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use crate::cloud::voxelize::Voxels;

/// Replaces the contents of `point_indices` by the positions of the points of all voxels,
/// voxel by voxel.
pub fn voxel_arrays<I: From<u32>>(voxels: &Voxels, point_indices: &mut Vec<I>) {
    point_indices.clear();
    let voxels = (0..voxels.len()).map(|voxel| voxels.points_of(voxel));
    voxels.for_each(|points| point_indices.extend(points.iter().map(|&point| I::from(point))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::voxelize::{VoxelizeParams, Workspace, voxelize};
    use det_post_types::{Grid, PointRange, Points};

    #[test]
    fn points_follow_their_voxels() {
        let range = PointRange::from_bounds([0.0, 0.0, 0.0, 2.0, 1.0, 1.0]);
        let grid = Grid::new(range, [1.0, 1.0, 1.0]).unwrap();
        let mut points = Points::with_capacity(3, 6);
        for x in [1.5, 0.5, 5.0, 1.2, 0.1, 1.9] {
            points.push(&[x, 0.5, 0.5]);
        }
        for (max_points_per_voxel, expected) in
            [(2, &[0_u32, 3, 1, 4][..]), (VoxelizeParams::ALL_POINTS, &[0, 3, 5, 1, 4])]
        {
            let params = VoxelizeParams { grid, max_points_per_voxel, voxel_capacity: 4 };
            let mut voxels = Voxels::new(&params);
            voxelize(&points, &params, &mut Workspace::new(&grid, 6), &mut voxels).unwrap();
            let mut indices = vec![9_u32];
            voxel_arrays(&voxels, &mut indices);
            assert_eq!(indices, expected);
            let mut indices = vec![9_i64];
            voxel_arrays(&voxels, &mut indices);
            assert_eq!(indices.len(), expected.len());
        }
    }
}
