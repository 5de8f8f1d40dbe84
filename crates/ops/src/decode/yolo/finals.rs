//! The CPU implementation for layouts with a final box in a row.

use super::rows::push;
use super::values::{Floats, class_of_float, class_of_label, is_negative, passes};
use super::{Head, argument};
use det_post_types::{
    Box2d, Candidate, Candidates, FinalRows, Result, RotatedBox2d, TensorValues, TensorView,
    YoloLayout,
};

pub(super) fn aligned(
    outputs: &[TensorView<'_>],
    layout: &YoloLayout,
    head: &Head,
    candidates: &mut Candidates<Box2d>,
) -> Result<()> {
    let rows = Rows::new(outputs, layout)?;
    for row in 0..rows.num_rows {
        if let Some((score, class)) = rows.passing(row, head, candidates) {
            let [x1, y1, x2, y2] = rows.four(row);
            push(candidates, Box2d::new(x1, y1, x2, y2), score, class, row);
        }
    }
    Ok(())
}

pub(super) fn rotated(
    outputs: &[TensorView<'_>],
    layout: &YoloLayout,
    head: &Head,
    candidates: &mut Candidates<RotatedBox2d>,
) -> Result<()> {
    let rows = Rows::new(outputs, layout)?;
    for row in 0..rows.num_rows {
        if let Some((score, class)) = rows.passing(row, head, candidates) {
            let [cx, cy, width, height] = rows.four(row);
            let angle_rad = rows.columns.angle.map_or(0.0, |column| rows.at(row, column));
            let bbox = RotatedBox2d { cx, cy, width, height, angle_rad }.regularized();
            let (class, source) = (class as u32, row as u32);
            let is_valid = score.is_finite() && bbox.is_valid();
            candidates.push_if_valid(Candidate { bbox, score, class, source }, is_valid);
        }
    }
    Ok(())
}

/// The checked outputs of a layout of final rows.
struct Rows<'a> {
    columns: FinalRows,
    num_rows: usize,
    values: Floats<'a>,
    labels: Option<TensorValues<'a>>,
}

impl<'a> Rows<'a> {
    fn new(outputs: &[TensorView<'a>], layout: &YoloLayout) -> Result<Self> {
        let found = || outputs.iter().map(TensorView::shape).collect::<Vec<_>>();
        let misfit = |expected: &str| {
            argument(format!("outputs {:?}; {expected} expected for {layout:?}", found()))
        };
        let Some(columns) = layout.final_rows() else { return Err(misfit("final rows")) };
        let num = columns.num_columns;
        let (rows, labels) = match (outputs, columns.class) {
            ([rows], Some(_)) => (rows, None),
            ([rows, labels], None) => (rows, Some(labels)),
            _ => return Err(misfit(if columns.class.is_some() { "1" } else { "2" })),
        };
        let num_rows = match (rows.shape(), columns.has_batch) {
            (&[1, num_rows, found], true) | (&[num_rows, found], false) if found == num => num_rows,
            (_, true) => return Err(misfit(&format!("[1, N, {num}]"))),
            (_, false) => return Err(misfit(&format!("[N, {num}]"))),
        };
        if labels.is_some_and(|labels| *labels.shape() != [1, num_rows]) {
            return Err(misfit(&format!("labels [1, {num_rows}]")));
        }
        let values = Floats::of(rows)?;
        Ok(Self { columns, num_rows, values, labels: labels.map(TensorView::values) })
    }

    fn at(&self, row: usize, column: usize) -> f32 {
        self.values.at(row * self.columns.num_columns + column)
    }

    /// The four numbers of a box.
    fn four(&self, row: usize) -> [f32; 4] {
        self.values.four(row * self.columns.num_columns + self.columns.first_of_box)
    }

    /// Score and class of a row that passes; a NaN, and a class that the head does not have, is
    /// counted.
    fn passing<B: Copy>(
        &self,
        row: usize,
        head: &Head,
        candidates: &mut Candidates<B>,
    ) -> Option<(f32, usize)> {
        let score = self.at(row, self.columns.score);
        let mut num_nan = 0;
        let passes = passes(score, head.score_threshold, &mut num_nan);
        candidates.add_nan_scores(num_nan);
        if !passes || self.labels.is_some_and(|labels| is_negative(labels, row)) {
            return None;
        }
        let class = match (self.labels, self.columns.class) {
            (Some(labels), _) => class_of_label(labels, row, head.num_classes),
            (None, Some(column)) => class_of_float(self.at(row, column), head.num_classes),
            (None, None) => None,
        };
        if class.is_none() {
            candidates.add_unknown_classes(1);
        }
        class.map(|class| (score, class))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NETWORK, decode, found};
    use super::super::{decode_yolo, decode_yolo_rotated};
    use super::*;

    const NAN: f32 = f32::NAN;

    #[test]
    fn final_rows_of_other_exporters() {
        // YOLOv7 with --end2end: the image's index, corners, class, score.
        let rows = [
            [0.0, 1.0, 2.0, 3.0, 5.0, 2.0, 0.5],
            [0.0, 1.0, 2.0, 3.0, 5.0, 0.0, 0.2],
            [0.0, 1.0, 2.0, 3.0, 5.0, 3.0, 0.9],
        ];
        let tensor = (vec![3, 7], rows.concat());
        let decoded = decode(&[tensor], &YoloLayout::V7EndToEnd, 3, 0.25).unwrap();
        assert_eq!(decoded, [found(1.0, 2.0, 3.0, 5.0, 0.5, 2, 0)]);

        // mmdeploy: corners and score, labels apart; padding has the label -1 and the score 0.
        let boxes = [
            [1.0, 2.0, 3.0, 5.0, 0.5],
            [1.0, 2.0, 3.0, 5.0, 0.25],
            [1.0, 2.0, 3.0, 5.0, 0.75],
            [0.0, 0.0, 0.0, 0.0, 0.0],
        ];
        let values = boxes.concat();
        let box_shape = [1, 4, 5];
        let labels: [TensorValues<'_>; 3] = [
            TensorValues::I64(&[1, 2, 3, -1]),
            TensorValues::I32(&[1, 2, 3, -1]),
            TensorValues::F32(&[1.0, 2.0, 3.0, -1.0]),
        ];
        for labels in labels {
            let outputs = [
                TensorView::new(&box_shape, TensorValues::F32(&values)).unwrap(),
                TensorView::new(&[1, 4], labels).unwrap(),
            ];
            let mut candidates = Candidates::with_capacity(9);
            let layout = YoloLayout::Mmdeploy;
            decode_yolo(&outputs, &layout, NETWORK, 3, 0.0, &mut candidates).unwrap();
            let expected =
                [found(1.0, 2.0, 3.0, 5.0, 0.5, 1, 0), found(1.0, 2.0, 3.0, 5.0, 0.25, 2, 1)];
            assert_eq!(candidates.as_slice(), expected);
            assert_eq!(candidates.num_unknown_classes(), 1, "the label 3, not the padding");
        }
    }

    #[test]
    fn final_rows_of_rotated_boxes() {
        let rows = [
            [16.0, 16.0, 12.0, 6.0, 0.9, 1.0, 0.5],
            [16.0, 16.0, 12.0, 6.0, 0.2, 1.0, 0.5],
            [16.0, 16.0, 12.0, 6.0, 0.9, 2.0, 0.5],
            [16.0, 16.0, 12.0, 6.0, NAN, 1.0, 0.5],
            [16.0, 16.0, 12.0, 6.0, 0.9, 1.0, NAN],
            [16.0, 16.0, 12.0, 6.0, 0.8, 0.0, 0.5 + std::f32::consts::FRAC_PI_2],
        ]
        .concat();
        let output = TensorView::new(&[1, 6, 7], TensorValues::F32(&rows)).unwrap();
        let mut candidates = Candidates::with_capacity(9);
        let layout = YoloLayout::ObbEndToEnd;
        decode_yolo_rotated(&[output], &layout, NETWORK, 2, 0.25, &mut candidates).unwrap();
        let [first, turned] = candidates.as_slice() else { panic!("{candidates:?}") };
        let expected =
            RotatedBox2d { cx: 16.0, cy: 16.0, width: 12.0, height: 6.0, angle_rad: 0.5 };
        assert_eq!((first.bbox, first.score, first.class, first.source), (expected, 0.9, 1, 0));
        assert_eq!((turned.bbox.width, turned.bbox.height, turned.source), (6.0, 12.0, 5));
        assert!((turned.bbox.angle_rad - 0.5).abs() < 1e-6);
        let counts = [
            candidates.num_nan_scores(),
            candidates.num_invalid_boxes(),
            candidates.num_unknown_classes(),
        ];
        assert_eq!(counts, [1, 1, 1]);
        let mut aligned = Candidates::with_capacity(9);
        assert!(decode_yolo(&[output], &layout, NETWORK, 2, 0.25, &mut aligned).is_err());
    }
}
