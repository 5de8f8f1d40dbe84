//! Tests of rows that pass the threshold and are dropped: no boxes, classes that are none.

use super::tests::{INF, NAN, Values, counted, num_nan};
use det_post_types::{AnchorLevel, Candidates, DetrBoxes, DetrClasses, YoloLayout};

#[test]
fn rows_that_pass_and_are_no_boxes_are_counted() {
    // Four numbers as `cx cy w h`, as `x1 y1 x2 y2`, as offsets and logarithms: whether a
    // row with them is counted.
    let rows = [
        ([5.0, 5.0, 9.0, 9.0], [false; 3]),
        ([5.0, 5.0, 0.0, 0.0], [false, true, false]),
        ([5.0, 5.0, 5.0, 5.0], [false; 3]), // without an area, not reversed
        ([5.0, 5.0, -1.0, 9.0], [true, true, false]),
        ([5.0, 5.0, 9.0, -0.5], [true, true, false]),
        ([9.0, 5.0, 5.0, 9.0], [false, true, false]),
        ([NAN, 5.0, 9.0, 9.0], [true; 3]),
        ([5.0, INF, 9.0, 9.0], [true; 3]),
        ([5.0, 5.0, INF, 9.0], [true; 3]),
        ([5.0, 5.0, 9.0, NAN], [true; 3]),
        ([5.0, 5.0, 90.0, 90.0], [false, false, true]), // overflows after the exponential
    ];
    let count = |outputs: &[Values], layout: &YoloLayout| {
        counted(outputs, layout, 2, Candidates::num_invalid_boxes)
    };
    for (numbers, [of_center, of_corners, of_offsets]) in rows {
        for (score, passes) in [(0.9, true), (0.1, false)] {
            let whole = [&numbers[..], &[1.0, score, 0.0]].concat();
            let expected = |is_invalid: bool| 6 * usize::from(passes && is_invalid);
            let message = format!("{numbers:?} {score}");
            let v5 = (vec![1, 6, 7], whole.repeat(6));
            assert_eq!(
                count(std::slice::from_ref(&v5), &YoloLayout::V5),
                expected(of_center),
                "{message}"
            );
            let yolox = YoloLayout::Yolox { strides: vec![32] };
            assert_eq!(count(&[v5], &yolox), expected(of_offsets), "{message}");
            let planes: Vec<f32> =
                [&numbers[..], &[score, 0.0]].concat().iter().flat_map(|&v| [v; 6]).collect();
            let v8 = (vec![1, 6, 6], planes);
            assert_eq!(count(&[v8], &YoloLayout::V8), expected(of_center), "{message}");
            let row = [&numbers[..], &[score, 1.0]].concat();
            let end_to_end = (vec![1, 6, 6], row.repeat(6));
            let found = count(&[end_to_end], &YoloLayout::EndToEnd);
            assert_eq!(found, expected(of_corners), "{message}");
            let boxes = (vec![1, 6, 4], numbers.repeat(6));
            let scores = (vec![1, 6, 2], [score, 0.0].repeat(6));
            let best = (vec![1, 6], [score].repeat(6));
            let labels = (vec![1, 6], vec![1.0; 6]);
            for outputs in [vec![boxes.clone(), scores], vec![boxes, best, labels]] {
                for (boxes, is_invalid) in [
                    (DetrBoxes::CornerPixels, of_corners),
                    (DetrBoxes::CenterNormalized, of_center),
                ] {
                    let layout =
                        YoloLayout::Detr { boxes, logits: false, classes: DetrClasses::Best };
                    assert_eq!(count(&outputs, &layout), expected(is_invalid), "{message}");
                }
            }
        }
    }
    // Of logits, a number that is infinite is saturated: NaN is the only one that is no box.
    let raw =
        YoloLayout::V5Raw { levels: vec![AnchorLevel { stride: 32, anchors: vec![[4.0, 4.0]] }] };
    for (number, expected) in [(NAN, 6), (INF, 0), (-INF, 0), (-3.0, 0)] {
        let row = [0.0, 0.0, number, 0.0, 3.0, 3.0, 0.0];
        assert_eq!(count(&[(vec![1, 1, 2, 3, 7], row.repeat(6))], &raw), expected, "{number}");
    }
    // A score that is infinite.
    let row = [5.0, 5.0, 9.0, 9.0, INF, 1.0];
    assert_eq!(count(&[(vec![1, 1, 6], row.to_vec())], &YoloLayout::EndToEnd), 1);
}

