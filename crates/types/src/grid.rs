//! The voxel grid of a LiDAR head and the crop box it spans.

use crate::error::{Error, ErrorKind, Result};

/// Crop box in metres; a point is inside when `min <= p < max` on every axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointRange {
    /// Smallest x, y, z.
    pub min: [f32; 3],
    /// Largest x, y, z, exclusive.
    pub max: [f32; 3],
}

impl PointRange {
    /// A box from its minimum and its maximum x, y, z.
    pub fn from_bounds([x0, y0, z0, x1, y1, z1]: [f32; 6]) -> Self {
        Self { min: [x0, y0, z0], max: [x1, y1, z1] }
    }

    /// Whether a point is inside. NaN never is.
    #[inline]
    pub fn contains(&self, point: [f32; 3]) -> bool {
        (0..3).all(|axis| point[axis] >= self.min[axis] && point[axis] < self.max[axis])
    }
}

/// A regular grid of voxels over a [`PointRange`], x fastest.
///
/// Index of a point along an axis: `floor((p - min) / voxel_size)` in f32, and where that
/// is a cell of the grid the point is inside. The division is a true one: multiplication by
/// the reciprocal moves points at the borders of cells (105127 instead of 105086 voxels
/// on one nuScenes scan).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    range: PointRange,
    voxel_size_m: [f32; 3],
    grid_size: [u32; 3],
}

impl Grid {
    /// The maximum number of cells along an axis.
    pub const MAX_AXIS: u32 = 1 << 16;

    /// A grid of `round((max - min) / voxel_size)` cells along each axis.
    ///
    /// # Errors
    /// `Argument` when the range is empty or not finite, a voxel size is not
    /// positive, or an axis has no cell or more than [`Grid::MAX_AXIS`].
    pub fn new(range: PointRange, voxel_size_m: [f32; 3]) -> Result<Self> {
        let mut grid_size = [0; 3];
        for axis in 0..3 {
            let (min, max, size) = (range.min[axis], range.max[axis], voxel_size_m[axis]);
            let name = ["x", "y", "z"][axis];
            let cells = ((f64::from(max) - f64::from(min)) / f64::from(size)).round();
            if !(min.is_finite() && max > min && size > 0.0 && cells >= 1.0)
                || cells > f64::from(Self::MAX_AXIS)
            {
                return Err(Error::new(
                    ErrorKind::Argument,
                    "grid",
                    format!(
                        "axis {name}: range {min} to {max} with voxels of {size} m makes {cells} \
                         cells; it must make 1 to {}",
                        Self::MAX_AXIS
                    ),
                ));
            }
            grid_size[axis] = cells as u32;
        }
        Ok(Self { range, voxel_size_m, grid_size })
    }

    /// The crop box.
    pub fn range(&self) -> PointRange {
        self.range
    }

    /// Edge lengths of a voxel along x, y, z.
    pub fn voxel_size_m(&self) -> [f32; 3] {
        self.voxel_size_m
    }

    /// Number of cells along x, y, z.
    pub fn grid_size(&self) -> [u32; 3] {
        self.grid_size
    }

    /// Number of cells in all.
    pub fn num_cells(&self) -> u64 {
        self.grid_size.iter().map(|&n| u64::from(n)).product()
    }

    /// The voxel of a point as (x, y, z), or `None` outside the crop box or
    /// the grid. NaN is outside.
    #[inline]
    pub fn voxel_of(&self, point: [f32; 3]) -> Option<[u32; 3]> {
        let mut voxel = [0; 3];
        for axis in 0..3 {
            let cell = (point[axis] - self.range.min[axis]) / self.voxel_size_m[axis];
            // NaN fails this comparison. What passes is not negative, so that truncation
            // is the floor.
            if !(cell >= 0.0 && cell < self.grid_size[axis] as f32) {
                return None;
            }
            voxel[axis] = cell as u32;
        }
        Some(voxel)
    }

    /// Linear index of a voxel, x fastest, then y, then z.
    #[inline]
    pub fn index_of(&self, voxel: [u32; 3]) -> u64 {
        let [nx, ny, _] = self.grid_size.map(u64::from);
        let [x, y, z] = voxel.map(u64::from);
        (z * ny + y) * nx + x
    }

    /// Centre of a voxel in metres: `(index + 0.5) * size + min` in f32.
    #[inline]
    pub fn center_of(&self, voxel: [u32; 3]) -> [f32; 3] {
        std::array::from_fn(|axis| {
            (voxel[axis] as f32 + 0.5) * self.voxel_size_m[axis] + self.range.min[axis]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let range = PointRange { min: [-2.0, -1.0, 0.0], max: [2.0, 1.0, 3.0] };
        Grid::new(range, [0.5, 0.25, 3.0]).unwrap()
    }

    #[test]
    fn sizes_and_indices() {
        let grid = grid();
        assert_eq!(grid.grid_size(), [8, 8, 1]);
        assert_eq!(grid.voxel_of([-2.0, -1.0, 0.0]), Some([0, 0, 0]));
        assert_eq!(grid.voxel_of([1.99, 0.99, 2.99]), Some([7, 7, 0]));
        assert_eq!(grid.index_of([3, 2, 0]), 19);
        assert_eq!(grid.center_of([3, 2, 0]), [-0.25, -0.375, 1.5]);
    }

    #[test]
    fn borders_and_nan_are_outside() {
        let grid = grid();
        for outside in [[2.0, 0.0, 1.0], [-2.01, 0.0, 1.0], [0.0, f32::NAN, 1.0], [0.0, 0.0, 3.0]] {
            assert_eq!(grid.voxel_of(outside), None, "{outside:?}");
        }
    }

    #[test]
    fn bad_ranges_are_refused_with_the_axis() {
        let range = PointRange { min: [0.0; 3], max: [1.0, 1.0, 0.0] };
        let error = Grid::new(range, [0.5; 3]).unwrap_err();
        assert!(error.message().contains("axis z"), "{error}");
        let range = PointRange { min: [0.0; 3], max: [1.0; 3] };
        assert!(Grid::new(range, [0.0, 0.5, 0.5]).is_err());
        assert!(Grid::new(range, [f32::NAN, 0.5, 0.5]).is_err());
        assert!(Grid::new(range, [1e-6, 0.5, 0.5]).is_err());
    }
}
