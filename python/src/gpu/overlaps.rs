//! Overlaps of boxes, and points in boxes.

use det_post_ops::arrays::overlaps::cuda::Workspace;
use det_post_ops::arrays::overlaps::{Measure, Pairing, num_overlaps};
use det_post_ops::device::cuda::CudaDevice;
use pyo3::prelude::*;

use super::{Sessions, finished, is_of};
use crate::array::GpuInput;
use crate::error::raised;
use crate::library::empty_like;
use crate::overlaps::{kind_of, shape_of};

type Array<'py> = Bound<'py, PyAny>;

static OVERLAPS: Sessions<Workspace> = Sessions::new();

fn session(py: Python<'_>, gpu: u32) -> PyResult<Workspace> {
    match OVERLAPS.take(|session| is_of(session.stream(), gpu)) {
        Some(session) => Ok(session),
        None => py
            .detach(|| Workspace::new(&CudaDevice::open(gpu)?.stream()?))
            .map_err(|error| raised(&error)),
    }
}

/// The overlaps of boxes on a GPU.
pub fn box_overlaps<'py>(
    gpu: u32,
    [first, second]: [&Array<'py>; 2],
    offset: u8,
    measure: Measure,
    pairing: Pairing,
) -> PyResult<Array<'py>> {
    let py = first.py();
    let session = session(py, gpu)?;
    let stream = session.stream();
    let (a, b) = (GpuInput::new("first", first, stream)?, GpuInput::new("second", second, stream)?);
    let (kind, rows) =
        kind_of([a.shape(), b.shape()], offset, |why| a.refuse(why), |why| b.refuse(why))?;
    num_overlaps(kind, pairing, rows.map(|num| num * kind.num_columns()))
        .map_err(|error| raised(&error))?;
    let out = empty_like(first, &shape_of(pairing, rows), "float32")?;
    let mut result = GpuInput::new("result", &out, stream)?;
    finished(py, stream, |scope| {
        let boxes = [a.slice::<f32, f32>(scope)?, b.slice::<f32, f32>(scope)?];
        let result = result.output::<f32, f32>(scope)?;
        let queued = session.enqueue(boxes, kind, measure, pairing, result);
        queued.map_err(|error| raised(&error))
    })?;
    OVERLAPS.put(session);
    Ok(out)
}

/// Which points are in which boxes, on a GPU.
pub fn points_in_boxes<'py>(
    gpu: u32,
    [points, boxes]: [&Array<'py>; 2],
    first: bool,
) -> PyResult<Array<'py>> {
    let py = points.py();
    let session = session(py, gpu)?;
    let stream = session.stream();
    let (a, b) = (GpuInput::new("points", points, stream)?, GpuInput::new("boxes", boxes, stream)?);
    let shape = match (a.shape(), b.shape()) {
        (&[num_points, 3], &[num_boxes, 7]) => [num_points, num_boxes],
        (&[_, 3], _) => return Err(b.refuse(&"[N, 7] is required")),
        _ => return Err(a.refuse(&"[N, 3] is required")),
    };
    let shape = if first { &shape[..1] } else { &shape[..] };
    let out = empty_like(points, shape, "int32")?;
    let mut result = GpuInput::new("result", &out, stream)?;
    finished(py, stream, |scope| {
        let arrays = [a.slice::<f32, f32>(scope)?, b.slice::<f32, f32>(scope)?];
        let result = result.output::<i32, i32>(scope)?;
        let queued = if first {
            session.enqueue_first(arrays, result)
        } else {
            session.enqueue_points(arrays, result)
        };
        queued.map_err(|error| raised(&error))
    })?;
    OVERLAPS.put(session);
    Ok(out)
}
