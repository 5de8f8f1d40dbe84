//! Groups points into the voxels of a grid.
//!
//! Order: voxels are sorted by their first point, the points of a voxel by their index.
//! Both limits keep the first: a voxel keeps its first `max_points_per_voxel` points, and
//! the first `voxel_capacity` voxels are kept. Dropped points and voxels are counted.
//! Points are not shuffled, so that the limits favour points that the sensor sends
//! first; raise the limits if the counters rise.
//!
//! The cell of a point is `floor((p - min) / voxel_size)` in f32 ([`Grid::voxel_of`], which also
//! has the rule of Autoware's TransFusion); points outside the grid, including NaN, are dropped and counted. A pillar is a voxel
//! of a grid that is one cell high.
//!
//! All results are integers, equal on CPU and CUDA. spconv's and mmcv's point-to-voxel
//! operators give the same voxels in another order.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;
mod table;

use det_post_types::{Error, ErrorKind, Grid, Points, Result};
use table::CellTable;

/// The grid and its limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VoxelizeParams {
    /// The grid.
    pub grid: Grid,
    /// The maximum number of points per voxel, at least 1;
    /// [`Self::ALL_POINTS`] is no limit.
    pub max_points_per_voxel: usize,
    /// The maximum number of voxels, at least 1.
    pub voxel_capacity: usize,
}

impl VoxelizeParams {
    /// As `max_points_per_voxel`: voxels keep all of their points, as in mmdet3d's dynamic
    /// voxelization.
    pub const ALL_POINTS: usize = usize::MAX;
}

/// The voxel of a point that no voxel keeps.
const NO_VOXEL: u32 = u32::MAX;

/// Points grouped by voxel, as indices into the input [`Points`].
#[derive(Clone, Debug)]
pub struct Voxels {
    coordinates: Vec<[u32; 3]>,
    num_points_per_voxel: Vec<u32>,
    /// Per point its voxel, or [`NO_VOXEL`].
    voxel_of_point: Vec<u32>,
    /// Per voxel the end of its points in `point_indices`.
    ends: Vec<u32>,
    point_indices: Vec<u32>,
    max_points_per_voxel: usize,
    voxel_capacity: usize,
}

impl Voxels {
    /// No voxels, with memory for as many as the parameters allow. The memory of
    /// their points, 8 bytes each, is taken with the first frame, for the point
    /// capacity of its workspace.
    pub fn new(params: &VoxelizeParams) -> Self {
        let VoxelizeParams { max_points_per_voxel, voxel_capacity, .. } = *params;
        Self {
            coordinates: Vec::with_capacity(voxel_capacity),
            num_points_per_voxel: Vec::with_capacity(voxel_capacity),
            voxel_of_point: Vec::new(),
            ends: Vec::with_capacity(voxel_capacity),
            point_indices: Vec::new(),
            max_points_per_voxel,
            voxel_capacity,
        }
    }

    /// Number of voxels.
    pub fn len(&self) -> usize {
        self.coordinates.len()
    }

    /// Whether there are no voxels.
    pub fn is_empty(&self) -> bool {
        self.coordinates.is_empty()
    }

    /// The maximum number of voxels.
    pub fn capacity(&self) -> usize {
        self.voxel_capacity
    }

    /// The maximum number of points per voxel.
    pub fn max_points_per_voxel(&self) -> usize {
        self.max_points_per_voxel
    }

    /// Per voxel, its cell along x, y, z.
    pub fn coordinates(&self) -> &[[u32; 3]] {
        &self.coordinates
    }

    /// Per voxel, the number of its points, at least 1.
    pub fn num_points_per_voxel(&self) -> &[u32] {
        &self.num_points_per_voxel
    }

    /// The indices of a voxel's points, ascending.
    ///
    /// # Panics
    /// When there is no such voxel.
    pub fn points_of(&self, voxel: usize) -> &[u32] {
        let end = self.ends[voxel] as usize;
        &self.point_indices[end - self.num_points_per_voxel[voxel] as usize..end]
    }

    fn clear(&mut self, point_capacity: usize) {
        self.coordinates.clear();
        self.num_points_per_voxel.clear();
        self.voxel_of_point.clear();
        self.voxel_of_point.reserve_exact(point_capacity);
        self.point_indices.clear();
        self.point_indices.reserve_exact(point_capacity);
    }

