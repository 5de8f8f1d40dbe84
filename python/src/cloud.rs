//! Points to voxels and features.

use det_post::ops::pillar_features::{num_features, pillar_features as features_of};
use det_post::ops::voxelize::{VoxelizeParams, Voxels, Workspace, voxelize as group};
use det_post::types::{ElementType, Grid, PointRange, Points, Tensor};
use pyo3::prelude::*;

use crate::array::{Input, Output};
use crate::error::raised;

type Array<'py> = Bound<'py, PyAny>;

/// The points of an array `[N, C]`, C at least 3.
fn points_of(input: &Input) -> PyResult<Points> {
    let (num_points, num_channels) = match *input.shape() {
        [num_points, num_channels] if num_channels >= 3 => (num_points, num_channels),
        _ => return Err(input.refuse(&"[N, C] with x, y, z first is needed")),
    };
    let values = input.values::<f32>()?;
    let mut points = Points::with_capacity(num_channels, num_points);
    for point in values.chunks_exact(num_channels) {
        points.push(point);
    }
    Ok(points)
}

/// Voxels of points, with limits no larger than the points can reach.
fn voxels_of(
    points: &Points,
    grid: Grid,
    max_points_per_voxel: Option<usize>,
    max_voxels: Option<usize>,
) -> det_post::Result<Voxels> {
    let all = points.len().max(1);
    let params = VoxelizeParams {
        grid,
        max_points_per_voxel: max_points_per_voxel.unwrap_or(VoxelizeParams::ALL_POINTS),
        voxel_capacity: max_voxels.map_or(all, |max_voxels| max_voxels.min(all)),
    };
    let mut voxels = Voxels::new(&params);
    group(points, &params, &mut Workspace::new(&grid, all), &mut voxels)?;
    Ok(voxels)
}

fn grid_of(voxel_size: [f32; 3], point_range: [f32; 6]) -> PyResult<Grid> {
    Grid::new(PointRange::from_bounds(point_range), voxel_size).map_err(|error| raised(&error))
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
    let grid = grid_of(voxel_size, point_range)?;
    let input = Input::new("points", points)?;
    let cloud = points_of(&input)?;
    let voxels = points
        .py()
        .detach(|| voxels_of(&cloud, grid, max_points_per_voxel, max_voxels))
        .map_err(|error| raised(&error))?;
    let indices: Vec<i64> = (0..voxels.len())
        .flat_map(|voxel| voxels.points_of(voxel))
        .map(|&index| i64::from(index))
        .collect();
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
    let grid = grid_of(voxel_size, point_range)?;
    let input = Input::new("points", points)?;
    let cloud = points_of(&input)?;
    let (voxels, tensor) = points
        .py()
        .detach(|| {
            let voxels = voxels_of(&cloud, grid, Some(max_points_per_voxel), max_voxels)?;
            let num_features = num_features(cloud.num_channels(), center_offset_z);
            let shape = [voxels.len(), max_points_per_voxel, num_features];
            let mut tensor = Tensor::zeros(ElementType::F32, &shape)?;
            features_of(&cloud, &voxels, &grid, center_offset_z, &mut tensor)?;
            Ok((voxels, tensor))
        })
        .map_err(|error: det_post::Error| raised(&error))?;
    let (cells, numbers) = arrays_of(&voxels, points)?;
    let shape = tensor.shape().to_vec();
    let features = match tensor {
        Tensor::F32 { values, .. } => Output::of(values, &shape, points)?,
        Tensor::F16 { values, .. } => Output::of(values, &shape, points)?,
    };
    Ok((features, cells, numbers))
}
