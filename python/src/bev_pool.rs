//! Pooling of the features of cameras to a map seen from above.

use det_post_ops::view::bev_pool::cuda::Workspace;
use det_post_ops::view::bev_pool::{
    CellAxis, DepthBins, Frustum, IDENTITY, MapRows, MapShape, PoolCamera, PoolGeometry, PoolGrid,
    PoolInputs, PoolTable, bev_pool as pool,
};
use det_post_types::{ElementType, Size, Tensor, TensorValues, TensorView};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::argument::{matrix, one_of};
use crate::array::{Input, Output, gpu_of};
use crate::error::raised;
use crate::gpu::{self, Sessions};

type Array<'py> = Bound<'py, PyAny>;
/// Matrices, as nested lists or an array.
type Matrices = Vec<Vec<Vec<f64>>>;

/// The points of camera frustums in the cells of a map, for `bev_pool`: made when a calibration
/// changes, not for every frame.
///
/// intrinsics: [N, 3, 3] or [N, 4, 4], of the images that the cameras give, rectified.
/// lidar_from_camera: [N, 4, 4] (camera2lidar), from the camera (z ahead) to the frame of the grid. image_size:
/// width and height of the network's image; feature_size: of a feature map. dbound: depths,
/// (first, end, step); xbound, ybound, zbound: cells, (min, max, size), in metres. image_augmentation:
/// [N, 4, 4] (img_aug_matrix) or [N, 2, 3], from pixels of the images to the network's;
/// lidar_augmentation: [4, 4] (lidar_aug_matrix). rows: x, as LSS and BEVFusion have their maps, or y, as
/// BEVDet. Cells are truncated toward zero, as published: the lowest also has the points up to one
/// cell below the grid.
#[pyclass(frozen, module = "det_post._ops")]
pub struct BevPool {
    table: PoolTable,
    sessions: Sessions<Workspace>,
}

/// An augmentation of an image: two rows of three, or a 4 by 4 matrix with the shift in its last column.
fn placed(rows: &[Vec<f64>]) -> PyResult<[[f64; 3]; 2]> {
    if rows.len() == 4 {
        let whole = matrix::<3, 4>("image_augmentation", rows)?;
        let [x, y, depth] = whole;
        if [x[2], y[2]] != [0.0; 2] || depth != [0.0, 0.0, 1.0, 0.0] {
            let message = "image_augmentation has a matrix that changes depth or depends on it";
            return Err(PyValueError::new_err(message));
        }
        return Ok([[x[0], x[1], x[3]], [y[0], y[1], y[3]]]);
    }
    if rows.iter().any(|row| row.len() != 3) {
        let message = "image_augmentation is neither [N, 4, 4] nor [N, 2, 3]";
        return Err(PyValueError::new_err(message));
    }
    matrix("image_augmentation", rows)
}

fn cameras_of(
    intrinsics: &Matrices,
    lidar_from_camera: &Matrices,
    image_augmentation: Option<&Matrices>,
) -> PyResult<Vec<PoolCamera>> {
    let num = intrinsics.len();
    let lens = [Some(lidar_from_camera.len()), image_augmentation.map(Vec::len)];
    if lens.into_iter().flatten().any(|len| len != num) {
        let message = format!(
            "{num} intrinsics, {} lidar_from_camera, {:?} image_augmentation: as many are required",
            lidar_from_camera.len(),
            image_augmentation.map(Vec::len)
        );
        return Err(PyValueError::new_err(message));
    }
    let camera = |index: usize| {
        let augmentation = image_augmentation.map(|all| placed(&all[index])).transpose()?;
        Ok(PoolCamera {
            intrinsics: matrix("intrinsics", &intrinsics[index])?,
            network_from_image: augmentation.unwrap_or([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
            grid_from_camera: matrix("lidar_from_camera", &lidar_from_camera[index])?,
        })
    };
    (0..num).map(camera).collect()
}

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "lists from Python are made for the call")]
impl BevPool {
    #[new]
    #[pyo3(signature = (intrinsics, lidar_from_camera, *, image_size, feature_size, dbound, xbound, ybound, zbound, image_augmentation=None, lidar_augmentation=None, rows="x"))]
    #[expect(clippy::too_many_arguments, reason = "options by name")]
    fn new(
        py: Python<'_>,
        intrinsics: Matrices,
        lidar_from_camera: Matrices,
        image_size: (u32, u32),
        feature_size: (u32, u32),
        dbound: [f64; 3],
        xbound: [f64; 3],
        ybound: [f64; 3],
        zbound: [f64; 3],
        image_augmentation: Option<Matrices>,
        lidar_augmentation: Option<Vec<Vec<f64>>>,
        rows: &str,
    ) -> PyResult<Self> {
        let rows = one_of("rows", rows, &[("x", MapRows::X), ("y", MapRows::Y)])?;
        let cameras = cameras_of(&intrinsics, &lidar_from_camera, image_augmentation.as_ref())?;
        let augmentation = lidar_augmentation.map(|rows| matrix("lidar_augmentation", &rows));
        let augmentation = augmentation.transpose()?.unwrap_or(IDENTITY);
        let axis = |[min_m, max_m, cell_m]: [f64; 3]| CellAxis { min_m, max_m, cell_m };
        let size = |(width, height)| Size::new(width, height);
        let made = py.detach(|| {
            let [first_m, end_m, step_m] = dbound;
            let depths = DepthBins::below(first_m, end_m, step_m)?;
            let (image, map) = (size(image_size), size(feature_size));
            PoolTable::new(&PoolGeometry {
                frustum: Frustum { image, map, depths },
                grid: PoolGrid { x: axis(xbound), y: axis(ybound), z: axis(zbound), rows },
                cameras: &cameras,
                augmentation,
            })
        });
        let table = made.map_err(|error| raised(&error))?;
        Ok(Self { table, sessions: Sessions::new() })
    }

