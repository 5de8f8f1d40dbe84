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

/// Which points are inside a [`Grid`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeEnds {
    /// Those whose cell is one of the grid: the low end of the range is inside, the high end is
    /// not (spconv, mmcv).
    #[default]
    LowInside,
    /// Those between the ends, neither of which is inside; a cell beyond the grid is the last one
    /// (TransFusion as Autoware runs it).
    BothOutside,
}

/// A regular grid of voxels over a [`PointRange`], x fastest.
///
/// Index of a point along an axis: `floor((p - min) / voxel_size)` in f32, and where that
/// is a cell of the grid the point is inside; [`RangeEnds`] has the other rule. The division is a
/// true one: multiplication by the reciprocal moves points at the borders of cells (105127 instead
/// of 105086 voxels on one nuScenes scan).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    range: PointRange,
    voxel_size_m: [f32; 3],
    grid_size: [u32; 3],
    ends: RangeEnds,
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
        let rounded = |[min, max, size]: [f32; 3]| {
            ((f64::from(max) - f64::from(min)) / f64::from(size)).round()
        };
        Self::of(range, voxel_size_m, RangeEnds::LowInside, rounded)
    }

    /// A grid of `trunc((max - min) / voxel_size)` cells along each axis, computed in f32, as
    /// Autoware's TransFusion and BEVFusion have it.
    ///
    /// # Errors
    /// As of [`Grid::new`].
    pub fn truncated(range: PointRange, voxel_size_m: [f32; 3], ends: RangeEnds) -> Result<Self> {
        let truncated = |[min, max, size]: [f32; 3]| f64::from(((max - min) / size).trunc());
        Self::of(range, voxel_size_m, ends, truncated)
    }

    /// `num_cells` of minimum, maximum and voxel size.
    fn of(
        range: PointRange,
        voxel_size_m: [f32; 3],
        ends: RangeEnds,
        num_cells: impl Fn([f32; 3]) -> f64,
    ) -> Result<Self> {
        let mut grid_size = [0; 3];
        for axis in 0..3 {
            let (min, max, size) = (range.min[axis], range.max[axis], voxel_size_m[axis]);
            let name = ["x", "y", "z"][axis];
            let cells = num_cells([min, max, size]);
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
        Ok(Self { range, voxel_size_m, grid_size, ends })
    }

    /// The crop box.
    pub fn range(&self) -> PointRange {
        self.range
    }

    /// Which points are inside.
    pub fn ends(&self) -> RangeEnds {
        self.ends
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
            if self.ends == RangeEnds::BothOutside {
                if !(point[axis] > self.range.min[axis] && point[axis] < self.range.max[axis]) {
                    return None;
                }
                voxel[axis] = (cell as u32).min(self.grid_size[axis] - 1);
                continue;
            }
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
    fn both_ends_are_outside_and_the_last_cell_takes_the_rest() {
        let range = PointRange { min: [-1.0, 0.0, 0.0], max: [1.0, 1.1, 3.0] };
        let ends = RangeEnds::BothOutside;
        let grid = Grid::truncated(range, [0.5, 0.4, 3.0], ends).unwrap();
        assert_eq!((grid.grid_size(), grid.ends()), ([4, 2, 1], ends));
        let half = 0.5_f32;
        for (point, voxel) in [
            ([-1.0, half, 1.0], None),
            ([(-1.0_f32).next_up(), half, 1.0], Some([0, 1, 0])),
            ([1.0, half, 1.0], None),
            ([1.0_f32.next_down(), half, 1.0], Some([3, 1, 0])),
            ([0.0, 1.0, 1.0], Some([2, 1, 0])), // beyond the two cells
            ([0.0, 1.1, 1.0], None),
            ([f32::NAN, half, 1.0], None),
            ([0.0, half, 0.0], None),
            ([0.0, half, f32::INFINITY], None),
        ] {
            assert_eq!(grid.voxel_of(point), voxel, "{point:?}");
        }
        // 2.2 / 0.4 is 5.5: rounded 6, truncated 5.
        let range = PointRange { max: [1.2, 1.1, 3.0], ..range };
        assert_eq!(Grid::new(range, [0.4, 0.5, 3.0]).unwrap().grid_size(), [6, 2, 1]);
        let grid = Grid::truncated(range, [0.4, 0.5, 3.0], RangeEnds::LowInside).unwrap();
        assert_eq!(grid.grid_size(), [5, 2, 1]);
        assert_eq!(grid.voxel_of([-1.0, 0.0, 0.0]), Some([0, 0, 0]));
        assert_eq!(grid.voxel_of([1.1, 0.0, 0.0]), None);
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
