use half::f16;
use proptest::prelude::*;

use super::*;
use crate::decode::logit::sigmoid;
use det_post_types::{AnchorLevel, Candidate, DetrBoxes, DetrClasses, TensorValues};

pub(super) const NETWORK: Size = Size::new(96, 64);

/// A tensor to be decoded: shape and values.
pub(super) type Values = (Vec<usize>, Vec<f32>);

pub(super) fn decode(
    outputs: &[Values],
    layout: &YoloLayout,
    num_classes: usize,
    threshold: f32,
) -> Result<Vec<Candidate<Box2d>>> {
    let views: Vec<_> = outputs
        .iter()
        .map(|(shape, values)| TensorView::new(shape, TensorValues::F32(values)).unwrap())
        .collect();
    decode_views(&views, layout, num_classes, threshold)
}

fn decode_views(
    outputs: &[TensorView<'_>],
    layout: &YoloLayout,
    num_classes: usize,
    threshold: f32,
) -> Result<Vec<Candidate<Box2d>>> {
    let mut candidates = Candidates::with_capacity(10_000);
    decode_yolo(outputs, layout, NETWORK, num_classes, threshold, &mut candidates)?;
    assert_eq!(candidates.num_dropped(), 0);
    let mut found = candidates.as_slice().to_vec();
    found.sort_by_key(|candidate| candidate.source);
    Ok(found)
}

pub(super) fn found(
    x1: f32,
    y1: f32,
    x2: f32,
    y2: f32,
    score: f32,
    class: u32,
    source: u32,
) -> Candidate<Box2d> {
    Candidate { bbox: Box2d::new(x1, y1, x2, y2), score, class, source }
}

pub(super) const NAN: f32 = f32::NAN;
pub(super) const INF: f32 = f32::INFINITY;

#[test]
fn v5_rows() {
    let rows = [
        [10.0, 20.0, 4.0, 6.0, 0.5, 0.25, 0.75], // 0.375 of class 1
        [10.0, 20.0, 4.0, 6.0, 0.5, 0.5, 0.5],   // exactly at the threshold; the lower class
        [10.0, 20.0, 4.0, 6.0, 0.5, 0.499, 0.4], // just below
        [10.0, 20.0, 4.0, 6.0, 0.2, 1.0, 1.0],   // objectness rejects
        [10.0, 20.0, 4.0, 6.0, NAN, 1.0, 1.0],
        [10.0, 20.0, 4.0, 6.0, 1.0, NAN, NAN],
        [10.0, 20.0, 4.0, 6.0, 1.0, NAN, 0.5],
        [10.0, NAN, 4.0, 6.0, 1.0, 1.0, 1.0],
        [10.0, 20.0, INF, 6.0, 1.0, 1.0, 1.0],
        [10.0, 20.0, 4.0, 6.0, INF, 1.0, 1.0],
    ];
    let tensor = (vec![1, 10, 7], rows.concat());
    let expected = [
        found(8.0, 17.0, 12.0, 23.0, 0.375, 1, 0),
        found(8.0, 17.0, 12.0, 23.0, 0.25, 0, 1),
        found(8.0, 17.0, 12.0, 23.0, 0.5, 1, 6),
    ];
    assert_eq!(decode(&[tensor], &YoloLayout::V5, 2, 0.25).unwrap(), expected);
}

#[test]
fn v8_columns_over_several_blocks() {
    let num_columns = 2500;
    let mut planes: Vec<Vec<f32>> =
        [0.0, 20.0, 4.0, 6.0, 0.0, 0.0, 0.0].map(|value| vec![value; num_columns]).to_vec();
    planes[0] = (0..num_columns).map(|column| 10.0 + column as f32).collect();
    let at = |column: f32| (8.0 + column, 12.0 + column);
    let mut expected = Vec::new();
    // (column, class scores, class of the best)
    for (column, scores, best) in [
        (0, [0.5, 0.25, 0.5], Some((0.5, 0))),
        (1023, [NAN, 0.3, 0.29], Some((0.3, 1))),
        (1024, [0.1, 0.2, 0.9], Some((0.9, 2))),
        (1025, [NAN, NAN, NAN], None),
        (1026, [0.2499, 0.1, 0.1], None),
        (2047, [0.25, 0.1, 0.1], Some((0.25, 0))),
        (2499, [0.1, INF, 0.1], None),
        (2498, [0.1, 0.1, 1.0], Some((1.0, 2))),
    ] {
        (0..3).for_each(|class| planes[4 + class][column] = scores[class]);
        if let Some((score, class)) = best {
            let (x1, x2) = at(column as f32);
            expected.push(found(x1, 17.0, x2, 23.0, score, class, column as u32));
        }
    }
    let values = planes.concat();
    let tensor = (vec![1, 7, num_columns], values);
    assert_eq!(decode(&[tensor], &YoloLayout::V8, 3, 0.25).unwrap(), expected);
}

#[test]
fn yolox_adds_its_grid() {
    // Strides 16 and 32 of 96x64: 6x4 and 3x2 cells.
    let layout = YoloLayout::Yolox { strides: vec![16, 32] };
    let mut values = vec![0.0; 30 * 6];
    for row in [8, 24 + 4] {
        let numbers = [0.25, 0.5, 0.0, 2.0_f32.ln(), 0.5, 0.5];
        values[6 * row..6 * row + 6].copy_from_slice(&numbers);
    }
    let expected = [
        // Cell (2, 1): centre (36, 24), 16 by 32.
        found(28.0, 8.0, 44.0, 40.0, 0.25, 0, 8),
        // Cell (1, 1): centre (40, 48), 32 by 64.
        found(24.0, 16.0, 56.0, 80.0, 0.25, 0, 28),
    ];
    let decoded = decode(&[(vec![1, 30, 6], values)], &layout, 1, 0.25).unwrap();
    assert_eq!(decoded, expected);
}

#[test]
fn raw_heads_of_either_layout_decode_alike() {
    let level = |stride, anchors: &[[f32; 2]]| AnchorLevel { stride, anchors: anchors.to_vec() };
    let levels = vec![level(16, &[[10.0, 20.0], [7.0, 3.0]]), level(32, &[[50.0, 40.0]])];
    let layout = YoloLayout::V5Raw { levels };
    let row = [1.0, -1.0, 0.5, 0.0, 2.0, -3.0, 3.0];
    let (mut first, mut last) = (Vec::new(), Vec::new());
    // (anchors, rows, columns, anchor, y, x)
    for (anchors, rows, columns, anchor, y, x) in [(2, 4, 6, 1, 2, 5), (1, 2, 3, 0, 1, 0)] {
        let cells = rows * columns;
        let mut channels_first = vec![-9.0; anchors * 7 * cells];
        let mut channels_last = channels_first.clone();
        for (i, value) in row.into_iter().enumerate() {
            channels_first[(anchor * 7 + i) * cells + y * columns + x] = value;
            channels_last[((anchor * rows + y) * columns + x) * 7 + i] = value;
        }
        first.push((vec![1, anchors * 7, rows, columns], channels_first));
        last.push((vec![1, anchors, rows, columns, 7], channels_last));
    }
    let decoded = decode(&first, &layout, 2, 0.25).unwrap();
    assert_eq!(decoded, decode(&last, &layout, 2, 0.25).unwrap());
    let s = row.map(|logit| 1.0 / (1.0 + f64::exp(-f64::from(logit))));
    // Sources: anchor 1 of 24 cells, cell 2 * 6 + 5; then 48 and cell 3.
    let expected = [(16.0, 5.0, 2.0, [7.0, 3.0], 41), (32.0, 0.0, 1.0, [50.0, 40.0], 51)];
    assert_eq!(decoded.len(), expected.len());
    for (found, (stride, x, y, anchor, source)) in decoded.iter().zip(expected) {
        let (cx, cy) = ((s[0] * 2.0 - 0.5 + x) * stride, (s[1] * 2.0 - 0.5 + y) * stride);
        let half = [2, 3].map(|i| (s[i] * 2.0).powi(2) * anchor[i - 2] / 2.0);
        let b = found.bbox;
        for (found, expected) in [
            (b.x1, cx - half[0]),
            (b.y1, cy - half[1]),
            (b.x2, cx + half[0]),
            (b.y2, cy + half[1]),
            (found.score, s[4] * s[6]),
        ] {
            assert!((f64::from(found) - expected).abs() < 1e-4, "{found} {expected}");
        }
        assert_eq!((found.class, found.source), (1, source));
    }
}

#[test]
fn end_to_end_rows() {
    let rows = [
        [1.0, 2.0, 3.0, 5.0, 0.5, 2.0],
        [1.0, 2.0, 3.0, 5.0, 0.25, 0.0],
        [1.0, 2.0, 3.0, 5.0, 0.2, 0.0],
        [1.0, 2.0, 3.0, 5.0, 0.9, 3.0],
        [1.0, 2.0, 3.0, 5.0, 0.9, -1.0],
        [1.0, 2.0, 3.0, 5.0, 0.9, NAN],
        [1.0, 2.0, 3.0, 5.0, NAN, 1.0],
        [1.0, 2.0, 3.0, INF, 0.9, 1.0],
    ];
    let expected = [found(1.0, 2.0, 3.0, 5.0, 0.5, 2, 0), found(1.0, 2.0, 3.0, 5.0, 0.25, 0, 1)];
    let tensor = (vec![1, 8, 6], rows.concat());
    assert_eq!(decode(&[tensor], &YoloLayout::EndToEnd, 3, 0.25).unwrap(), expected);
}

#[test]
fn detr_boxes_scores_and_labels() {
    let boxes = (vec![1, 3, 4], [[0.5, 0.25, 0.5, 0.5]; 3].concat());
    let layout = |logits| YoloLayout::Detr {
        boxes: DetrBoxes::CenterNormalized,
        logits,
        classes: DetrClasses::Best,
    };
    let scores = (vec![1, 3, 2], vec![0.1, 0.6, 0.25, 0.25, 0.2, NAN]);
    let decoded = decode(&[boxes.clone(), scores], &layout(false), 2, 0.25).unwrap();
    let expected =
        [found(24.0, 0.0, 72.0, 32.0, 0.6, 1, 0), found(24.0, 0.0, 72.0, 32.0, 0.25, 0, 1)];
    assert_eq!(decoded, expected);

    let logits = (vec![1, 3, 2], vec![-1.0, 0.5, NAN, NAN, -9.0, -8.0]);
    let decoded = decode(&[boxes, logits], &layout(true), 2, 0.25).unwrap();
    assert_eq!(decoded, [found(24.0, 0.0, 72.0, 32.0, sigmoid(0.5), 1, 0)]);

    let layout = YoloLayout::Detr {
        boxes: DetrBoxes::CornerPixels,
        logits: false,
        classes: DetrClasses::Best,
    };
    let corners = [[1.0, 2.0, 3.0, 5.0]; 4].concat();
    let (box_shape, row_shape) = ([1, 4, 4], [1, 4]);
    let scores = [0.9, 0.8, 0.1, 0.7];
    let labels: [&dyn Fn() -> TensorValues<'static>; 3] =
        [&|| TensorValues::I64(&[1, 2, 0, -1]), &|| TensorValues::I32(&[1, 2, 0, -1]), &|| {
            TensorValues::F32(&[1.0, 2.0, 0.0, -1.0])
        }];
    for labels in labels {
        let outputs = [
            TensorView::new(&box_shape, TensorValues::F32(&corners)).unwrap(),
            TensorView::new(&row_shape, TensorValues::F32(&scores)).unwrap(),
            TensorView::new(&row_shape, labels()).unwrap(),
        ];
        let decoded = decode_views(&outputs, &layout, 2, 0.25).unwrap();
        assert_eq!(decoded, [found(1.0, 2.0, 3.0, 5.0, 0.9, 1, 0)]);
    }
}

/// Rows with a NaN score, of the values in f32 and in f16.
pub(super) fn num_nan(outputs: &[Values], layout: &YoloLayout, num_classes: usize) -> usize {
    counted(outputs, layout, num_classes, Candidates::num_nan_scores)
}

/// What is counted, of the values in f32 and in f16.
pub(super) fn counted(
    outputs: &[Values],
    layout: &YoloLayout,
    num_classes: usize,
    count: impl Fn(&Candidates<Box2d>) -> usize,
) -> usize {
    let halves: Vec<Vec<f16>> = outputs
        .iter()
        .map(|(_, values)| values.iter().map(|&value| f16::from_f32(value)).collect())
        .collect();
    let [in_f32, in_f16] = [false, true].map(|half| {
        let view = |i: usize| {
            let (shape, values) = &outputs[i];
            let values =
                if half { TensorValues::F16(&halves[i]) } else { TensorValues::F32(values) };
            TensorView::new(shape, values).unwrap()
        };
        let views: Vec<_> = (0..outputs.len()).map(view).collect();
        let mut candidates = Candidates::with_capacity(1);
        decode_yolo(&views, layout, NETWORK, num_classes, 0.25, &mut candidates).unwrap();
        count(&candidates)
    });
    assert_eq!(in_f32, in_f16, "{layout:?}");
    in_f32
}

#[test]
fn halves_decode_as_the_floats_they_are() {
    let mut state = 5_u32;
    let values: Vec<f16> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f16::from_f32((state >> 8) as f32 / (1 << 24) as f32)
    })
    .take(1300 * 7)
    .collect();
    let widened: Vec<f32> = values.iter().map(|v| v.to_f32()).collect();
    for (shape, layout) in [([1, 1300, 7], YoloLayout::V5), ([1, 7, 1300], YoloLayout::V8)] {
        let classes = if layout == YoloLayout::V5 { 2 } else { 3 };
        let half = TensorView::new(&shape, TensorValues::F16(&values)).unwrap();
        let full = TensorView::new(&shape, TensorValues::F32(&widened)).unwrap();
        let half = decode_views(&[half], &layout, classes, 0.6).unwrap();
        assert_eq!(half, decode_views(&[full], &layout, classes, 0.6).unwrap());
        assert!(!half.is_empty() && half.len() < 1300);
    }
}