#[test]
fn rows_that_pass_with_a_class_that_is_none_are_counted() {
    let count = |outputs: &[Values], layout: &YoloLayout| {
        counted(outputs, layout, 3, Candidates::num_unknown_classes)
    };
    // Class; whether it is one of three.
    let classes = [
        (0.0, true),
        (2.9, true),
        (3.0, false),
        (85.0, false),
        (-1.0, false),
        (NAN, false),
        (INF, false),
    ];
    for (class, is_known) in classes {
        for (score, passes) in [(0.9, true), (0.1, false)] {
            let expected = 6 * usize::from(passes && !is_known);
            // The box is not looked at.
            for corner in [9.0, NAN] {
                let row = [1.0, 1.0, corner, 9.0, score, class];
                let found = count(&[(vec![1, 6, 6], row.repeat(6))], &YoloLayout::EndToEnd);
                assert_eq!(found, expected, "{class} {score}");
                let boxes = (vec![1, 6, 4], row[..4].repeat(6));
                let [scores, labels] = [score, class].map(|value| (vec![1, 6], vec![value; 6]));
                let layout = YoloLayout::Detr {
                    boxes: DetrBoxes::CornerPixels,
                    logits: false,
                    classes: DetrClasses::Best,
                };
                assert_eq!(count(&[boxes, scores, labels], &layout), expected, "{class} {score}");
            }
        }
    }
}

#[test]
fn rows_with_a_nan_score_are_counted_once() {
    // Objectness and scores of two classes.
    let rows = [
        ([1.0, 0.5, 0.5], 0),
        ([NAN, 1.0, 1.0], 1),
        ([1.0, NAN, 0.5], 1),
        ([1.0, NAN, NAN], 1),
        ([0.1, NAN, NAN], 0), // not read: the objectness is below the threshold
        ([1.0, 0.1, NAN], 1),
        ([NAN, NAN, NAN], 1),
    ];
    // Each row once, and six times.
    for ([objectness, first, second], expected) in rows {
        for num_rows in [1, 6] {
            let of_row = |row: &[f32]| row.repeat(num_rows);
            let shape = |length| vec![1, num_rows, length];
            let expected = num_rows * expected;
            let whole = [5.0, 5.0, 1.0, 1.0, objectness, first, second];
            let v5 = (shape(7), of_row(&whole));
            assert_eq!(num_nan(&[v5], &YoloLayout::V5, 2), expected, "{whole:?}");
        }
        // Six cells of stride 32.
        let whole = [0.0, 0.0, 0.0, 0.0, objectness, first, second];
        let yolox = YoloLayout::Yolox { strides: vec![32] };
        assert_eq!(num_nan(&[(vec![1, 6, 7], whole.repeat(6))], &yolox, 2), 6 * expected);
        let levels = vec![AnchorLevel { stride: 32, anchors: vec![[4.0, 4.0]] }];
        let raw = YoloLayout::V5Raw { levels };
        // Logits: the threshold is at -1.1.
        let logit = if objectness == 0.1 { -2.0 } else { objectness };
        let whole = [0.0, 0.0, 0.0, 0.0, logit, first, second];
        let last = (vec![1, 1, 2, 3, 7], whole.repeat(6));
        let outermost = (vec![1, 7, 2, 3], whole.iter().flat_map(|&v| [v; 6]).collect());
        for output in [last, outermost] {
            assert_eq!(num_nan(&[output], &raw, 2), 6 * expected, "{whole:?}");
        }
    }
    let end_to_end = [[5.0, 5.0, 9.0, 9.0, NAN, 1.0], [NAN, 5.0, 9.0, 9.0, 0.9, NAN]];
    let output = (vec![1, 2, 6], end_to_end.concat());
    assert_eq!(num_nan(&[output], &YoloLayout::EndToEnd, 2), 1);
    for logits in [false, true] {
        let layout =
            YoloLayout::Detr { boxes: DetrBoxes::CornerPixels, logits, classes: DetrClasses::Best };
        let corners = (vec![1, 3, 4], vec![NAN; 12]);
        let scores = (vec![1, 3, 2], vec![NAN, 0.1, 0.2, 0.3, NAN, NAN]);
        assert_eq!(num_nan(&[corners.clone(), scores], &layout, 2), 2);
        let scores = (vec![1, 3], vec![NAN, 0.9, NAN]);
        let labels = (vec![1, 3], vec![NAN, NAN, 0.0]);
        assert_eq!(num_nan(&[corners, scores, labels], &layout, 2), 2);
    }
}
