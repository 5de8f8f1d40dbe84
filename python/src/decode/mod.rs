//! Outputs of networks to boxes.

mod maps;
mod queries;
mod yolo;

use det_post_types::{Candidate, Candidates, Object3d, ScoreThresholds, SizeOrder, YawConvention};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub use self::maps::{decode_anchor, decode_center};
pub use self::queries::{decode_query, decode_streampetr};
pub use self::yolo::decode_yolo;
use crate::argument::one_of;
use crate::column::Column;
use crate::error::raised;

type Array<'py> = Bound<'py, PyAny>;
type Found<'py> = PyResult<Bound<'py, PyDict>>;

/// Scores from which boxes pass.
#[derive(FromPyObject)]
pub enum Scores {
    /// For all classes.
    One(f32),
    /// Per class.
    PerClass(Vec<f32>),
    /// Per class, one by distance bin.
    PerBin(Vec<Vec<f32>>),
}

/// The thresholds of so many classes.
pub(super) fn thresholds(
    scores: Scores,
    distance_upper_limits_m: Vec<f32>,
    num_classes: usize,
) -> PyResult<ScoreThresholds> {
    let num_bins = distance_upper_limits_m.len().max(1);
    let per_class = match scores {
        Scores::One(score) => vec![vec![score; num_bins]; num_classes],
        Scores::PerClass(scores) => scores.into_iter().map(|score| vec![score; num_bins]).collect(),
        Scores::PerBin(scores) => scores,
    };
    if per_class.len() != num_classes || per_class.iter().any(|bins| bins.len() != num_bins) {
        let message = format!(
            "score_threshold must have {num_classes} classes of {num_bins} distance bins each, \
             found {} classes",
            per_class.len()
        );
        return Err(PyValueError::new_err(message));
    }
    Ok(ScoreThresholds { distance_upper_limits_m, per_class })
}

/// How many of `all` candidates are kept at most.
pub fn capacity_of(max_num: Option<usize>, all: usize) -> PyResult<usize> {
    match max_num {
        Some(0) => Err(PyValueError::new_err("max_num is 0; at least 1 is required")),
        _ => Ok(max_num.unwrap_or(usize::MAX).min(all)),
    }
}

pub(super) fn yaw_of(name: &str) -> PyResult<YawConvention> {
    let yaws = [
        ("counter_clockwise", YawConvention::CounterClockwise),
        ("clockwise_from_minus_y", YawConvention::ClockwiseFromMinusY),
    ];
    one_of("yaw", name, &yaws)
}

pub(super) fn size_order_of(name: &str) -> PyResult<SizeOrder> {
    let orders = [
        ("length_width_height", SizeOrder::LengthWidthHeight),
        ("width_length_height", SizeOrder::WidthLengthHeight),
    ];
    one_of("size_order", name, &orders)
}

/// Runs a decoder without the interpreter's lock. The candidates, best first.
pub(super) fn decoded<B: Copy + Send>(
    py: Python<'_>,
    capacity: usize,
    decode: impl FnOnce(&mut Candidates<B>) -> det_post::Result<()> + Send,
) -> PyResult<Candidates<B>> {
    py.detach(|| {
        let mut candidates = Candidates::with_capacity(capacity);
        decode(&mut candidates)?;
        candidates.finish(usize::MAX);
        Ok(candidates)
    })
    .map_err(|error| raised(&error))
}

/// Columns of candidates: boxes, scores, classes and rows. `array_of` makes an array of values
/// and a shape.
fn columns_by<'py, B: Copy, const K: usize>(
    py: Python<'py>,
    candidates: &[Candidate<B>],
    numbers: impl Fn(B) -> [f32; K],
    array_of: impl Fn(Column, &[usize]) -> PyResult<Array<'py>>,
) -> Found<'py> {
    let num = candidates.len();
    let boxes = candidates.iter().flat_map(|found| numbers(found.bbox)).collect();
    let scores = candidates.iter().map(|found| found.score).collect();
    let classes = candidates.iter().map(|found| i64::from(found.class)).collect();
    let rows = candidates.iter().map(|found| i64::from(found.source)).collect();
    let found = PyDict::new(py);
    found.set_item("boxes", array_of(Column::F32(boxes), &[num, K])?)?;
    found.set_item("scores", array_of(Column::F32(scores), &[num])?)?;
    found.set_item("classes", array_of(Column::I64(classes), &[num])?)?;
    found.set_item("rows", array_of(Column::I64(rows), &[num])?)?;
    Ok(found)
}

/// Columns of candidates in host memory, of the library of `like`.
pub(super) fn columns<'py, B: Copy, const K: usize>(
    candidates: &[Candidate<B>],
    numbers: impl Fn(B) -> [f32; K],
    like: &Array<'py>,
) -> Found<'py> {
    columns_by(like.py(), candidates, numbers, |column, shape| column.on_host(shape, like))
}

/// Columns of boxes in space in host memory, of the library of `like`, as [`space_columns_by`].
pub(super) fn space_columns<'py>(
    candidates: &Candidates<Object3d>,
    has: [bool; 2],
    like: &Array<'py>,
) -> Found<'py> {
    space_columns_by(like.py(), candidates, has, |column, shape| column.on_host(shape, like))
}

/// Columns of boxes in space, with velocities and variances where a head gives them.
pub fn space_columns_by<'py>(
    py: Python<'py>,
    candidates: &Candidates<Object3d>,
    [has_velocity, has_variance]: [bool; 2],
    array_of: impl Fn(Column, &[usize]) -> PyResult<Array<'py>>,
) -> Found<'py> {
    let candidates = candidates.as_slice();
    let numbers = |object: Object3d| {
        let b = object.bbox;
        let [x, y, z] = b.center;
        [x, y, z, b.length_m, b.width_m, b.height_m, b.yaw_rad]
    };
    let found = columns_by(py, candidates, numbers, &array_of)?;
    let num = candidates.len();
    if has_velocity {
        let of = |found: &Candidate<Object3d>| found.bbox.velocity_mps.unwrap_or_default();
        let velocities = candidates.iter().flat_map(of).collect();
        found.set_item("velocities", array_of(Column::F32(velocities), &[num, 2])?)?;
    }
    if has_variance {
        let of = |found: &Candidate<Object3d>| {
            let v = found.bbox.variance.unwrap_or_default();
            let ([x, y, z], [l, w, h], [vx, vy]) = (v.center, v.size, v.velocity);
            [x, y, z, l, w, h, v.yaw, vx, vy]
        };
        let variances = candidates.iter().flat_map(of).collect();
        found.set_item("variances", array_of(Column::F32(variances), &[num, 9])?)?;
    }
    Ok(found)
}
