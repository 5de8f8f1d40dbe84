//! The CPU implementation for layouts of planes, one column per candidate: four
//! numbers of the box, the class scores and, of rotated boxes, the angle.

use std::fmt::Arguments;

use super::Head;
use super::rows::{misfit, one, push};
use super::values::{BLOCK, Floats, raise};
use det_post_types::{Box2d, Candidate, Candidates, Result, RotatedBox2d, TensorView};

/// `num_further`: planes behind the scores, which are not read.
pub(super) fn v8(
    outputs: &[TensorView<'_>],
    head: &Head,
    num_further: usize,
    candidates: &mut Candidates<Box2d>,
) -> Result<()> {
    let num_planes = 4 + head.num_classes + num_further;
    let planes = Planes::new(outputs, num_planes, format_args!("[1, {num_planes}, N]"))?;
    let num_nan = planes.for_each_passing(head, |column, class, score| {
        let [cx, cy, width, height] = planes.four(column);
        push(candidates, Box2d::from_center(cx, cy, width, height), score, class, column);
    });
    candidates.add_nan_scores(num_nan);
    Ok(())
}

pub(super) fn obb(
    outputs: &[TensorView<'_>],
    head: &Head,
    candidates: &mut Candidates<RotatedBox2d>,
) -> Result<()> {
    let num_planes = 4 + head.num_classes + 1;
    let planes = Planes::new(outputs, num_planes, format_args!("[1, {num_planes}, N]"))?;
    let num_nan = planes.for_each_passing(head, |column, class, score| {
        let [cx, cy, width, height] = planes.four(column);
        let angle_rad = planes.at(num_planes - 1, column);
        let bbox = RotatedBox2d { cx, cy, width, height, angle_rad }.regularized();
        let (class, source) = (class as u32, column as u32);
        let is_valid = score.is_finite() && bbox.is_valid();
        candidates.push_if_valid(Candidate { bbox, score, class, source }, is_valid);
    });
    candidates.add_nan_scores(num_nan);
    Ok(())
}

/// A tensor `[1, planes, columns]`.
struct Planes<'a> {
    values: Floats<'a>,
    num_columns: usize,
}

impl<'a> Planes<'a> {
    fn new(outputs: &[TensorView<'a>], num_planes: usize, expected: Arguments<'_>) -> Result<Self> {
        let output = one(outputs, expected)?;
        match *output.shape() {
            [1, planes, num_columns] if planes == num_planes => {
                Ok(Self { values: Floats::of(output)?, num_columns })
            }
            _ => Err(misfit(output, expected)),
        }
    }

    #[inline(always)]
    fn at(&self, plane: usize, column: usize) -> f32 {
        self.values.at(plane * self.num_columns + column)
    }

    /// The first four numbers of a column: the box.
    fn four(&self, column: usize) -> [f32; 4] {
        std::array::from_fn(|plane| self.at(plane, column))
    }

    /// Calls `found(column, class, score)` for each column whose best score
    /// passes, in order. Returns the number of columns with a NaN score.
    fn for_each_passing(&self, head: &Head, mut found: impl FnMut(usize, usize, f32)) -> usize {
        let num_columns = self.num_columns;
        let mut best = [0.0; BLOCK];
        let mut num_nan = 0;
        for first in (0..num_columns).step_by(BLOCK) {
            let best = &mut best[..BLOCK.min(num_columns - first)];
            best.fill(f32::NEG_INFINITY);
            let mut has_nan = false;
            for class in 0..head.num_classes {
                has_nan |= raise(best, self.values, (4 + class) * num_columns + first);
            }
            if has_nan {
                let is_nan = |column| move |class| self.at(4 + class, column).is_nan();
                let columns = first..first + best.len();
                num_nan += columns.filter(|&c| (0..head.num_classes).any(is_nan(c))).count();
            }
            for (column, &score) in (first..).zip(&*best) {
                if score >= head.score_threshold
                    && let Some(class) =
                        (0..head.num_classes).find(|class| self.at(4 + class, column) == score)
                {
                    found(column, class, score);
                }
            }
        }
        num_nan
    }
}

#[cfg(test)]
mod tests {
    use std::f32::consts::FRAC_PI_2;

    use half::f16;
    use proptest::prelude::*;

    use super::super::{decode_yolo, decode_yolo_rotated};
    use super::*;
    use det_post_types::{ErrorKind, Size, TensorValues, YoloLayout};

    const NETWORK: Size = Size::new(96, 64);
    const NUM_CLASSES: usize = 3;
    const NUM_PLANES: usize = 4 + NUM_CLASSES + 1;
    const NAN: f32 = f32::NAN;

    /// Columns `cx cy w h, class scores, angle`.
    type Column = [f32; NUM_PLANES];

    fn planes(columns: &[Column]) -> Vec<f32> {
        (0..NUM_PLANES).flat_map(|plane| columns.iter().map(move |c| c[plane])).collect()
    }

    fn decode(columns: &[Column], threshold: f32) -> Vec<Candidate<RotatedBox2d>> {
        let (shape, values) = ([1, NUM_PLANES, columns.len()], planes(columns));
        let output = TensorView::new(&shape, TensorValues::F32(&values)).unwrap();
        decode_output(output, threshold)
    }

    fn decode_output(output: TensorView<'_>, threshold: f32) -> Vec<Candidate<RotatedBox2d>> {
        let mut candidates = Candidates::with_capacity(10_000);
        let layout = YoloLayout::Obb;
        decode_yolo_rotated(&[output], &layout, NETWORK, NUM_CLASSES, threshold, &mut candidates)
            .unwrap();
        let mut found = candidates.as_slice().to_vec();
        found.sort_by_key(|candidate| candidate.source);
        found
    }

    /// The definition of the layout, one column at a time.
    fn reference(columns: &[Column], threshold: f32) -> Vec<Candidate<RotatedBox2d>> {
        let candidate = |(source, column): (u32, &Column)| {
            let [cx, cy, width, height, scores @ .., angle_rad] = *column;
            let mut best: Option<(u32, f32)> = None;
            for (class, score) in (0..).zip(&scores[..NUM_CLASSES]) {
                if !score.is_nan() && best.is_none_or(|(_, most)| *score > most) {
                    best = Some((class, *score));
                }
            }
            let (class, score) = best.filter(|&(_, score)| score >= threshold)?;
            let bbox = RotatedBox2d { cx, cy, width, height, angle_rad }.regularized();
            let is_valid = score.is_finite() && bbox.is_valid();
            is_valid.then_some(Candidate { bbox, score, class, source })
        };
        (0..).zip(columns).filter_map(candidate).collect()
    }

    #[test]
    fn columns_of_rotated_boxes() {
        let whole = [10.0, 20.0, 8.0, 4.0, 0.1, 0.5, 0.5, 0.25];
        let with = |changes: &[(usize, f32)]| {
            let mut column: Column = whole;
            changes.iter().for_each(|&(place, value)| column[place] = value);
            column
        };
        let columns = [
            whole,                                  // the lower class of a tie
            with(&[(7, 0.25 + FRAC_PI_2)]),         // a quarter turn: sides exchanged
            with(&[(4, 0.25), (5, 0.0), (6, 0.1)]), // exactly at the threshold
            with(&[(5, 0.2499), (6, 0.2)]),         // below
            with(&[(5, NAN)]),                      // the best of the numbers
            with(&[(4, NAN), (5, NAN), (6, NAN)]),
            with(&[(7, NAN)]),
            with(&[(7, f32::INFINITY)]),
            with(&[(0, NAN)]),
            with(&[(3, f32::INFINITY)]),
            with(&[(6, f32::INFINITY)]),
            with(&[(2, 0.0)]), // empty, which gathering leaves out
        ];
        let found = |width, height, score, class, source| {
            let bbox = RotatedBox2d { cx: 10.0, cy: 20.0, width, height, angle_rad: 0.25 };
            Candidate { bbox, score, class, source }
        };
        let expected = [
            found(8.0, 4.0, 0.5, 1, 0),
            found(4.0, 8.0, 0.5, 1, 1),
            found(8.0, 4.0, 0.25, 0, 2),
            found(8.0, 4.0, 0.5, 2, 4),
            found(0.0, 4.0, 0.5, 1, 11),
        ];
        let mut decoded = decode(&columns, 0.25);
        assert_eq!(decoded.len(), expected.len());
        for (found, expected) in decoded.iter_mut().zip(expected) {
            assert!((found.bbox.angle_rad - expected.bbox.angle_rad).abs() < 1e-6, "{found:?}");
            found.bbox.angle_rad = expected.bbox.angle_rad;
            assert_eq!(*found, expected);
        }
        assert!(decode(&[], 0.0).is_empty());
    }

    #[test]
    fn rotated_boxes_that_pass_and_are_no_boxes_are_counted() {
        let whole = [10.0, 20.0, 8.0, 4.0, 0.1, 0.5, 0.5, 0.25];
        // Number, value; whether it is counted.
        let cases = [
            (0, NAN, true),
            (1, f32::INFINITY, true),
            (2, -1.0, true),
            (3, -0.5, true),
            (2, 0.0, false),
            (3, NAN, true),
            (7, NAN, true),
            (7, f32::INFINITY, true),
            (7, -9.0, false),
        ];
        for (at, value, is_counted) in cases {
            for (score, passes) in [(0.5, true), (0.2, false)] {
                let mut column: Column = whole;
                (column[5], column[6], column[at]) = (score, score, value);
                let shape = [1, NUM_PLANES, 1];
                let output = TensorView::new(&shape, TensorValues::F32(&column)).unwrap();
                let mut candidates = Candidates::with_capacity(9);
                let obb = YoloLayout::Obb;
                decode_yolo_rotated(&[output], &obb, NETWORK, 3, 0.25, &mut candidates).unwrap();
                let expected = usize::from(passes && is_counted);
                assert_eq!(candidates.num_invalid_boxes(), expected, "{at} {value} {score}");
                let num_found = usize::from(passes && !is_counted);
                assert_eq!(candidates.as_slice().len(), num_found, "{at} {value} {score}");
            }
        }
    }

    #[test]
    fn halves_decode_as_the_floats_they_are() {
        let columns: Vec<Column> = (0..2500)
            .map(|i| {
                std::array::from_fn(|plane| ((i * 7919 + plane * 104_729) % 997) as f32 / 997.0)
            })
            .collect();
        let values: Vec<f16> = planes(&columns).into_iter().map(f16::from_f32).collect();
        let shape = [1, NUM_PLANES, columns.len()];
        let widened: Vec<f32> = values.iter().map(|value| value.to_f32()).collect();
        let half = TensorView::new(&shape, TensorValues::F16(&values)).unwrap();
        let full = TensorView::new(&shape, TensorValues::F32(&widened)).unwrap();
        let half = decode_output(half, 0.7);
        assert_eq!(half, decode_output(full, 0.7));
        assert!(half.len() > 100 && half.len() < 2500, "{}", half.len());
    }

    /// Columns with a NaN score of three classes, of V8 and of Obb.
    fn num_nan(values: &[f32], num_columns: usize) -> [usize; 2] {
        let shape = [1, NUM_PLANES, num_columns];
        let rotated = TensorView::new(&shape, TensorValues::F32(values)).unwrap();
        let shape = [1, NUM_PLANES - 1, num_columns];
        let planes: Vec<f16> =
            values[..7 * num_columns].iter().map(|&value| f16::from_f32(value)).collect();
        let aligned = TensorView::new(&shape, TensorValues::F16(&planes)).unwrap();
        let mut boxes = Candidates::with_capacity(1);
        decode_yolo(&[aligned], &YoloLayout::V8, NETWORK, NUM_CLASSES, 0.25, &mut boxes).unwrap();
        let mut turned = Candidates::with_capacity(1);
        let obb = YoloLayout::Obb;
        decode_yolo_rotated(&[rotated], &obb, NETWORK, NUM_CLASSES, 0.25, &mut turned).unwrap();
        [boxes.num_nan_scores(), turned.num_nan_scores()]
    }

    #[test]
    fn columns_with_a_nan_score_are_counted_once_in_every_block() {
        let num_columns = 2500;
        let mut values = vec![0.1; NUM_PLANES * num_columns];
        // Neither boxes nor angles are scores.
        values[..4 * num_columns].fill(NAN);
        values[7 * num_columns..].fill(NAN);
        assert_eq!(num_nan(&values, num_columns), [0, 0]);
        for (column, classes) in
            [(0, &[0_usize][..]), (1023, &[1]), (1024, &[0, 2]), (2047, &[0, 1, 2]), (2499, &[2])]
        {
            classes.iter().for_each(|class| values[(4 + class) * num_columns + column] = NAN);
        }
        assert_eq!(num_nan(&values, num_columns), [5, 5]);
        values.fill(NAN);
        assert_eq!(num_nan(&values, num_columns), [num_columns; 2]);
    }

    #[test]
    fn layouts_have_boxes_of_one_kind() {
        let values = [0.5; NUM_PLANES];
        let shape = [1, NUM_PLANES, 1];
        let outputs = [TensorView::new(&shape, TensorValues::F32(&values)).unwrap()];
        let mut rotated = Candidates::with_capacity(1);
        let mut aligned = Candidates::with_capacity(1);
        let obb = &YoloLayout::Obb;
        let of_four_classes =
            decode_yolo_rotated(&outputs, obb, NETWORK, 4, 0.1, &mut rotated).unwrap_err();
        let as_aligned = decode_yolo(&outputs, obb, NETWORK, 3, 0.1, &mut aligned).unwrap_err();
        let v8 = &YoloLayout::V8;
        let as_rotated = decode_yolo_rotated(&outputs, v8, NETWORK, 4, 0.1, &mut rotated);
        let cases = [
            (of_four_classes, "output [1, 8, 1]; [1, 9, N] expected"),
            (as_aligned, "Obb has no axis-aligned boxes"),
            (as_rotated.unwrap_err(), "V8 has no rotated boxes"),
        ];
        for (error, message) in cases {
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert!(error.message().contains(message), "{error}");
        }
    }

    proptest! {
        #[test]
        fn rotated_boxes_equal_the_definition(
            columns in prop::collection::vec(
                prop::array::uniform8(prop_oneof![
                    8 => -4.0_f32..4.0,
                    4 => prop::sample::select(vec![0.0_f32, 0.25, 0.5, 0.75, 1.0]),
                    1 => prop::sample::select(vec![NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 3e38]),
                ]),
                0..1500,
            ),
            threshold in prop::sample::select(vec![-1.0_f32, 0.0, 0.25, 0.5, 0.9]),
        ) {
            prop_assert_eq!(decode(&columns, threshold), reference(&columns, threshold));
        }
    }
}
