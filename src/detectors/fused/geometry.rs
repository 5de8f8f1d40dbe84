//! What follows from the matrices of the cameras.

use nalgebra::{Matrix3, Matrix4};

use super::Branch;
use crate::config::FusedCameraFacts;
use crate::detectors::surround::RigMatrices;
use det_post_infer::sparse::CameraNetwork;
use det_post_ops::view::bev_pool::{
    CellAxis, DepthBins, Frustum, IDENTITY, MapRows, PoolCamera, PoolGeometry, PoolGrid, PoolTable,
};
use det_post_ops::view::depth_image::{DepthImageParams, DepthView};
use det_post_types::{Error, ErrorKind, PointRange, Result, Size};

/// A camera that was never there, whose points are masked.
const UNKNOWN: PoolCamera = PoolCamera {
    intrinsics: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    network_from_image: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
    grid_from_camera: IDENTITY,
};

/// The geometry of the cameras of a frame.
pub(super) struct Geometry {
    facts: FusedCameraFacts,
    network: CameraNetwork,
    /// Of the matrices that the table was made of.
    revision: Option<u64>,
    is_present: Vec<bool>,
    depth_images: DepthImageParams,
}

impl Geometry {
    /// Cameras of which none was there yet; points are taken from a range.
    pub(super) fn new(branch: &Branch<'_>, range: PointRange) -> Self {
        let facts = branch.config.facts;
        let num = facts.num_cameras;
        Self {
            facts,
            network: branch.network,
            revision: None,
            is_present: vec![false; num],
            depth_images: DepthImageParams {
                size: facts.input_size,
                range,
                views: vec![DepthView::MISSING; num],
            },
        }
    }

    /// The table of cameras of which none was there yet.
    ///
    /// # Errors
    /// As of [`PoolTable::new`].
    pub(super) fn first_table(&self) -> Result<PoolTable> {
        self.table(&vec![UNKNOWN; self.facts.num_cameras])
    }

    /// Takes the matrices of a frame; the table of the pool, where they have changed.
    ///
    /// # Errors
    /// `Uncalibrated` when a matrix has no inverse; errors of [`PoolTable::new`].
    pub(super) fn update(&mut self, matrices: &RigMatrices) -> Result<Option<PoolTable>> {
        let views = self.depth_images.views.iter_mut().zip(&mut self.is_present);
        for ((view, is_present), (matrix, present)) in views.zip(matrices.image_from_target()) {
            let value = |row: usize, column: usize| matrix[(row, column)] as f32;
            let row = |row| [0, 1, 2, 3].map(|column| value(row, column));
            *view = DepthView { pixels_from_points: [0, 1, 2].map(row), is_present: present };
            *is_present = present;
        }
        if self.revision == Some(matrices.revision()) {
            return Ok(None);
        }
        let cameras = matrices.image_from_target().enumerate();
        let cameras = cameras.map(|(index, (matrix, _))| camera(index, matrix));
        let table = self.table(&cameras.collect::<Result<Vec<_>>>()?)?;
        self.revision = Some(matrices.revision());
        Ok(Some(table))
    }

    /// Which cameras the frame has.
    pub(super) fn is_present(&self) -> &[bool] {
        &self.is_present
    }

    /// The views of the points of the frame.
    pub(super) fn depth_images(&self) -> &DepthImageParams {
        &self.depth_images
    }

    fn table(&self, cameras: &[PoolCamera]) -> Result<PoolTable> {
        let FusedCameraFacts { input_size, depths_m: [first_m, step_m], range, .. } = self.facts;
        let CameraNetwork { image_features, num_depths, levels, rows, columns, .. } = self.network;
        let [_, map_rows, map_columns] = image_features;
        let depths = DepthBins { first_m: first_m.into(), step_m: step_m.into(), num: num_depths };
        let axis = |axis: usize, num: usize| {
            let [min_m, max_m] = [range.min[axis], range.max[axis]].map(f64::from);
            CellAxis { min_m, max_m, cell_m: (max_m - min_m) / num as f64 }
        };
        PoolTable::new(&PoolGeometry {
            frustum: Frustum {
                image: input_size,
                map: Size::new(map_columns as u32, map_rows as u32),
                depths,
            },
            grid: PoolGrid {
                x: axis(0, rows),
                y: axis(1, columns),
                z: axis(2, levels),
                rows: MapRows::X,
            },
            cameras,
            augmentation: IDENTITY,
        })
    }
}

/// The camera of a matrix from points of the target frame to (u z, v z, z, 1): with its rows `[A b]`
/// a point is at `A^-1 (z (u, v, 1) - b)`.
fn camera(index: usize, matrix: &Matrix4<f64>) -> Result<PoolCamera> {
    if *matrix == Matrix4::zeros() {
        return Ok(UNKNOWN);
    }
    let linear: Matrix3<f64> = matrix.fixed_view::<3, 3>(0, 0).into_owned();
    let Some(inverse) = linear.try_inverse() else {
        let message = format!("camera {index}: its projection cannot be inverted");
        return Err(Error::new(ErrorKind::Uncalibrated, super::STAGE, message));
    };
    let origin = -(inverse * matrix.fixed_view::<3, 1>(0, 3));
    let row = |row: usize| [inverse[(row, 0)], inverse[(row, 1)], inverse[(row, 2)], origin[row]];
    Ok(PoolCamera { grid_from_camera: [row(0), row(1), row(2)], ..UNKNOWN })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point of a frustum is where the matrix projects it to its pixel and depth.
    #[test]
    fn frustums_invert_the_projection() {
        let matrix = Matrix4::new(
            400.0, -300.0, 2.0, 50.0, 10.0, 5.0, -420.0, 600.0, 0.9, 0.1, 0.05, 0.4, 0.0, 0.0, 0.0,
            1.0,
        );
        let PoolCamera { grid_from_camera: rows, .. } = camera(0, &matrix).unwrap();
        let (u, v, z) = (31.0, 17.0, 12.5);
        let point = rows.map(|[a, b, c, d]| z * (a * u + b * v + c) + d);
        let placed = matrix * nalgebra::Vector4::new(point[0], point[1], point[2], 1.0);
        for (found, expected) in [(placed.x / z, u), (placed.y / z, v), (placed.z, z)] {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        assert_eq!(camera(1, &Matrix4::zeros()).unwrap(), UNKNOWN);
        let flat = Matrix4::from_diagonal(&nalgebra::Vector4::new(1.0, 0.0, 1.0, 1.0));
        assert!(camera(2, &flat).unwrap_err().message().contains("camera 2"));
    }
}
