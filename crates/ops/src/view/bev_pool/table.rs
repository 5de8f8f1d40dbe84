//! The points of every cell.

use super::geometry::PoolGeometry;
use super::shape::{FrustumShape, MapShape, OUTSIDE};
use super::{MAX_CAMERAS, error};
use det_post_types::Result;

/// A point of a frustum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolPoint {
    /// The camera.
    pub camera: usize,
    /// The depth bin.
    pub depth: usize,
    /// Row times columns plus column.
    pub pixel: usize,
}

/// The bits of a point in a word: camera, depth, pixel, from the highest bit down, so that words
/// ascend as points do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    pub(super) depth_bits: u32,
    pub(super) pixel_bits: u32,
}

impl Packing {
    fn of(shape: &FrustumShape) -> Option<Self> {
        // The bits of the numbers below `num`.
        let bits = |num: usize| usize::BITS - num.saturating_sub(1).leading_zeros();
        let (depth_bits, pixel_bits) = (bits(shape.num_depths), bits(shape.num_pixels()));
        let fits = bits(shape.num_cameras) + depth_bits + pixel_bits <= u32::BITS
            && depth_bits < u32::BITS
            && pixel_bits < u32::BITS;
        fits.then_some(Self { depth_bits, pixel_bits })
    }

    fn packed(self, point: PoolPoint) -> u32 {
        let PoolPoint { camera, depth, pixel } = point;
        let word = ((camera as u64) << self.depth_bits | depth as u64) << self.pixel_bits;
        (word | pixel as u64) as u32
    }

    pub(super) fn point(self, word: u32) -> PoolPoint {
        let word = u64::from(word);
        let below = |bits: u32| (1_u64 << bits) - 1;
        PoolPoint {
            camera: (word >> (self.depth_bits + self.pixel_bits)) as usize,
            depth: (word >> self.pixel_bits & below(self.depth_bits)) as usize,
            pixel: (word & below(self.pixel_bits)) as usize,
        }
    }
}

/// The points of every cell of a map: by cell, then by camera, depth, row and column. Four bytes a
/// point and four a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolTable {
    frustum: FrustumShape,
    map: MapShape,
    packing: Packing,
    /// Packed points, cell by cell.
    points: Vec<u32>,
    /// By cell its first point, and one more at the end.
    starts: Vec<u32>,
}

impl PoolTable {
    /// The table of cameras: when a calibration changes, not for frames.
    ///
    /// # Errors
    /// `Argument` for a camera whose matrices are not finite or have no inverse; cameras, sizes or cells
    /// outside their limits; errors of [`Self::of_cells`].
    pub fn new(geometry: &PoolGeometry<'_>) -> Result<Self> {
        let (frustum, map) = (geometry.shape()?, geometry.grid.shape()?);
        check(&frustum, &map)?;
        Self::of_cells(frustum, map, &geometry.cells(&frustum, &map)?)
    }

    /// The table of points `[cameras, D, H, W]` whose cells are known: `(level * rows + row) * columns +
    /// column`, or [`OUTSIDE`].
    ///
    /// # Errors
    /// `Argument` when there are no cameras or more than [`MAX_CAMERAS`], the numbers of a point do
    /// not fit 32 bits together, there are 2^32 points or cells or more, `cells` is not one number for each
    /// point, or a cell is beyond the map.
    pub fn of_cells(frustum: FrustumShape, map: MapShape, cells: &[u32]) -> Result<Self> {
        let packing = check(&frustum, &map)?;
        let (num_points, num_cells) = (frustum.num_points(), map.num_cells());
        if cells.len() != num_points {
            let found = cells.len();
            return Err(error(format!(
                "{found} cells: one for each of {num_points} points is required"
            )));
        }
        let mut starts = vec![0_u32; num_cells + 1];
        for &cell in cells.iter().filter(|&&cell| cell != OUTSIDE) {
            let Some(count) = starts.get_mut(cell as usize + 1) else {
                return Err(error(format!("cell {cell} is beyond a map of {num_cells} cells")));
            };
            *count += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut points = vec![0; sum as usize];
        let num_pixels = frustum.num_pixels();
        for (index, &cell) in cells.iter().enumerate().filter(|&(_, &cell)| cell != OUTSIDE) {
            let (plane, pixel) = (index / num_pixels, index % num_pixels);
            let (camera, depth) = (plane / frustum.num_depths, plane % frustum.num_depths);
            let place = &mut next[cell as usize];
            points[*place as usize] = packing.packed(PoolPoint { camera, depth, pixel });
            *place += 1;
        }
        Ok(Self { frustum, map, packing, points, starts })
    }

    /// The sizes of the inputs.
    pub fn frustum(&self) -> &FrustumShape {
        &self.frustum
    }

    /// The sizes of the map.
    pub fn map(&self) -> &MapShape {
        &self.map
    }

    /// Points in cells.
    pub fn num_points(&self) -> usize {
        self.points.len()
    }

    /// Points in no cell, which are dropped.
    pub fn num_outside(&self) -> usize {
        self.frustum.num_points() - self.points.len()
    }

    /// Points of a cell; 0 beyond the map.
    pub fn num_points_of(&self, cell: usize) -> usize {
        self.interval(cell).len()
    }

    /// The points of a cell in order; none beyond the map.
    pub fn points_of(&self, cell: usize) -> impl Iterator<Item = PoolPoint> + '_ {
        self.interval(cell).iter().map(|&word| self.packing.point(word))
    }

    pub(super) fn packing(&self) -> Packing {
        self.packing
    }

    /// The packed points of a cell.
    pub(super) fn interval(&self, cell: usize) -> &[u32] {
        let ends = self.starts.get(cell).zip(self.starts.get(cell + 1));
        ends.and_then(|(&first, &end)| self.points.get(first as usize..end as usize))
            .unwrap_or_default()
    }

    #[cfg(feature = "cuda")]
    pub(super) fn points(&self) -> &[u32] {
        &self.points
    }

    #[cfg(feature = "cuda")]
    pub(super) fn starts(&self) -> &[u32] {
        &self.starts
    }
}

fn check(frustum: &FrustumShape, map: &MapShape) -> Result<Packing> {
    let (num_points, num_cells) = (frustum.num_points(), map.num_cells());
    let is_below = |num: usize| num > 0 && num < OUTSIDE as usize;
    let fits = is_below(num_points) && is_below(num_cells) && frustum.num_cameras <= MAX_CAMERAS;
    Packing::of(frustum).filter(|_| fits).ok_or_else(|| {
        error(format!(
            "{num_points} points of {frustum:?} in {num_cells} cells: at most {MAX_CAMERAS} cameras, 2^32 - \
             2 points and cells, and 32 bits for camera, depth and pixel are required"
        ))
    })
}
