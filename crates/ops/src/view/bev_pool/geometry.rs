//! Where the points of the frustums of cameras are, and in which cells.

use nalgebra::{Matrix3, Vector3};

use super::shape::{FrustumShape, MapShape, OUTSIDE};
use super::{MAX_CAMERAS, error};
use det_post_types::{Result, Size};

/// The matrix that moves nothing, three rows of four.
pub const IDENTITY: [[f64; 4]; 3] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];

/// The depths of a frustum along the optical axis, in metres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DepthBins {
    /// The first depth.
    pub first_m: f64,
    /// From a depth to the next.
    pub step_m: f64,
    /// How many.
    pub num: usize,
}

impl DepthBins {
    /// The depths from `first_m` on that are below `end_m`, as `arange` and `dbound` of the published
    /// configurations have them: 118 for 1, 60, 0.5.
    ///
    /// # Errors
    /// `Argument` when a number is not finite, the step is not above 0 or no depth is below the end.
    pub fn below(first_m: f64, end_m: f64, step_m: f64) -> Result<Self> {
        let num = ((end_m - first_m) / step_m).ceil();
        let fits = step_m > 0.0 && first_m.is_finite() && (1.0..=65_536.0).contains(&num);
        if !fits {
            return Err(error(format!(
                "depths from {first_m} m to {end_m} m in steps of {step_m} m: 1 to 65536 are required"
            )));
        }
        Ok(Self { first_m, step_m, num: num as usize })
    }
}

/// The points of a camera: depths at the pixels of its feature map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frustum {
    /// The network's image.
    pub image: Size,
    /// The feature map, columns and rows.
    pub map: Size,
    /// The depths.
    pub depths: DepthBins,
}

/// Cells along an axis, in metres; the last one ends at `max_m`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellAxis {
    /// Where the first cell begins.
    pub min_m: f64,
    /// Where the last cell ends.
    pub max_m: f64,
    /// The length of a cell.
    pub cell_m: f64,
}

impl CellAxis {
    /// How many cells.
    ///
    /// # Errors
    /// `Argument` unless it is a whole number of 1 to 65536, to a thousandth of a cell.
    pub fn num_cells(&self) -> Result<usize> {
        let exact = (self.max_m - self.min_m) / self.cell_m;
        let num = exact.round();
        let fits = self.cell_m > 0.0 && self.min_m.is_finite() && (1.0..=65_536.0).contains(&num);
        if fits && (exact - num).abs() <= 1e-3 {
            return Ok(num as usize);
        }
        let Self { min_m, max_m, cell_m } = self;
        Err(error(format!(
            "cells of {cell_m} m from {min_m} m to {max_m} m are {exact}: a whole number of 1 to 65536 \
             is required"
        )))
    }

    /// The cell of a position, truncated toward zero.
    fn cell(&self, position: f64, num_cells: usize) -> Option<usize> {
        let place = (position - self.min_m) / self.cell_m;
        // Above -1 it is truncated to 0. Both comparisons are false for NaN.
        (place > -1.0 && place < num_cells as f64).then_some(place.max(0.0) as usize)
    }
}

/// The axis of the grid along which the rows of a map follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapRows {
    /// Row i is cell i along x, column j cell j along y: LSS, BEVFusion.
    #[default]
    X,
    /// Row i is cell i along y, column j cell j along x: BEVDet.
    Y,
}

/// The cells of a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolGrid {
    /// Along x.
    pub x: CellAxis,
    /// Along y.
    pub y: CellAxis,
    /// Along z: the levels, of which the published networks have one.
    pub z: CellAxis,
    /// The order of the map.
    pub rows: MapRows,
}

impl PoolGrid {
    /// The sizes of the map.
    ///
    /// # Errors
    /// Returns the errors of [`CellAxis::num_cells`].
    pub fn shape(&self) -> Result<MapShape> {
        let [x, y, levels] = [self.x.num_cells()?, self.y.num_cells()?, self.z.num_cells()?];
        let (rows, columns) = match self.rows {
            MapRows::X => (x, y),
            MapRows::Y => (y, x),
        };
        Ok(MapShape { levels, rows, columns })
    }

    /// The cell of a point, in the order of the map of this shape.
    fn cell(&self, point: &Vector3<f64>, shape: &MapShape) -> Option<u32> {
        let along = match self.rows {
            MapRows::X => [(&self.x, point.x), (&self.y, point.y)],
            MapRows::Y => [(&self.y, point.y), (&self.x, point.x)],
        };
        let row = along[0].0.cell(along[0].1, shape.rows)?;
        let column = along[1].0.cell(along[1].1, shape.columns)?;
        let level = self.z.cell(point.z, shape.levels)?;
        // The number of cells was checked to be below 2^32.
        Some(((level * shape.rows + row) * shape.columns + column) as u32)
    }
}

