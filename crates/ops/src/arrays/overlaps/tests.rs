use std::f32::consts::FRAC_PI_2;

use super::*;

fn measured(
    [first, second]: [&[f32]; 2],
    kind: BoxKind,
    measure: Measure,
    pairing: Pairing,
) -> Vec<f32> {
    let num = num_overlaps(kind, pairing, [first.len(), second.len()]).unwrap();
    let mut out = vec![f32::NAN; num];
    overlaps([first, second], kind, measure, pairing, &mut out).unwrap();
    out
}

const ALIGNED: BoxKind = BoxKind::Aligned { offset: 0.0 };

#[test]
fn every_first_box_meets_every_second_one() {
    let first = [0.0, 0.0, 4.0, 2.0, 10.0, 0.0, 12.0, 2.0];
    let second = [2.0, 0.0, 6.0, 2.0, 0.0, 0.0, 4.0, 2.0, 9.0, 0.0, 13.0, 2.0];
    let of = |measure| measured([&first, &second], ALIGNED, measure, Pairing::All);
    assert_eq!(of(Measure::Intersection), [4.0, 8.0, 0.0, 0.0, 0.0, 4.0]);
    assert_eq!(of(Measure::Iou), [4.0 / 12.0, 1.0, 0.0, 0.0, 0.0, 0.5]);
    assert_eq!(of(Measure::Iof), [0.5, 1.0, 0.0, 0.0, 0.0, 1.0]);
    let rows = measured([&first, &second[4..]], ALIGNED, Measure::Iou, Pairing::Rows);
    assert_eq!(rows, [1.0, 0.5]);
    let pixels = BoxKind::Aligned { offset: 1.0 };
    let one = measured([&[0.0, 0.0, 1.0, 1.0]; 2], pixels, Measure::Intersection, Pairing::All);
    assert_eq!(one, [4.0]);
}

#[test]
fn rotated_boxes_and_boxes_in_space_turn() {
    let flat = [0.0, 0.0, 4.0, 2.0, 0.0];
    let turned = [0.0, 0.0, 4.0, 2.0, FRAC_PI_2];
    let of = |measure| measured([&flat, &turned], BoxKind::Rotated, measure, Pairing::All)[0];
    let close = |found: f32, expected: f32| assert!((found - expected).abs() < 1e-5, "{found}");
    close(of(Measure::Intersection), 4.0);
    close(of(Measure::Iou), 4.0 / 12.0);
    close(of(Measure::Iof), 0.5);
    let low = [0.0, 0.0, 0.0, 4.0, 2.0, 2.0, 0.0];
    let high = [0.0, 0.0, 1.0, 4.0, 2.0, 2.0, FRAC_PI_2];
    let of = |measure| measured([&low, &high], BoxKind::InSpace, measure, Pairing::All)[0];
    close(of(Measure::Intersection), 4.0);
    close(of(Measure::Iou), 4.0 / 28.0);
    close(of(Measure::Iof), 0.25);
}

#[test]
fn empty_boxes_and_no_boxes_overlap_nothing() {
    let empty = [3.0, 3.0, 1.0, 1.0];
    for measure in [Measure::Intersection, Measure::Iou, Measure::Iof] {
        assert_eq!(measured([&empty, &empty], ALIGNED, measure, Pairing::All), [0.0]);
        assert!(measured([&[], &empty], ALIGNED, measure, Pairing::All).is_empty());
        assert!(measured([&empty, &[]], ALIGNED, measure, Pairing::All).is_empty());
    }
}

#[test]
fn points_are_in_boxes() {
    let boxes = [0.0, 0.0, 0.0, 4.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 4.0, 2.0, 2.0, FRAC_PI_2];
    let points = [1.5, 0.0, 0.0, 0.0, 1.5, 1.0, 0.0, 0.0, 1.1, 0.5, 0.5, -1.0, f32::NAN, 0.0, 0.0];
    let mut all = [9; 10];
    points_in_boxes(&points, &boxes, &mut all).unwrap();
    assert_eq!(all, [1, 0, 0, 1, 0, 0, 1, 1, 0, 0]);
    let mut first = [9; 5];
    first_boxes_of_points(&points, &boxes, &mut first).unwrap();
    assert_eq!(first, [0, 1, -1, 0, -1]);
    let mut sides = [9; 2];
    points_in_boxes(&[2.0, 0.0, 0.0], &boxes, &mut sides).unwrap();
    assert_eq!(sides, [0, 0]);
    first_boxes_of_points(&points, &[], &mut first).unwrap();
    assert_eq!(first, [-1; 5]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut out = [0.0; 2];
    let refused = |result: Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Argument);
    let one = [0.0; 4];
    refused(overlaps([&one, &one], ALIGNED, Measure::Iou, Pairing::All, &mut out));
    refused(overlaps([&one[1..], &one], ALIGNED, Measure::Iou, Pairing::All, &mut out[1..]));
    refused(overlaps([&[0.0; 8], &one], ALIGNED, Measure::Iou, Pairing::Rows, &mut out));
    refused(points_in_boxes(&one, &[0.0; 7], &mut [0]));
    refused(points_in_boxes(&one[1..], &[0.0; 7], &mut [0; 2]));
    refused(first_boxes_of_points(&one[1..], &[0.0; 7], &mut [0; 2]));
}
