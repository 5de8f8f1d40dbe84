//! The reference on the CPU.

use super::VoxelPoints;
use crate::cloud::voxelize::Voxels;
use det_post_types::{Points, VoxelCoordinates};

/// Writes the points of voxels, all of which exist, to tensors for them.
pub(super) fn voxel_points(points: &Points, voxels: &Voxels, out: &mut VoxelPoints) {
    let VoxelPoints { values, numbers, coordinates, columns, num_channels, .. } = out;
    values.clear();
    numbers.clear();
    coordinates.clear();
    let row_len = out.max_points_per_voxel * *num_channels;
    for (voxel, &[x, y, z]) in voxels.coordinates().iter().enumerate() {
        let indices = voxels.points_of(voxel);
        for &index in indices {
            let start = index as usize * *num_channels;
            values.extend_from_slice(&points.values()[start..start + *num_channels]);
        }
        values.resize((voxel + 1) * row_len, 0.0);
        numbers.push(indices.len() as i32);
        let zyx = [z as i32, y as i32, x as i32];
        match columns {
            VoxelCoordinates::Zyx => coordinates.extend(zyx),
            VoxelCoordinates::BatchZyx => coordinates.extend([0].into_iter().chain(zyx)),
        }
    }
}