#[test]
fn nothing_in_and_nothing_kept() {
    for (shape, layout) in [
        (vec![1, 0, 7], YoloLayout::V5),
        (vec![1, 6, 0], YoloLayout::V8),
        (vec![1, 0, 6], YoloLayout::EndToEnd),
    ] {
        assert_eq!(decode(&[(shape, vec![])], &layout, 2, 0.0).unwrap(), []);
    }
    let tensor = (vec![1, 2, 7], vec![1.0; 14]);
    let all = decode(std::slice::from_ref(&tensor), &YoloLayout::V5, 2, 1.0).unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(decode(&[tensor], &YoloLayout::V5, 2, 1.1).unwrap(), []);
}

#[test]
fn what_does_not_fit_is_named() {
    let tensor = |shape: &[usize]| (shape.to_vec(), vec![0.0; shape.iter().product()]);
    let yolox = YoloLayout::Yolox { strides: vec![16, 32] };
    let odd = YoloLayout::Yolox { strides: vec![20] };
    let raw =
        YoloLayout::V5Raw { levels: vec![AnchorLevel { stride: 32, anchors: vec![[1.0, 1.0]] }] };
    let detr = YoloLayout::Detr {
        boxes: DetrBoxes::CornerPixels,
        logits: false,
        classes: DetrClasses::Best,
    };
    let cases: [(&YoloLayout, &[Values], &str); 16] = [
        (&YoloLayout::V5, &[tensor(&[1, 9, 8])], "output [1, 9, 8]; [1, N, 7] expected"),
        (&YoloLayout::V5, &[tensor(&[9, 7])], "[1, N, 7] expected"),
        (&YoloLayout::V5, &[], "0 outputs; 1 of [1, N, 7] expected"),
        (&YoloLayout::V8, &[tensor(&[1, 9, 6])], "[1, 6, N] expected"),
        (&yolox, &[tensor(&[1, 31, 7])], "[1, 30, 7] for strides [16, 32] at 96x64"),
        (&odd, &[tensor(&[1, 31, 7])], "stride 20; a divisor of"),
        (&raw, &[tensor(&[1, 7, 3, 2])], "[1, 7, 2, 3] or [1, 1, 2, 3, 7] expected"),
        (&raw, &[tensor(&[1]), tensor(&[1])], "2 outputs; 1 expected"),
        (&YoloLayout::EndToEnd, &[tensor(&[1, 4, 7])], "[1, N, 6] expected"),
        (&YoloLayout::V7EndToEnd, &[tensor(&[1, 4, 7])], "[N, 7] expected"),
        (&YoloLayout::Mmdeploy, &[tensor(&[1, 4, 5])], "2 expected"),
        (&YoloLayout::Mmdeploy, &[tensor(&[1, 4, 5]), tensor(&[1, 3])], "labels [1, 4] expected"),
        (&detr, &[tensor(&[1, 3, 4])], "1 outputs; boxes and scores"),
        (&detr, &[tensor(&[1, 3, 4]), tensor(&[1, 3, 3])], "scores [1, 3, 2] expected"),
        (&detr, &[tensor(&[1, 3, 4]), tensor(&[1, 3, 2]), tensor(&[1, 3])], "beside labels"),
        (&detr, &[tensor(&[1, 3, 4]), tensor(&[1, 3]), tensor(&[1, 4])], "labels [1, 3] expected"),
    ];
    for (layout, outputs, message) in cases {
        let error = decode(outputs, layout, 2, 0.25).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains(message), "{error}");
    }
    let labels = [1_i64; 7];
    let view = TensorView::new(&[1, 1, 7], TensorValues::I64(&labels)).unwrap();
    let error = decode_views(&[view], &YoloLayout::V5, 2, 0.25).unwrap_err();
    assert!(error.message().contains("of i64; f32 or f16 expected"), "{error}");
}

