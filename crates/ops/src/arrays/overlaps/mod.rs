//! Overlaps of boxes, and points in boxes, as matrices.
//!
//! Boxes are rows of numbers ([`BoxKind`]). The result of `N` first and `M` second boxes is
//! `[N, M]`, row by row, or of pairs of rows `[N]`. Arithmetic, empty boxes and rounding are as in
//! [`geometry`](crate::nms::geometry): the intersection of rotated boxes is computed in the frame of
//! the first. CPU and CUDA are equal, which NaN a result is apart.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use crate::nms::geometry::{AlignedBox, MIN_MEASURE, Rectangle, Solid, sin_cos};
use det_post_types::{Box2d, Box3d, Error, ErrorKind, Result, RotatedBox2d};

/// What rows of boxes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BoxKind {
    /// Left, top, right, bottom.
    Aligned {
        /// Added to widths and heights: 0, or 1 for corners that are whole pixels.
        offset: f32,
    },
    /// Centre x and y, width, height, and the turn of the width from +x towards +y, rad.
    Rotated,
    /// Centre x, y, z, length, width, height, yaw, rad.
    InSpace,
}

/// What is measured of two boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The area or volume of the intersection.
    Intersection,
    /// The intersection over the union.
    Iou,
    /// The intersection over the first box.
    Iof,
}

/// Which boxes are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Every first with every second box: `[N, M]`.
    All,
    /// The boxes of each row: `[N]`.
    Rows,
}

impl BoxKind {
    /// Numbers of a row.
    pub fn num_columns(self) -> usize {
        match self {
            Self::Aligned { .. } => 4,
            Self::Rotated => 5,
            Self::InSpace => 7,
        }
    }
}

/// The number of values of a result.
///
/// # Errors
/// `Argument` when values are not whole rows, or the rows of pairs are not equally many.
pub fn num_overlaps(kind: BoxKind, pairing: Pairing, lens: [usize; 2]) -> Result<usize> {
    let num_columns = kind.num_columns();
    let [first, second] = lens.map(|len| len / num_columns);
    let is_whole = lens.iter().all(|len| len.is_multiple_of(num_columns));
    match pairing {
        Pairing::All if is_whole => Ok(first.saturating_mul(second)),
        Pairing::Rows if is_whole && first == second => Ok(first),
        _ => argument(format!(
            "{} and {} numbers do not fit {pairing:?} of boxes of {num_columns} numbers",
            lens[0], lens[1]
        )),
    }
}

/// Writes all of `out`, of [`num_overlaps`].
///
/// # Errors
/// As [`num_overlaps`]; `Argument` when `out` has another length.
pub fn overlaps(
    [first, second]: [&[f32]; 2],
    kind: BoxKind,
    measure: Measure,
    pairing: Pairing,
    out: &mut [f32],
) -> Result<()> {
    let num = num_overlaps(kind, pairing, [first.len(), second.len()])?;
    if out.len() != num {
        return argument(format!("the result has {} values for {num} overlaps", out.len()));
    }
    match kind {
        BoxKind::Aligned { offset } => {
            let prepare =
                |&[x1, y1, x2, y2]: &[f32; 4]| AlignedBox::new(&Box2d { x1, y1, x2, y2 }, offset);
            let of = |a: &AlignedBox, b: &AlignedBox| match measure {
                Measure::Intersection => a.intersection(b),
                Measure::Iou => a.iou(b),
                Measure::Iof => over(a.intersection(b), a.area()),
            };
            write(first, second, pairing, prepare, of, out);
        }
        BoxKind::Rotated => {
            let prepare = |&[cx, cy, width, height, angle_rad]: &[f32; 5]| {
                Rectangle::new(&RotatedBox2d { cx, cy, width, height, angle_rad })
            };
            let of = |a: &Rectangle, b: &Rectangle| match measure {
                Measure::Intersection => a.intersection(b),
                Measure::Iou => a.iou(b),
                Measure::Iof => a.iof(b),
            };
            write(first, second, pairing, prepare, of, out);
        }
        BoxKind::InSpace => {
            let prepare = |row: &[f32; 7]| Solid::new(&box_of(row));
            let of = |a: &Solid, b: &Solid| match measure {
                Measure::Intersection => a.intersection(b),
                Measure::Iou => a.iou(b),
                Measure::Iof => over(a.intersection(b), a.volume()),
            };
            write(first, second, pairing, prepare, of, out);
        }
    }
    Ok(())
}

/// `part / whole`, 0 for a whole below [`MIN_MEASURE`] or beyond the range.
fn over(part: f32, whole: f32) -> f32 {
    if (MIN_MEASURE..f32::INFINITY).contains(&whole) { part / whole } else { 0.0 }
}