/// A camera.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolCamera {
    /// The intrinsic matrix of the image that the camera gives, rectified.
    pub intrinsics: [[f64; 3]; 3],
    /// From pixels of that image to pixels of the network's: resized, cut, mirrored, turned.
    pub network_from_image: [[f64; 3]; 2],
    /// From the camera (z ahead, x right, y down) to the frame of the grid, in metres.
    pub grid_from_camera: [[f64; 4]; 3],
}

/// What the points of a table are made of.
#[derive(Clone, Copy, Debug)]
pub struct PoolGeometry<'a> {
    /// The points of each camera.
    pub frustum: Frustum,
    /// The cells.
    pub grid: PoolGrid,
    /// The cameras, at most [`MAX_CAMERAS`].
    pub cameras: &'a [PoolCamera],
    /// Moves all points in the frame of the grid: the augmentation of the LiDAR in training;
    /// else [`IDENTITY`].
    pub augmentation: [[f64; 4]; 3],
}

/// The points of a camera are `origin + depth * (ray * (u, v, 1))`.
struct Lines {
    origin: Vector3<f64>,
    ray: Matrix3<f64>,
}

fn rotation(matrix: &[[f64; 4]; 3]) -> Matrix3<f64> {
    Matrix3::from_fn(|row, column| matrix[row][column])
}

fn translation(matrix: &[[f64; 4]; 3]) -> Vector3<f64> {
    Vector3::from_fn(|row, _| matrix[row][3])
}

impl PoolGeometry<'_> {
    /// The sizes of the inputs.
    ///
    /// # Errors
    /// `Argument` when there is no camera, there are too many, or a map has no pixel.
    pub fn shape(&self) -> Result<FrustumShape> {
        let Frustum { image, map, depths } = &self.frustum;
        let num_cameras = self.cameras.len();
        let is_empty = [image.width, image.height, map.width, map.height].contains(&0);
        if is_empty || depths.num == 0 || !(1..=MAX_CAMERAS).contains(&num_cameras) {
            return Err(error(format!(
                "{num_cameras} cameras, images of {}x{}, maps of {}x{}, {} depths: 1 to {MAX_CAMERAS} \
                 cameras and no empty size are required",
                image.width, image.height, map.width, map.height, depths.num
            )));
        }
        Ok(FrustumShape {
            num_cameras,
            num_depths: depths.num,
            rows: map.height as usize,
            columns: map.width as usize,
        })
    }

    fn lines(&self, index: usize) -> Result<Lines> {
        let PoolCamera { intrinsics, network_from_image, grid_from_camera } = &self.cameras[index];
        let [first, second] = network_from_image;
        let placed = Matrix3::from_fn(|row, column| match row {
            0 => first[column],
            1 => second[column],
            _ => f64::from(u8::from(column == 2)),
        });
        let inverse = |matrix: Matrix3<f64>, what: &str| {
            let found =
                matrix.try_inverse().filter(|inverse| inverse.iter().all(|x| x.is_finite()));
            found.ok_or_else(|| error(format!("camera {index}: {what} has no inverse")))
        };
        let intrinsics = Matrix3::from_fn(|row, column| intrinsics[row][column]);
        let to_camera = inverse(intrinsics, "the intrinsic matrix")?
            * inverse(placed, "the matrix to the network's image")?;
        let moved = rotation(&self.augmentation);
        let lines = Lines {
            origin: moved * translation(grid_from_camera) + translation(&self.augmentation),
            ray: moved * rotation(grid_from_camera) * to_camera,
        };
        if lines.origin.iter().chain(lines.ray.iter()).all(|x| x.is_finite()) {
            return Ok(lines);
        }
        Err(error(format!("camera {index}: a matrix is not finite")))
    }

    /// The cell of every point `[cameras, D, H, W]`, [`OUTSIDE`] for none.
    pub(super) fn cells(&self, inputs: &FrustumShape, map: &MapShape) -> Result<Vec<u32>> {
        let Frustum { image, depths, .. } = &self.frustum;
        let columns = places(image.width, inputs.columns);
        let rows = places(image.height, inputs.rows);
        let mut cells = Vec::with_capacity(inputs.num_points());
        for index in 0..self.cameras.len() {
            let Lines { origin, ray } = self.lines(index)?;
            let pixels = rows.iter().flat_map(|&v| columns.iter().map(move |&u| (u, v)));
            let rays: Vec<_> = pixels.map(|(u, v)| ray * Vector3::new(u, v, 1.0)).collect();
            for bin in 0..depths.num {
                let depth = depths.first_m + bin as f64 * depths.step_m;
                let points = rays.iter().map(|ray| origin + depth * ray);
                cells.extend(points.map(|point| self.grid.cell(&point, map).unwrap_or(OUTSIDE)));
            }
        }
        Ok(cells)
    }
}

/// `num` pixels of an axis of `size`, from the first to the last.
fn places(size: u32, num: usize) -> Vec<f64> {
    let step = if num > 1 { f64::from(size - 1) / (num - 1) as f64 } else { 0.0 };
    (0..num).map(|index| index as f64 * step).collect()
}
