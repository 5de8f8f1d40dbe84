//! Keypoints of detections: the numbers of their rows of a network's output, in source pixels.
//!
//! Nothing of a keypoint travels through selection and suppression: a detection has the row of the
//! network's output that it comes from ([`Candidate::source`](det_post_types::Candidate)), and this
//! operation reads that row after the boxes are gathered.
//!
//! # Numbers
//! f16 is widened exactly. `x * scale + offset` of the transform to source pixels, one product and
//! one sum, then clipped to 0 and the width of the image; y likewise. The score passes unchanged, and is 1
//! where a keypoint has two numbers. A keypoint of which a number is not finite, and one of a
//! row that the output does not have, is (0, 0) with the score 0; the former are counted.
//!
//! # Order
//! Keypoints of a detection are consecutive, detections in the order of `sources`.
//!
//! Equal on both devices. Formulas: the pose heads of ultralytics (YOLOv8-pose, YOLO26-pose) and the newest
//! mapping of its results. Older releases set keypoints with a score below 0.5 to (0, 0).

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use half::f16;

use det_post_types::{
    Affine2, Error, ErrorKind, Keypoint, KeypointRows, Result, Size, TensorValues, TensorView,
};

/// From the network's input to the image that keypoints are in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeypointMapping {
    /// Network pixels to source pixels.
    pub source_from_network: Affine2,
    /// Size of the source image.
    pub source: Size,
}

/// Replaces the contents of `keypoints` by the keypoints of the rows `sources` of `output`:
/// `sources.len() * num_keypoints` of them. Nothing is allocated if `keypoints` has the capacity.
/// Returns of how many a number is not finite.
///
/// # Errors
/// `Argument` when the output is not of the shape that `rows` says, is not f32 or f16, or a keypoint has not two or
/// three numbers.
pub fn keypoints(
    output: &TensorView<'_>,
    rows: &KeypointRows,
    sources: &[u32],
    mapping: &KeypointMapping,
    keypoints: &mut Vec<Keypoint>,
) -> Result<usize> {
    keypoints.clear();
    let num_rows = num_rows(output.shape(), rows)?;
    let places = Places { rows, num_rows };
    match output.values() {
        TensorValues::F32(values) => {
            let at = |place: usize| values.get(place).copied();
            keypoints.extend(places.keypoints(sources, mapping, at));
        }
        TensorValues::F16(values) => {
            let at = |place: usize| values.get(place).copied().map(f16::to_f32);
            keypoints.extend(places.keypoints(sources, mapping, at));
        }
        other => {
            let element = other.element();
            return Err(argument(format!("keypoints of {element}; f32 or f16 expected")));
        }
    }
    Ok(settle(keypoints))
}

/// Replaces keypoints whose score is NaN, as the kernel and [`mapped`] leave them where a number is not
/// finite, by zeros. Returns their number.
fn settle(keypoints: &mut [Keypoint]) -> usize {
    let invalid = keypoints.iter_mut().filter(|keypoint| keypoint.score.is_nan());
    invalid.map(|keypoint| *keypoint = Keypoint::default()).count()
}

/// The rows of an output of a shape.
fn num_rows(shape: &[usize], rows: &KeypointRows) -> Result<usize> {
    let num_columns = rows.num_columns();
    if rows.num_keypoints == 0 || !matches!(rows.num_values, 2 | 3) {
        return Err(argument(format!(
            "{} keypoints of {} numbers; at least one of 2 or 3 expected",
            rows.num_keypoints, rows.num_values
        )));
    }
    match (shape, rows.is_planes) {
        (&[1, found, num_rows], true) | (&[1, num_rows, found], false) if found == num_columns => {
            Ok(num_rows)
        }
        (_, true) => Err(argument(format!("output {shape:?}; [1, {num_columns}, N] expected"))),
        (_, false) => Err(argument(format!("output {shape:?}; [1, N, {num_columns}] expected"))),
    }
}

/// Where the numbers of keypoints are in an output.
struct Places<'a> {
    rows: &'a KeypointRows,
    num_rows: usize,
}

impl Places<'_> {
    fn keypoints(
        &self,
        sources: &[u32],
        mapping: &KeypointMapping,
        at: impl Fn(usize) -> Option<f32>,
    ) -> impl Iterator<Item = Keypoint> {
        let rows = self.rows;
        let num = rows.num_keypoints;
        let of_keypoint = move |source: u32, keypoint: usize| {
            let number = |number: usize| {
                let column = rows.first + keypoint * rows.num_values + number;
                at(self.place(source as usize, column)?)
            };
            let score = if rows.num_values == 3 { number(2)? } else { 1.0 };
            Some(mapped(number(0)?, number(1)?, score, mapping))
        };
        (0..sources.len() * num)
            .map(move |index| of_keypoint(sources[index / num], index % num).unwrap_or_default())
    }

    /// The place of a number; `None` of a row that there is not.
    fn place(&self, row: usize, column: usize) -> Option<usize> {
        let place = match self.rows.is_planes {
            true => column * self.num_rows + row,
            false => row * self.rows.num_columns() + column,
        };
        (row < self.num_rows).then_some(place)
    }
}

/// A keypoint in source pixels; its score is NaN where a number is not finite.
fn mapped(x: f32, y: f32, score: f32, mapping: &KeypointMapping) -> Keypoint {
    let Affine2 { scale: [sx, sy], offset: [tx, ty] } = mapping.source_from_network;
    let (width, height) = (mapping.source.width as f32, mapping.source.height as f32);
    let is_finite = [x, y, score].iter().all(|number| number.is_finite());
    Keypoint {
        x: (x * sx + tx).clamp(0.0, width),
        y: (y * sy + ty).clamp(0.0, height),
        score: if is_finite { score } else { f32::NAN },
    }
}