    /// The number of points in cells.
    #[getter]
    fn num_points(&self) -> usize {
        self.table.num_points()
    }

    /// The number of points in no cell, which are dropped.
    #[getter]
    fn num_outside(&self) -> usize {
        self.table.num_outside()
    }

    /// Cells along z, rows and columns of the map.
    #[getter]
    fn shape(&self) -> (usize, usize, usize) {
        let MapShape { levels, rows, columns } = *self.table.map();
        (levels, rows, columns)
    }
}

/// Pools the features of cameras to a map seen from above: lift, splat.
///
/// depth: [N, D, H, W], after the softmax over D; features: [N, H, W, C], channels last, of the
/// type of depth: float32, float16 or bfloat16. pool: the calibration, for both. present: False for a
/// camera that is missing in this frame, whose arrays are not read.
///
/// Returns [1, levels * C, rows, columns] of their type: by cell the sums of depth times feature,
/// 0 without points. Sums are float32, in a fixed order.
#[pyfunction]
#[pyo3(signature = (depth, features, pool, *, present=None))]
#[expect(clippy::needless_pass_by_value, reason = "lists from Python are made for the call")]
pub fn bev_pool<'py>(
    depth: &Array<'py>,
    features: &Array<'py>,
    pool: &BevPool,
    present: Option<Vec<bool>>,
) -> PyResult<Array<'py>> {
    let BevPool { table, sessions } = pool;
    if let Some(gpu) = gpu_of("depth", depth)? {
        return gpu::bev_pool(gpu, [depth, features], (table, sessions), present.as_deref());
    }
    pooled(depth, features, table, present.as_deref())
}

fn pooled<'py>(
    depth: &Array<'py>,
    features: &Array<'py>,
    table: &PoolTable,
    present: Option<&[bool]>,
) -> PyResult<Array<'py>> {
    let (weights, rows) = (Input::new("depth", depth)?, Input::new("features", features)?);
    let ((element, weight_values), (other, row_values)) = (weights.floats()?, rows.floats()?);
    if element != other {
        return Err(rows.refuse(&format!("{} is required, as depth is", element.name())));
    }
    let num_channels = num_channels(rows.shape(), |why| rows.refuse(why))?;
    let shape = table.map().of_channels(num_channels);
    let made = depth.py().detach(|| {
        let mut map = Tensor::zeros(ElementType::F32, &shape)?;
        let inputs = PoolInputs {
            depth: TensorView::new(weights.shape(), TensorValues::F32(&weight_values))?,
            features: TensorView::new(rows.shape(), TensorValues::F32(&row_values))?,
            present,
        };
        pool(&inputs, table, &mut map)?;
        Ok(map)
    });
    match made.map_err(|error: det_post::Error| raised(&error))? {
        Tensor::F32 { values, .. } => Output::of_floats(values, element, &shape, depth),
        Tensor::F16 { values, .. } => Output::of(values, &shape, depth),
    }
}

/// The channels of features.
pub fn num_channels(
    shape: &[usize],
    refuse: impl Fn(&dyn std::fmt::Display) -> PyErr,
) -> PyResult<usize> {
    match *shape {
        [_, _, _, num_channels] if num_channels > 0 => Ok(num_channels),
        _ => Err(refuse(&"[N, H, W, C] is required")),
    }
}
