//! Points to voxels and features.

use det_post_ops::arrays::voxels::voxel_arrays;
use det_post_ops::cloud::pillar_features::{num_features, pillar_features as features_of};
use det_post_ops::cloud::voxelize::{VoxelizeParams, Voxels, Workspace, voxelize as group};
use det_post_ops::sparse::voxel_mean::voxel_mean as means_of;
use det_post_types::{ElementType, Grid, PointRange, Points, Tensor};
use pyo3::prelude::*;

use crate::array::{Input, Output, gpu_of};
use crate::error::raised;
use crate::gpu::{self, Wanted};

type Array<'py> = Bound<'py, PyAny>;

/// The points of an array `[N, C]`, C at least 3.
fn points_of(input: &Input) -> PyResult<Points> {
    let (num_points, num_channels) = match *input.shape() {
        [num_points, num_channels] if num_channels >= 3 => (num_points, num_channels),
        _ => return Err(input.refuse(&"[N, C] with x, y, z first is required")),
    };
    let values = input.values::<f32>()?;
    let mut points = Points::with_capacity(num_channels, num_points);
    for point in values.chunks_exact(num_channels) {
        points.push(point);
    }
    Ok(points)
}

/// A grid and its limits as arguments.
pub struct VoxelGrid {
    grid: Grid,
    max_points_per_voxel: Option<usize>,
    max_voxels: Option<usize>,
}

impl VoxelGrid {
    fn new(
        voxel_size: [f32; 3],
        point_range: [f32; 6],
        [max_points_per_voxel, max_voxels]: [Option<usize>; 2],
    ) -> PyResult<Self> {
        let grid = Grid::new(PointRange::from_bounds(point_range), voxel_size);
        let grid = grid.map_err(|error| raised(&error))?;
        Ok(Self { grid, max_points_per_voxel, max_voxels })
    }

    /// Grid and limits for up to `num_points` points, no larger than these can reach.
    pub fn params(&self, num_points: usize) -> VoxelizeParams {
        VoxelizeParams {
            grid: self.grid,
            max_points_per_voxel: self.max_points_per_voxel.unwrap_or(VoxelizeParams::ALL_POINTS),
            voxel_capacity: self.max_voxels.map_or(num_points, |limit| limit.min(num_points)),
        }
    }

    /// The voxels of points.
    fn group(&self, points: &Points) -> det_post::Result<Voxels> {
        let all = points.len().max(1);
        let params = self.params(all);
        let mut voxels = Voxels::new(&params);
        group(points, &params, &mut Workspace::new(&self.grid, all), &mut voxels)?;
        Ok(voxels)
    }
}

/// Cells (int32 [V, 3], x y z) and numbers of points (int32 [V]).
fn arrays_of<'py>(voxels: &Voxels, like: &Array<'py>) -> PyResult<(Array<'py>, Array<'py>)> {
    // An axis has at most 2^16 cells; arrays of 2^31 points are refused by their u32 indices.
    let cells = voxels.coordinates().iter().flatten().map(|&cell| cell as i32).collect();
    let numbers = voxels.num_points_per_voxel().iter().map(|&number| number as i32).collect();
    Ok((
        Output::of::<i32>(cells, &[voxels.len(), 3], like)?,
        Output::of::<i32>(numbers, &[voxels.len()], like)?,
    ))
}

/// Groups points into the voxels of a grid.
///
/// points: float32 [N, C], x, y, z first. voxel_size: x, y, z. point_range: smallest x, y, z, then
/// largest, exclusive. A voxel keeps its first max_points_per_voxel points, and the first
/// max_voxels voxels are kept; None is no limit.
///
/// Returns the voxels in the order of their first points: cells, int32 [V, 3], x, y, z; numbers of
/// points, int32 [V]; and the positions of all their points, voxel by voxel, int64 [sum].
#[pyfunction]
#[pyo3(signature = (points, voxel_size, point_range, *, max_points_per_voxel=None, max_voxels=None))]
pub fn voxelize<'py>(
    points: &Array<'py>,
    voxel_size: [f32; 3],
    point_range: [f32; 6],
    max_points_per_voxel: Option<usize>,
    max_voxels: Option<usize>,
) -> PyResult<(Array<'py>, Array<'py>, Array<'py>)> {
    let grid = VoxelGrid::new(voxel_size, point_range, [max_points_per_voxel, max_voxels])?;
    if let Some(gpu) = gpu_of("points", points)? {
        return gpu::voxels(gpu, points, &grid, Wanted::Indices).map(Into::into);
    }
    let input = Input::new("points", points)?;
    let cloud = points_of(&input)?;
    let voxels = points.py().detach(|| grid.group(&cloud)).map_err(|error| raised(&error))?;
    let mut indices: Vec<i64> = Vec::new();
    voxel_arrays(&voxels, &mut indices);
    let (cells, numbers) = arrays_of(&voxels, points)?;
    let num_points = indices.len();
    Ok((cells, numbers, Output::of(indices, &[num_points], points)?))
}

