//! Grids, geometries and bitmaps as kernels read them.

use super::{Geometry, SiteGrid};
use crate::device::cuda::{In, mirrors};

/// A grid: `SiteGrid` in the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct GridArgs {
    shape: [u32; 3],
    batch_size: u32,
}

impl GridArgs {
    /// The grid as kernels read it.
    pub fn new(grid: &SiteGrid) -> Self {
        Self { shape: grid.shape(), batch_size: grid.batch_size() }
    }

    /// Number of cells, all scenes together.
    pub fn num_cells(&self) -> u64 {
        let sizes = self.shape.iter().map(|&size| u64::from(size));
        sizes.fold(u64::from(self.batch_size), u64::saturating_mul)
    }
}

/// A geometry: `Geometry` in the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct GeometryArgs {
    /// Taps per axis.
    pub kernel: [u32; 3],
    stride: [u32; 3],
    padding: [u32; 3],
    dilation: [u32; 3],
}

impl GeometryArgs {
    /// The geometry as kernels read it.
    pub fn new(geometry: &Geometry) -> Self {
        let Geometry { kernel, stride, padding, dilation } = *geometry;
        Self { kernel, stride, padding, dilation }
    }

    /// Whether the values are those of a [`Geometry`], or its padding that of a
    /// submanifold one.
    pub fn is_possible(&self) -> bool {
        let possible =
            |values: [u32; 3], most| values.iter().all(|value| (1..=most).contains(value));
        possible(self.kernel, Geometry::MAX_KERNEL)
            && possible(self.stride, Geometry::MAX_STEP)
            && possible(self.dilation, Geometry::MAX_STEP)
            && self
                .padding
                .iter()
                .all(|&padding| padding <= Geometry::MAX_STEP * Geometry::MAX_KERNEL)
    }
}

/// The bitmap of a level and its ranks: `SiteIndex` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SiteIndexArgs<'a> {
    /// A bit per cell.
    pub bits: In<'a, u32>,
    /// By word the sites before it.
    pub ranks: In<'a, u32>,
}

impl SiteIndexArgs<'_> {
    /// Whether every cell of a grid has a word.
    pub fn has_cells(&self, num_cells: u64) -> bool {
        let num_words = num_cells.div_ceil(32);
        self.bits.len() as u64 >= num_words && self.ranks.len() >= self.bits.len()
    }
}

mirrors!(GridArgs, "sparse/site_index.cuh", "SiteGrid");
mirrors!(SiteIndexArgs<'_>, "sparse/site_index.cuh", "SiteIndex");
mirrors!(GeometryArgs, "sparse/rulebook.cuh", "Geometry");