fn box_of(&[x, y, z, length_m, width_m, height_m, yaw_rad]: &[f32; 7]) -> Box3d {
    Box3d { center: [x, y, z], length_m, width_m, height_m, yaw_rad }
}

fn write<B, const K: usize>(
    first: &[f32],
    second: &[f32],
    pairing: Pairing,
    prepare: impl Fn(&[f32; K]) -> B,
    of: impl Fn(&B, &B) -> f32,
    out: &mut [f32],
) {
    let prepared: Vec<B> = second.as_chunks().0.iter().map(&prepare).collect();
    let first = first.as_chunks().0.iter().map(prepare);
    match pairing {
        Pairing::Rows => {
            for ((out, a), b) in out.iter_mut().zip(first).zip(&prepared) {
                *out = of(&a, b);
            }
        }
        Pairing::All => {
            for (out, a) in out.chunks_exact_mut(prepared.len().max(1)).zip(first) {
                for (out, b) in out.iter_mut().zip(&prepared) {
                    *out = of(&a, b);
                }
            }
        }
    }
}

/// A box, prepared for points.
struct Inside {
    center: [f32; 3],
    half_size: [f32; 3],
    sin_cos: (f32, f32),
}

impl Inside {
    fn new(row: &[f32; 7]) -> Self {
        let bbox = box_of(row);
        Self {
            center: bbox.center,
            half_size: [bbox.length_m, bbox.width_m, bbox.height_m].map(|size| size * 0.5),
            sin_cos: sin_cos(bbox.yaw_rad),
        }
    }

    /// Whether a point is strictly between the sides, and not above or below.
    fn has(&self, &[x, y, z]: &[f32; 3]) -> bool {
        let (sin, cos) = self.sin_cos;
        let [dx, dy, dz] = [x - self.center[0], y - self.center[1], z - self.center[2]];
        let [along, across] = [cos * dx + sin * dy, cos * dy - sin * dx];
        let [length, width, height] = self.half_size;
        dz.abs() <= height && along.abs() < length && across.abs() < width
    }
}

/// Writes all of `out`, `[N, M]`: 1 where a point is in a box, else 0. Points are rows of x, y, z,
/// boxes as [`BoxKind::InSpace`]. A point on a side is outside, one on the top or the bottom inside,
/// as in mmcv; a NaN is in no box.
///
/// # Errors
/// `Argument` when values are not whole rows or `out` has another length.
pub fn points_in_boxes(points: &[f32], boxes: &[f32], out: &mut [i32]) -> Result<()> {
    let num_boxes = check_points([points.len(), boxes.len()], out.len())?;
    let boxes: Vec<Inside> = boxes.as_chunks().0.iter().map(Inside::new).collect();
    for (out, point) in out.chunks_exact_mut(num_boxes.max(1)).zip(points.as_chunks().0) {
        for (out, inside) in out.iter_mut().zip(&boxes) {
            *out = i32::from(inside.has(point));
        }
    }
    Ok(())
}

/// Writes all of `out`, `[N]`: the row of the first box that a point is in, -1 for none. Otherwise
/// as [`points_in_boxes`].
///
/// # Errors
/// As [`points_in_boxes`].
pub fn first_boxes_of_points(points: &[f32], boxes: &[f32], out: &mut [i32]) -> Result<()> {
    check_first([points.len(), boxes.len()], out.len())?;
    let boxes: Vec<Inside> = boxes.as_chunks().0.iter().map(Inside::new).collect();
    for (out, point) in out.iter_mut().zip(points.as_chunks().0) {
        let first = boxes.iter().position(|inside| inside.has(point));
        *out = first.map_or(-1, |row| row as i32);
    }
    Ok(())
}

/// The boxes of a matrix of points and boxes.
fn check_points(lens @ [_, boxes]: [usize; 2], found: usize) -> Result<usize> {
    let num_points = check_rows(lens)?;
    let needed = num_points.saturating_mul(boxes / 7);
    if found != needed {
        return argument(format!("{found} values, {needed} are required"));
    }
    Ok(boxes / 7)
}

fn check_first(lens: [usize; 2], found: usize) -> Result<()> {
    let num_points = check_rows(lens)?;
    if found != num_points {
        return argument(format!("{found} values, {num_points} are required"));
    }
    Ok(())
}

/// The points.
fn check_rows([points, boxes]: [usize; 2]) -> Result<usize> {
    let fits = points.is_multiple_of(3) && boxes.is_multiple_of(7);
    if !fits || i32::try_from(boxes / 7).is_err() {
        return argument(format!(
            "{points} numbers of points and {boxes} of boxes are not rows of 3 and of 7, fewer \
             than 2^31"
        ));
    }
    Ok(points / 3)
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "overlaps", message))
}

#[cfg(test)]
mod tests;