fn argument(message: String) -> Error {
    Error::new(ErrorKind::Argument, "keypoints", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPPING: KeypointMapping = KeypointMapping {
        source_from_network: Affine2 { scale: [2.0, 3.0], offset: [-10.0, -30.0] },
        source: Size::new(100, 60),
    };

    fn at(x: f32, y: f32, score: f32) -> Keypoint {
        Keypoint { x, y, score }
    }

    /// The keypoints, of which `num_invalid` are counted.
    fn run_counting(
        shape: &[usize],
        values: &[f32],
        rows: &KeypointRows,
        sources: &[u32],
        num_invalid: usize,
    ) -> Vec<Keypoint> {
        let mut found = vec![at(9.0, 9.0, 9.0)];
        let output = TensorView::new(shape, TensorValues::F32(values)).unwrap();
        let num = keypoints(&output, rows, sources, &MAPPING, &mut found).unwrap();
        assert_eq!(num, num_invalid, "{values:?}");
        let halves: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
        let output = TensorView::new(shape, TensorValues::F16(&halves)).unwrap();
        let mut of_halves = Vec::new();
        let num = keypoints(&output, rows, sources, &MAPPING, &mut of_halves).unwrap();
        assert_eq!((&of_halves, num), (&found, num_invalid), "all numbers here are exact in f16");
        found
    }

    fn run(shape: &[usize], values: &[f32], rows: &KeypointRows, sources: &[u32]) -> Vec<Keypoint> {
        run_counting(shape, values, rows, sources, 0)
    }

    #[test]
    fn rows_and_planes_have_the_same_keypoints() {
        // Six numbers of the box, then two keypoints.
        let row = |x: f32| [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, x, 15.0, 0.5, 20.0, 25.0, 0.25];
        let table = [row(10.0), row(30.0), row(50.0)];
        let rows = KeypointRows::of_final_rows(2, 3);
        // (sources, expected of their first keypoints)
        let cases: [(&[u32], &[f32]); 4] =
            [(&[], &[]), (&[1], &[50.0]), (&[2, 0, 2], &[90.0, 10.0, 90.0]), (&[3], &[])];
        for (sources, xs) in cases {
            let found = run(&[1, 3, 12], &table.concat(), &rows, sources);
            let expected: Vec<Keypoint> =
                xs.iter().flat_map(|&x| [at(x, 15.0, 0.5), at(30.0, 45.0, 0.25)]).collect();
            // A row that there is not has no keypoints.
            let expected = if sources == [3] { vec![Keypoint::default(); 2] } else { expected };
            assert_eq!(found, expected, "{sources:?}");
            let planes: Vec<f32> =
                (0..12).flat_map(|column| table.map(|row| row[column])).collect();
            let of_planes = KeypointRows::of_planes(2, 2, 3);
            assert_eq!(run(&[1, 12, 3], &planes, &of_planes, sources), expected, "{sources:?}");
        }
    }

    #[test]
    fn keypoints_are_clipped_and_numbers_that_are_none_are_zeros() {
        let rows = KeypointRows { num_keypoints: 1, num_values: 3, first: 0, is_planes: false };
        for (numbers, expected) in [
            ([0.0, 0.0, 0.5], at(0.0, 0.0, 0.5)),
            ([55.0, 30.0, 0.5], at(100.0, 60.0, 0.5)),
            ([56.0, 31.0, -0.5], at(100.0, 60.0, -0.5)),
            ([f32::NAN, 20.0, 0.5], Keypoint::default()),
            ([20.0, f32::INFINITY, 0.5], Keypoint::default()),
            ([20.0, 20.0, f32::NAN], Keypoint::default()),
        ] {
            let num_invalid = usize::from(numbers.iter().any(|number| !number.is_finite()));
            let found = run_counting(&[1, 1, 3], &numbers, &rows, &[0], num_invalid);
            assert_eq!(found, [expected], "{numbers:?}");
        }
        let of_two = KeypointRows { num_values: 2, ..rows };
        assert_eq!(run(&[1, 1, 2], &[20.0, 20.0], &of_two, &[0]), [at(30.0, 30.0, 1.0)]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let values = [0.0; 24];
        let refusal = |shape: &[usize], rows: KeypointRows| {
            let output = TensorView::new(shape, TensorValues::F32(&values)).unwrap();
            let error = keypoints(&output, &rows, &[0], &MAPPING, &mut Vec::new()).unwrap_err();
            error.message().to_owned()
        };
        let rows = KeypointRows::of_final_rows(2, 3);
        assert!(refusal(&[1, 3, 8], rows).contains("[1, N, 12] expected"));
        assert!(refusal(&[2, 12], rows).contains("output [2, 12]; [1, N, 12] expected"));
        let planes = KeypointRows::of_planes(1, 2, 3);
        assert!(refusal(&[1, 12, 2], planes).contains("[1, 11, N] expected"));
        assert!(
            refusal(&[1, 2, 12], KeypointRows { num_values: 4, ..rows }).contains("of 4 numbers")
        );
        assert!(
            refusal(&[1, 2, 12], KeypointRows { num_keypoints: 0, ..rows }).contains("0 keypoints")
        );
        let labels = [0_i64; 24];
        let output = TensorView::new(&[1, 2, 12], TensorValues::I64(&labels)).unwrap();
        let error = keypoints(&output, &rows, &[0], &MAPPING, &mut Vec::new()).unwrap_err();
        assert!(error.message().contains("f32 or f16 expected"), "{error}");
    }
}
