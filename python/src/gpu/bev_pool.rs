//! Pooling of the features of cameras to a map seen from above.

use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, DeviceValues, Stream};
use det_post_ops::view::bev_pool::PoolTable;
use det_post_ops::view::bev_pool::cuda::Workspace;
use half::{bf16, f16};
use pyo3::prelude::*;

use super::{Sessions, finished, is_of, narrowed};
use crate::array::{FloatType, GpuFloats, GpuInput};
use crate::bev_pool::num_channels;
use crate::error::raised;
use crate::library::empty_like;

type Array<'py> = Bound<'py, PyAny>;

/// An array of float32 or float16 as it is, of bfloat16 as float32, and its type.
fn input(
    name: &'static str,
    array: &Array<'_>,
    stream: &Stream,
) -> PyResult<(GpuInput, FloatType)> {
    let given = GpuInput::new(name, array, stream)?;
    if given.is::<f16>() {
        Ok((given, FloatType::F16))
    } else if given.is::<bf16>() {
        let GpuFloats { array, of } = GpuFloats::new(name, array, stream)?;
        Ok((array, of))
    } else {
        Ok((given, FloatType::F32))
    }
}

/// The map of depths and features on a GPU. Sessions are for the table.
pub fn bev_pool<'py>(
    gpu: u32,
    [depth, features]: [&Array<'py>; 2],
    (table, sessions): (&PoolTable, &Sessions<Workspace>),
    present: Option<&[bool]>,
) -> PyResult<Array<'py>> {
    let py = depth.py();
    let mut session = match sessions.take(|session| is_of(session.stream(), gpu)) {
        Some(session) => session,
        None => py
            .detach(|| Workspace::new(&CudaDevice::open(gpu)?.stream()?, table, 1))
            .map_err(|error| raised(&error))?,
    };
    let stream = session.stream().clone();
    let (weights, element) = input("depth", depth, &stream)?;
    let (rows, other) = input("features", features, &stream)?;
    if element != other {
        return Err(rows.refuse(&format!("{} is required, as depth is", element.name())));
    }
    let num_channels = num_channels(rows.shape(), |why| rows.refuse(why))?;
    session.reserve(num_channels).map_err(|error| raised(&error))?;
    let shape = table.map().of_channels(num_channels);
    let is_f16 = element == FloatType::F16;
    let out = empty_like(depth, &shape, if is_f16 { "float16" } else { "float32" })?;
    let mut result = GpuInput::new("result", &out, &stream)?;
    let all = vec![true; table.frustum().num_cameras];
    finished(py, &stream, |scope| {
        let (weights, rows) = (weights.tensor(scope)?, rows.tensor(scope)?);
        let map = if is_f16 {
            DeviceValues::F16(result.buffer::<f16, f16>(scope)?)
        } else {
            DeviceValues::F32(result.buffer::<f32, f32>(scope)?)
        };
        let queued = DeviceTensor::of(&shape, map).and_then(|mut map| {
            session.enqueue_present(present.unwrap_or(&all))?;
            session.enqueue(&weights, &rows, &mut map)
        });
        queued.map_err(|error| raised(&error))
    })?;
    sessions.put(session);
    if element == FloatType::Bf16 { narrowed(out, element, &stream) } else { Ok(out) }
}
