//! Points to voxels and features.

use det_post_ops::arrays::voxels::cuda::{PointGrouping, PointIndices, VoxelColumns};
use det_post_ops::cloud::pillar_features::cuda::Kernels;
use det_post_ops::cloud::pillar_features::num_features;
use det_post_ops::cloud::voxelize::VoxelizeParams;
use det_post_ops::cloud::voxelize::cuda::MAX_POINTS;
use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, DeviceValues, Out, Stream};
use det_post_ops::sparse::voxel_mean::cuda::Workspace as Means;
use pyo3::prelude::*;

use super::{Sessions, is_of, rounded_up};
use crate::array::{GpuInput, GpuScope};
use crate::cloud::VoxelGrid;
use crate::error::raised;
use crate::library::empty_like;

type Array<'py> = Bound<'py, PyAny>;

/// Kernels and memory for a grid, limits and a number of points.
struct PointSession {
    stream: Stream,
    grouping: PointGrouping,
    features: Kernels,
    means: Means,
}

static POINTS: Sessions<PointSession> = Sessions::new();

impl PointSession {
    fn new(gpu: u32, params: &VoxelizeParams, point_capacity: usize) -> det_post::Result<Self> {
        let stream = CudaDevice::open(gpu)?.stream()?;
        Ok(Self {
            grouping: PointGrouping::new(&stream, params, point_capacity)?,
            features: Kernels::load(stream.device())?,
            means: Means::new(&stream, &[])?,
            stream,
        })
    }
}

/// What a call returns beside the cells and the numbers of points.
#[derive(Clone, Copy)]
pub enum Wanted {
    /// The positions of the points of all voxels.
    Indices,
    /// Rows of a pillar encoder.
    Features {
        /// Whether the offset from the voxel's centre has z.
        center_offset_z: bool,
    },
    /// Means of the channels of the points.
    Means,
}

/// The voxels of points on a GPU: cells, numbers of points, and what is wanted.
pub fn voxels<'py>(
    gpu: u32,
    points: &Array<'py>,
    grid: &VoxelGrid,
    wanted: Wanted,
) -> PyResult<[Array<'py>; 3]> {
    let py = points.py();
    let num_points = points.len()?;
    let capacity = rounded_up(num_points).min(MAX_POINTS.max(num_points));
    let params = grid.params(capacity);
    let fits = |session: &PointSession| {
        let of = &session.grouping;
        is_of(&session.stream, gpu) && *of.params() == params && of.point_capacity() == capacity
    };
    let mut session = match POINTS.take(fits) {
        Some(session) => session,
        None => py
            .detach(|| PointSession::new(gpu, &params, capacity))
            .map_err(|error| raised(&error))?,
    };
    let stream = session.stream.clone();
    let input = GpuInput::new("points", points, &stream)?;
    let num_channels = match *input.shape() {
        [_, num_channels] if num_channels >= 3 => num_channels,
        _ => return Err(input.refuse(&"[N, C] with x, y, z first is required")),
    };
    let [num_voxels, num_indices] = GpuScope::run(&stream, |scope| {
        let values = input.slice::<f32, f32>(scope)?;
        let grouped = py.detach(|| session.grouping.group(values, num_channels));
        grouped.map(|(_, sizes)| sizes).map_err(|error| raised(&error))
    })?;
    let cells = empty_like(points, &[num_voxels, 3], "int32")?;
    let numbers = empty_like(points, &[num_voxels], "int32")?;
    let (shape, dtype) = match wanted {
        Wanted::Indices => (vec![num_indices], "int64"),
        Wanted::Features { center_offset_z } => {
            let num_features = num_features(num_channels, center_offset_z);
            (vec![num_voxels, params.max_points_per_voxel, num_features], "float32")
        }
        Wanted::Means => (vec![num_voxels, num_channels], "float32"),
    };
    let last = empty_like(points, &shape, dtype)?;
    let mut outputs = (
        GpuInput::new("cells", &cells, &stream)?,
        GpuInput::new("numbers", &numbers, &stream)?,
        GpuInput::new("result", &last, &stream)?,
    );
    GpuScope::run(&stream, |scope| {
        let columns = |point_indices, cells, num_points| VoxelColumns {
            cells,
            num_points,
            point_indices: PointIndices::I64(point_indices),
        };
        let cells = outputs.0.output::<i32, u32>(scope)?;
        let numbers = outputs.1.output::<i32, u32>(scope)?;
        let PointSession { grouping, features, means, .. } = &session;
        match wanted {
            Wanted::Indices => {
                let indices = outputs.2.output::<i64, u64>(scope)?;
                grouping.enqueue(columns(indices, cells, numbers))
            }
            Wanted::Features { center_offset_z } => {
                let values = input.slice::<f32, f32>(scope)?;
                let rows = DeviceValues::F32(outputs.2.buffer::<f32, f32>(scope)?);
                let none = Out::empty();
                DeviceTensor::of(&shape, rows).and_then(|mut rows| {
                    grouping.enqueue(columns(none, cells, numbers))?;
                    let points = (values, num_channels);
                    grouping.enqueue_features(features, points, center_offset_z, &mut rows)
                })
            }
            Wanted::Means => {
                let values = input.slice::<f32, f32>(scope)?;
                let rows = outputs.2.output::<f32, f32>(scope)?;
                grouping
                    .enqueue(columns(Out::empty(), cells, numbers))
                    .and_then(|()| grouping.enqueue_means(means, (values, num_channels), rows))
            }
        }
        .map_err(|error| raised(&error))?;
        py.detach(|| stream.synchronize()).map_err(|error| raised(&error))
    })?;
    POINTS.put(session);
    Ok([cells, numbers, last])
}
