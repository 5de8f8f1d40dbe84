//! Overlaps of boxes, and points in boxes.

use det_post_ops::arrays::overlaps::{
    BoxKind, Measure, Pairing, first_boxes_of_points, num_overlaps, overlaps,
    points_in_boxes as write_points,
};
use pyo3::prelude::*;

use crate::argument::one_of;
use crate::array::{Input, Output, gpu_of};
use crate::error::raised;
use crate::gpu;

type Array<'py> = Bound<'py, PyAny>;

/// The overlaps of boxes.
///
/// first, second: float32 [N, 4] and [M, 4], left, top, right, bottom; or [N, 5], centre x and y,
/// width, height, and the turn of the width from +x towards +y; or [N, 7], centre x, y, z, length,
/// width, height, yaw. measure: iou, iof (over the first box) or intersection (area or volume).
/// aligned: the boxes of each row, N is M. offset: 0, or 1 for corners that are whole pixels.
///
/// Returns float32 [N, M], or, with aligned, [N]. A box without extent overlaps nothing.
#[pyfunction]
#[pyo3(signature = (first, second, *, measure="iou", aligned=false, offset=0))]
pub fn box_overlaps<'py>(
    first: &Array<'py>,
    second: &Array<'py>,
    measure: &str,
    aligned: bool,
    offset: u8,
) -> PyResult<Array<'py>> {
    let measures =
        [("iou", Measure::Iou), ("iof", Measure::Iof), ("intersection", Measure::Intersection)];
    let measure = one_of("measure", measure, &measures)?;
    let pairing = if aligned { Pairing::Rows } else { Pairing::All };
    if let Some(gpu) = gpu_of("first", first)? {
        return gpu::box_overlaps(gpu, [first, second], offset, measure, pairing);
    }
    let [a, b] = [Input::new("first", first)?, Input::new("second", second)?];
    let (kind, [num_first, num_second]) =
        kind_of([a.shape(), b.shape()], offset, |why| a.refuse(why), |why| b.refuse(why))?;
    let rows = [a.values::<f32>()?, b.values::<f32>()?];
    let out = first.py().detach(|| {
        let mut out = vec![0.0; num_overlaps(kind, pairing, rows.map(<[f32]>::len))?];
        overlaps(rows, kind, measure, pairing, &mut out).map(|()| out)
    });
    let out = out.map_err(|error: det_post::Error| raised(&error))?;
    Output::of(out, &shape_of(pairing, [num_first, num_second]), first)
}

/// Which points are in which boxes.
///
/// points: float32 [N, 3]; boxes: float32 [M, 7], centre x, y, z, length, width, height, yaw. A
/// point on a side is outside, one on the top or the bottom inside, as in mmcv.
///
/// Returns int32 [N, M], 1 in a box, else 0; with first int32 [N], the row of the first box, -1 for
/// none.
#[pyfunction]
#[pyo3(signature = (points, boxes, *, first=false))]
pub fn points_in_boxes<'py>(
    points: &Array<'py>,
    boxes: &Array<'py>,
    first: bool,
) -> PyResult<Array<'py>> {
    if let Some(gpu) = gpu_of("points", points)? {
        return gpu::points_in_boxes(gpu, [points, boxes], first);
    }
    let [rows, of] = [Input::new("points", points)?, Input::new("boxes", boxes)?];
    let (rows, of) = (rows.rows::<f32, 3>()?, of.rows::<f32, 7>()?);
    let shape = [rows.len(), of.len()];
    let shape = if first { &shape[..1] } else { &shape[..] };
    let out = points.py().detach(|| {
        let mut out = vec![0; shape.iter().product()];
        let write = if first { first_boxes_of_points } else { write_points };
        write(rows.as_flattened(), of.as_flattened(), &mut out).map(|()| out)
    });
    Output::of(out.map_err(|error| raised(&error))?, shape, points)
}

/// The kind of two arrays of boxes, and their rows.
pub fn kind_of(
    [first, second]: [&[usize]; 2],
    offset: u8,
    refuse_first: impl Fn(&dyn std::fmt::Display) -> PyErr,
    refuse_second: impl Fn(&dyn std::fmt::Display) -> PyErr,
) -> PyResult<(BoxKind, [usize; 2])> {
    let (kind, num_first) = match *first {
        [num, 4] => (BoxKind::Aligned { offset: offset.into() }, num),
        [num, 5] => (BoxKind::Rotated, num),
        [num, 7] => (BoxKind::InSpace, num),
        _ => return Err(refuse_first(&"[N, 4], [N, 5] or [N, 7] is required")),
    };
    let num_columns = kind.num_columns();
    if offset > 1 || (offset == 1 && num_columns != 4) {
        return Err(refuse_first(&format!(
            "offset is {offset}: 0 is required, or 1 of boxes [N, 4]"
        )));
    }
    match *second {
        [num_second, found] if found == num_columns => Ok((kind, [num_first, num_second])),
        _ => Err(refuse_second(&format!("[M, {num_columns}] is required"))),
    }
}

/// The shape of a result.
pub fn shape_of(pairing: Pairing, [first, second]: [usize; 2]) -> Vec<usize> {
    match pairing {
        Pairing::All => vec![first, second],
        Pairing::Rows => vec![first],
    }
}
