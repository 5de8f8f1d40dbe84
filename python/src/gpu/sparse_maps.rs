//! Sparse max pooling, and dense maps of features.

use std::sync::{Arc, Mutex, PoisonError};

use det_post_ops::arrays::sparse::cuda::Workspace;
use det_post_ops::device::cuda::{DeviceTensor, DeviceValues, Out, Stream};
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::conv::cuda::DeviceFeatures;
use det_post_ops::sparse::max_pool::cuda::Workspace as Pool;
use det_post_ops::sparse::to_map::cuda::Workspace as Maps;
use det_post_ops::sparse::to_map::map_shape;
use half::f16;
use pyo3::prelude::*;

use super::sparse::{DeviceLevel, DeviceRulebook};
use super::{finished, is_of, narrowed};
use crate::array::{FloatType, GpuFloats, GpuInput};
use crate::error::raised;
use crate::library::empty_like;
use crate::sparse::channels;

type Array<'py> = Bound<'py, PyAny>;

/// The kernels for the levels of a GPU, on their stream.
struct Kernels {
    stream: Stream,
    pool: Pool,
    maps: Maps,
}

static KERNELS: Mutex<Vec<Arc<Kernels>>> = Mutex::new(Vec::new());

fn kernels_of(levels: &Workspace) -> det_post::Result<Arc<Kernels>> {
    let stream = levels.stream();
    let mut all = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let gpu = u32::try_from(stream.device().ordinal()).unwrap_or(u32::MAX);
    if let Some(found) = all.iter().find(|kernels| is_of(&kernels.stream, gpu)) {
        return Ok(Arc::clone(found));
    }
    let (pool, maps) = (Pool::new(stream)?, Maps::new(stream)?);
    let made = Arc::new(Kernels { stream: stream.clone(), pool, maps });
    all.push(Arc::clone(&made));
    Ok(made)
}

/// The order of rows of features.
#[derive(Clone, Copy)]
pub enum RowOrder {
    /// The order of the sites.
    Sites,
    /// The order of the coordinates that the sites were made from.
    Coordinates {
        /// Their rows.
        num_rows: usize,
    },
}

impl RowOrder {
    /// Rows of the features of so many sites.
    pub fn num_rows(self, num_sites: usize) -> usize {
        match self {
            Self::Sites => num_sites,
            Self::Coordinates { num_rows } => num_rows,
        }
    }
}

/// Memory for rows as the kernels read and write them.
fn num_bytes(num_rows: usize, num_channels: usize) -> usize {
    DeviceFeatures::num_bytes_for(num_rows, num_channels, Precision::F32)
}

/// The pooled features of the sites of a level.
pub fn pooled<'py>(
    features: &Array<'py>,
    pairs: &DeviceRulebook,
    level: &DeviceLevel,
) -> PyResult<Array<'py>> {
    let (py, levels) = (features.py(), level.workspace());
    let stream = levels.stream();
    let kernels = py.detach(|| kernels_of(levels)).map_err(|error| raised(&error))?;
    let GpuFloats { array: input, of } = GpuFloats::new("features", features, stream)?;
    let num_rows = pairs.num_input_rows();
    let num_channels = channels(input.shape(), num_rows, |why| input.refuse(why))?;
    let out = empty_like(features, &[level.len(), num_channels], "float32")?;
    let mut result = GpuInput::new("result", &out, stream)?;
    let sizes = [num_rows, level.len()].map(|num| num_bytes(num, num_channels));
    let carved = sizes.map(Out::<u8>::num_carved_bytes).iter().sum::<usize>();
    let memory = empty_like(features, &[carved], "uint8")?;
    let mut memory = GpuInput::new("memory", &memory, stream)?;
    finished(py, stream, |scope| {
        let values = input.slice::<f32, f32>(scope)?;
        let mut memory = memory.buffer::<u8, u8>(scope)?;
        let result = result.output::<f32, f32>(scope)?;
        if level.len() == 0 {
            return Ok(());
        }
        let mut rows = |size| DeviceFeatures::in_memory(memory.carve(size)?, Precision::F32);
        let queued = rows(sizes[0]).and_then(|mut from| {
            let mut to = rows(sizes[1])?;
            levels.enqueue_features((values, num_channels), None, num_rows, &mut from)?;
            let of = (pairs.table(), level.sites());
            kernels.pool.enqueue(&from, num_channels, of, &mut to)?;
            levels.enqueue_values(&to, num_channels, result)
        });
        queued.map_err(|error| raised(&error))
    })?;
    narrowed(out, of, stream)
}

/// The map of the features of a level.
pub fn dense_map<'py>(
    features: &Array<'py>,
    level: &DeviceLevel,
    axes: [usize; 3],
    order: RowOrder,
) -> PyResult<Array<'py>> {
    let (py, levels) = (features.py(), level.workspace());
    let stream = levels.stream();
    let kernels = py.detach(|| kernels_of(levels)).map_err(|error| raised(&error))?;
    let GpuFloats { array: input, of } = GpuFloats::new("features", features, stream)?;
    let num_rows = order.num_rows(level.len());
    let num_channels = channels(input.shape(), num_rows, |why| input.refuse(why))?;
    let shape = map_shape(level.grid(), axes, num_channels).map_err(|error| raised(&error))?;
    let element = if of == FloatType::F16 { FloatType::F16 } else { FloatType::F32 };
    let out = empty_like(features, &shape, element.name())?;
    let mut result = GpuInput::new("result", &out, stream)?;
    let size = num_bytes(level.len(), num_channels);
    let memory = empty_like(features, &[Out::<u8>::num_carved_bytes(size)], "uint8")?;
    let mut memory = GpuInput::new("memory", &memory, stream)?;
    finished(py, stream, |scope| {
        let values = input.slice::<f32, f32>(scope)?;
        let mut memory = memory.buffer::<u8, u8>(scope)?;
        let map = match element {
            FloatType::F16 => DeviceValues::F16(result.buffer::<f16, f16>(scope)?),
            _ => DeviceValues::F32(result.buffer::<f32, f32>(scope)?),
        };
        let queued = DeviceTensor::of(&shape, map).and_then(|mut map| {
            let mut rows = DeviceFeatures::in_memory(memory.carve(size)?, Precision::F32)?;
            let by = match order {
                RowOrder::Sites => None,
                RowOrder::Coordinates { .. } => Some(level.sites()),
            };
            levels.enqueue_features((values, num_channels), by, level.len(), &mut rows)?;
            kernels.maps.enqueue(&rows, level.sites(), axes, num_channels, &mut map)
        });
        queued.map_err(|error| raised(&error))
    })?;
    if of == element { Ok(out) } else { narrowed(out, of, stream) }
}