#[test]
fn the_capacity_keeps_the_best() {
    let values: Vec<f32> =
        (0..50).flat_map(|row| [1.0, 1.0, 1.0, 1.0, 1.0, row as f32 / 100.0]).collect();
    let view = TensorView::new(&[1, 50, 6], TensorValues::F32(&values)).unwrap();
    let mut candidates = Candidates::with_capacity(3);
    decode_yolo(&[view], &YoloLayout::V5, NETWORK, 1, 0.1, &mut candidates).unwrap();
    candidates.finish(usize::MAX);
    assert_eq!(candidates.as_slice().iter().map(|c| c.source).collect::<Vec<_>>(), [49, 48, 47]);
    assert_eq!(candidates.num_dropped(), 37);
}

proptest! {
    #[test]
    fn v8_equals_v5_with_full_objectness(
        scores in prop::collection::vec(prop::sample::select(vec![0.0, 0.1, 0.3, 0.5, NAN, 0.9]), 60),
        threshold in 0.01_f32..1.0,
    ) {
        let (rows, classes) = (20, 3);
        let v5: Vec<f32> = (0..rows)
            .flat_map(|row| [&[row as f32, 2.0, 3.0, 4.0, 1.0], &scores[3 * row..3 * row + 3]].concat())
            .collect();
        let v8: Vec<f32> = [0, 1, 2, 3, 5, 6, 7]
            .into_iter()
            .flat_map(|i| v5.iter().copied().skip(i).step_by(8))
            .collect();
        let v5 = decode(&[(vec![1, rows, 8], v5)], &YoloLayout::V5, classes, threshold).unwrap();
        let v8 = decode(&[(vec![1, 7, rows], v8)], &YoloLayout::V8, classes, threshold).unwrap();
        prop_assert_eq!(v5, v8);
    }
}