/// Voxels and the input of a pillar encoder.
///
/// points, voxel_size, point_range and limits as voxelize. center_offset_z: whether the offset
/// from the voxel's centre has z.
///
/// Returns features, float32 [V, max_points_per_voxel, F]: the channels of the point, its offset
/// from the mean of the voxel's points, its offset from the centre of the voxel, zeros past the
/// last point; cells and numbers of points as voxelize.
#[pyfunction]
#[pyo3(signature = (points, voxel_size, point_range, *, max_points_per_voxel, max_voxels=None, center_offset_z=false))]
pub fn pillar_features<'py>(
    points: &Array<'py>,
    voxel_size: [f32; 3],
    point_range: [f32; 6],
    max_points_per_voxel: usize,
    max_voxels: Option<usize>,
    center_offset_z: bool,
) -> PyResult<(Array<'py>, Array<'py>, Array<'py>)> {
    let limits = [Some(max_points_per_voxel), max_voxels];
    let grid = VoxelGrid::new(voxel_size, point_range, limits)?;
    if let Some(gpu) = gpu_of("points", points)? {
        let wanted = Wanted::Features { center_offset_z };
        let [cells, numbers, features] = gpu::voxels(gpu, points, &grid, wanted)?;
        return Ok((features, cells, numbers));
    }
    let input = Input::new("points", points)?;
    let cloud = points_of(&input)?;
    let (voxels, tensor) = points
        .py()
        .detach(|| {
            let voxels = grid.group(&cloud)?;
            let num_features = num_features(cloud.num_channels(), center_offset_z);
            let shape = [voxels.len(), max_points_per_voxel, num_features];
            let mut tensor = Tensor::zeros(ElementType::F32, &shape)?;
            features_of(&cloud, &voxels, &grid.grid, center_offset_z, &mut tensor)?;
            Ok((voxels, tensor))
        })
        .map_err(|error: det_post::Error| raised(&error))?;
    let (cells, numbers) = arrays_of(&voxels, points)?;
    Ok((array_of(tensor, points)?, cells, numbers))
}

/// Voxels and the means of their points.
///
/// points, voxel_size, point_range and limits as voxelize.
///
/// Returns features, float32 [V, C]: the mean of each channel over the points that the voxel keeps,
/// summed in their order (MeanVFE of OpenPCDet, HardSimpleVFE of mmdet3d); cells and numbers of
/// points as voxelize.
#[pyfunction]
#[pyo3(signature = (points, voxel_size, point_range, *, max_points_per_voxel=None, max_voxels=None))]
pub fn voxel_mean<'py>(
    points: &Array<'py>,
    voxel_size: [f32; 3],
    point_range: [f32; 6],
    max_points_per_voxel: Option<usize>,
    max_voxels: Option<usize>,
) -> PyResult<(Array<'py>, Array<'py>, Array<'py>)> {
    let grid = VoxelGrid::new(voxel_size, point_range, [max_points_per_voxel, max_voxels])?;
    if let Some(gpu) = gpu_of("points", points)? {
        let [cells, numbers, features] = gpu::voxels(gpu, points, &grid, Wanted::Means)?;
        return Ok((features, cells, numbers));
    }
    let input = Input::new("points", points)?;
    let cloud = points_of(&input)?;
    let (voxels, tensor) = points
        .py()
        .detach(|| {
            let voxels = grid.group(&cloud)?;
            let shape = [voxels.len(), cloud.num_channels()];
            let mut tensor = Tensor::zeros(ElementType::F32, &shape)?;
            means_of(&cloud, &voxels, &[], &mut tensor)?;
            Ok((voxels, tensor))
        })
        .map_err(|error: det_post::Error| raised(&error))?;
    let (cells, numbers) = arrays_of(&voxels, points)?;
    Ok((array_of(tensor, points)?, cells, numbers))
}

/// A tensor as an array of the kind of `like`.
fn array_of<'py>(tensor: Tensor, like: &Array<'py>) -> PyResult<Array<'py>> {
    let shape = tensor.shape().to_vec();
    match tensor {
        Tensor::F32 { values, .. } => Output::of(values, &shape, like),
        Tensor::F16 { values, .. } => Output::of(values, &shape, like),
    }
}
