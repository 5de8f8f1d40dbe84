//! The reference on the CPU.

use super::table::CellTable;
use super::{VoxelizeCounts, Voxels};
use det_post_types::{Grid, Points};

/// Groups points. The grid has at most `u32::MAX` cells, the table fits the points, and
/// `voxels` is cleared.
pub(super) fn voxelize(
    points: &Points,
    grid: &Grid,
    cells: &mut CellTable,
    voxels: &mut Voxels,
) -> VoxelizeCounts {
    let mut counts = VoxelizeCounts::default();
    cells.clear();
    for point in points.iter() {
        let Some(cell) = grid.voxel_of([point[0], point[1], point[2]]) else {
            counts.num_out_of_range += 1;
            voxels.skip_point();
            continue;
        };
        counts.num_in_range += 1;
        let (voxel, is_new) = cells.number_of(grid.index_of(cell) as u32);
        if is_new && !voxels.push(cell) {
            counts.num_voxels_over_capacity += 1;
        }
        if voxel as usize >= voxels.len() {
            counts.num_points_over_voxel_capacity += 1;
            voxels.skip_point();
        } else if !voxels.push_point(voxel) {
            counts.num_points_over_voxel += 1;
        }
    }
    voxels.group();
    counts.num_voxels = voxels.len();
    counts
}