    /// Appends a voxel without points; false if the capacity is reached.
    fn push(&mut self, coordinates: [u32; 3]) -> bool {
        if self.len() == self.voxel_capacity {
            return false;
        }
        self.coordinates.push(coordinates);
        self.num_points_per_voxel.push(0);
        true
    }

    /// Adds the next point to a voxel; false if the voxel is full.
    #[inline]
    fn push_point(&mut self, voxel: u32) -> bool {
        let num_points = &mut self.num_points_per_voxel[voxel as usize];
        let has_place = (*num_points as usize) < self.max_points_per_voxel;
        *num_points += u32::from(has_place);
        self.voxel_of_point.push(if has_place { voxel } else { NO_VOXEL });
        has_place
    }

    /// Leaves the next point out.
    #[inline]
    fn skip_point(&mut self) {
        self.voxel_of_point.push(NO_VOXEL);
    }

    /// Groups the points that were added.
    fn group(&mut self) {
        // Starts first; each ends where its voxel's points end.
        let mut num_points = 0;
        self.ends.clear();
        for &num_of_voxel in &self.num_points_per_voxel {
            self.ends.push(num_points);
            num_points += num_of_voxel;
        }
        self.point_indices.resize(num_points as usize, 0);
        for (point, &voxel) in (0..).zip(&self.voxel_of_point) {
            if voxel != NO_VOXEL {
                let place = &mut self.ends[voxel as usize];
                self.point_indices[*place as usize] = point;
                *place += 1;
            }
        }
    }
}

/// Points and voxels that were kept and dropped. `num_in_range` and `num_out_of_range`
/// add up to all points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VoxelizeCounts {
    /// Points inside the grid.
    pub num_in_range: usize,
    /// Points outside the grid.
    pub num_out_of_range: usize,
    /// Voxels kept.
    pub num_voxels: usize,
    /// Voxels beyond `voxel_capacity`.
    pub num_voxels_over_capacity: usize,
    /// Points in range that their voxel drops, which is full.
    pub num_points_over_voxel: usize,
    /// Points in range whose voxel is beyond `voxel_capacity`.
    pub num_points_over_voxel_capacity: usize,
}

/// The table from cells to voxels, which is cleared by each call.
#[derive(Clone, Debug)]
pub struct Workspace {
    cells: CellTable,
    grid: Grid,
    point_capacity: usize,
}

impl Workspace {
    /// Memory to group up to `point_capacity` points on a grid: 8 bytes per cell of the
    /// grid or, if that is less, 16 bytes per point, rounded up to a power of two.
    pub fn new(grid: &Grid, point_capacity: usize) -> Self {
        let cells = CellTable::new(grid.num_cells(), point_capacity);
        Self { cells, grid: *grid, point_capacity }
    }
}

/// Replaces the contents of `voxels` by the voxels of `points`.
///
/// # Errors
/// `Argument` when there are more points than the workspace was made for, the workspace
/// or `voxels` were made for another grid or other limits, a limit is zero, or the grid
/// has more than `u32::MAX` cells.
pub fn voxelize(
    points: &Points,
    params: &VoxelizeParams,
    workspace: &mut Workspace,
    voxels: &mut Voxels,
) -> Result<VoxelizeCounts> {
    let argument = |message| Err(Error::new(ErrorKind::Argument, "voxelize", message));
    if points.len() > workspace.point_capacity {
        return argument(format!(
            "{} points, the workspace is for {}",
            points.len(),
            workspace.point_capacity
        ));
    }
    let limits = (params.voxel_capacity, params.max_points_per_voxel);
    if limits != (voxels.voxel_capacity, voxels.max_points_per_voxel)
        || limits.0 == 0
        || limits.1 == 0
    {
        return argument(format!(
            "limits of {} voxels of {} points do not fit voxels made for {} of {}; at least 1 of \
             1 is required",
            limits.0, limits.1, voxels.voxel_capacity, voxels.max_points_per_voxel
        ));
    }
    if params.grid != workspace.grid {
        return argument(format!(
            "the grid is {:?}, the workspace was made for {:?}",
            params.grid, workspace.grid
        ));
    }
    if params.grid.num_cells() > u64::from(u32::MAX) {
        return argument(format!(
            "the grid has {} cells, at most {} are allowed",
            params.grid.num_cells(),
            u32::MAX
        ));
    }
    voxels.clear(workspace.point_capacity);
    Ok(cpu::voxelize(points, &params.grid, &mut workspace.cells, voxels))
}

#[cfg(test)]
mod tests;
