use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use half::f16;
use proptest::prelude::*;

use super::*;
use det_post_types::{Anchor, Candidate, PointRange, ScoreThresholds, TensorValues};

const HEIGHT: usize = 2;
const WIDTH: usize = 3;
const NUM_ANCHORS: usize = 4;
/// Channels an anchor: two classes, seven residuals, two directions.
const PER_ANCHOR: [usize; 3] = [2, 7, 2];

fn params() -> AnchorDecode {
    AnchorDecode {
        range: PointRange { min: [0.0, -40.0, -3.0], max: [69.0, 38.0, 1.0] },
        align_center: false,
        anchors: vec![
            Anchor { size_m: [3.9, 1.6, 1.56], center_z_m: -1.0 },
            Anchor { size_m: [0.8, 0.6, 1.73], center_z_m: 0.265 },
        ],
        rotations_rad: vec![0.0, 1.57],
        direction_offset_rad: FRAC_PI_4,
        channels_last: true,
        score_thresholds: ScoreThresholds::uniform(0.5, 2),
    }
}

/// Maps with the channels last: logits of -9, residuals and directions of 0.
fn empty() -> [Vec<f32>; 3] {
    let mut maps = PER_ANCHOR.map(|n| vec![0.0; HEIGHT * WIDTH * NUM_ANCHORS * n]);
    maps[0].fill(-9.0);
    maps
}

fn set(map: &mut [f32], cell: usize, anchor: usize, values: &[f32]) {
    let start = (cell * NUM_ANCHORS + anchor) * values.len();
    map[start..start + values.len()].copy_from_slice(values);
}

/// Decodes maps that are given with the channels last, in any layout.
fn run(
    maps: &[Vec<f32>; 3],
    params: &AnchorDecode,
    with_directions: bool,
    half: bool,
) -> Vec<Candidate<Object3d>> {
    decode(maps, params, with_directions, half).as_slice().to_vec()
}

/// As [`run`], with what was counted.
fn decode(
    maps: &[Vec<f32>; 3],
    params: &AnchorDecode,
    with_directions: bool,
    half: bool,
) -> Candidates<Object3d> {
    let mut shapes = PER_ANCHOR.map(|n| [1, HEIGHT, WIDTH, NUM_ANCHORS * n]);
    let mut maps = maps.clone();
    if !params.channels_last {
        for (map, shape) in maps.iter_mut().zip(&mut shapes) {
            let [_, _, _, channels] = *shape;
            let cells = HEIGHT * WIDTH;
            *map = (0..map.len()).map(|i| map[i % cells * channels + i / cells]).collect();
            *shape = [1, channels, HEIGHT, WIDTH];
        }
    }
    let halves = maps.clone().map(|map| map.into_iter().map(f16::from_f32).collect::<Vec<_>>());
    let view = |i: usize| {
        let values = if half { TensorValues::F16(&halves[i]) } else { TensorValues::F32(&maps[i]) };
        TensorView::new(&shapes[i], values).unwrap()
    };
    let outputs = AnchorOutputs {
        classes: view(0),
        boxes: view(1),
        directions: with_directions.then(|| view(2)),
    };
    let mut candidates = Candidates::with_capacity(100);
    decode_anchor(&outputs, params, &mut candidates).unwrap();
    candidates.finish(usize::MAX);
    candidates
}

fn close(a: f32, b: f32) -> bool {
    (a - b).abs() <= 2e-5 * b.abs().max(1.0)
}

/// The same direction.
fn same_heading(a: f32, b: f32) -> bool {
    (a - b).sin().abs() < 1e-5 && (a - b).cos() > 0.0
}

#[test]
fn one_anchor_by_hand_in_every_layout() {
    let mut maps = empty();
    // Row 1, column 2, the second class's anchor turned by 1.57.
    set(&mut maps[0], 5, 3, &[0.2, 0.8]);
    set(&mut maps[1], 5, 3, &[0.5, -0.25, 0.1, 0.3, -0.2, 0.15, 0.4]);
    set(&mut maps[2], 5, 3, &[0.3, 0.2]);
    for channels_last in [true, false] {
        for (half, tolerance) in [(false, 1e-5), (true, 2e-3)] {
            let params = AnchorDecode { channels_last, ..params() };
            let found = run(&maps, &params, true, half);
            assert_eq!(found.len(), 1);
            let Candidate { bbox, score, class, source } = found[0];
            assert_eq!((class, source), (1, 5 * 4 + 3));
            let bbox = bbox.bbox;
            let [x, y, z] = bbox.center;
            let expected = [
                (score, 0.689_974),
                (x, 69.0 + 0.5),
                (y, 38.0 - 0.25),
                (z, 0.265 + 0.1 * 1.73),
                (bbox.length_m, 1.079_887),
                (bbox.width_m, 0.491_238),
                (bbox.height_m, 2.009_973),
                (bbox.yaw_rad, 1.97),
            ];
            for (found, expected) in expected {
                assert!((found - expected).abs() < tolerance, "{found} {expected} half {half}");
            }
        }
    }
}

#[test]
fn anchors_stand_on_the_border_or_at_cell_centres() {
    let mut maps = empty();
    (0..HEIGHT * WIDTH).for_each(|cell| set(&mut maps[0], cell, 0, &[1.0, 0.0]));
    for (align_center, xs, ys) in
        [(false, [0.0, 34.5, 69.0], [-40.0, 38.0]), (true, [11.5, 34.5, 57.5], [-20.5, 18.5])]
    {
        let found = run(&maps, &AnchorDecode { align_center, ..params() }, false, false);
        assert_eq!(found.len(), 6);
        for candidate in found {
            let cell = candidate.source as usize / NUM_ANCHORS;
            let [x, y, z] = candidate.bbox.bbox.center;
            assert_eq!([x, y, z], [xs[cell % WIDTH], ys[cell / WIDTH], -1.0]);
        }
    }
}

#[test]
fn the_direction_classifier_chooses_the_half_turn() {
    // (residual of the yaw, offset, directions, yaw)
    for (residual, offset, directions, yaw) in [
        (1.0, FRAC_PI_4, [1.0, 0.0], 1.0),
        (1.0, FRAC_PI_4, [0.0, 1.0], 1.0 + PI),
        (0.5, FRAC_PI_4, [1.0, 0.0], 0.5 + PI), // below the offset: the next half turn
        (0.5, FRAC_PI_4, [0.0, 1.0], 0.5),
        (-2.0, FRAC_PI_4, [1.0, 0.0], -2.0 + PI),
        (-2.0, 0.0, [0.0, 1.0], -2.0),
        (4.0, 0.0, [0.5, 0.5], 4.0 - PI), // a tie is the first
    ] {
        let mut maps = empty();
        set(&mut maps[0], 1, 0, &[2.0, 0.0]);
        set(&mut maps[1], 1, 0, &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, residual]);
        set(&mut maps[2], 1, 0, &directions);
        let params = AnchorDecode { direction_offset_rad: offset, ..params() };
        let found = run(&maps, &params, true, false)[0].bbox.bbox.yaw_rad;
        assert!(same_heading(found, yaw) && found.abs() <= PI, "{residual} {found} {yaw}");
    }
    let mut maps = empty();
    set(&mut maps[0], 1, 1, &[2.0, 0.0]);
    let found = run(&maps, &params(), false, false)[0].bbox.bbox.yaw_rad;
    assert!((found - FRAC_PI_2).abs() < 1e-3, "no classifier: only the residual coder, {found}");
}

#[test]
fn scores_ties_thresholds_and_nan() {
    let with = |score_thresholds| AnchorDecode { score_thresholds, ..params() };
    let by_distance = |limits: [f32; 2], per_class: [[f32; 2]; 2]| {
        with(ScoreThresholds {
            distance_upper_limits_m: limits.to_vec(),
            per_class: per_class.map(|bins| bins.to_vec()).to_vec(),
        })
    };
    let nan = f32::NAN;
    // Cell 0 is 40 m away. (logits, parameters, class)
    let cases = [
        ([0.0, 0.0], params(), Some(0)),
        ([nan, 0.0], params(), Some(1)),
        ([0.0, nan], params(), Some(0)),
        ([nan, nan], params(), None),
        ([-1e-6, -1e-6], params(), None),
        ([f32::NEG_INFINITY, 0.1], params(), Some(1)),
        ([1.0, 2.0], by_distance([30.0, 50.0], [[0.1, 0.1], [0.1, 0.9]]), None),
        ([2.0, 1.0], by_distance([30.0, 50.0], [[0.9, 0.1], [0.9, 0.9]]), Some(0)),
        ([2.0, 1.0], by_distance([30.0, 40.0], [[0.1, 0.1], [0.1, 0.1]]), None),
        ([1.0, 9.0], with(ScoreThresholds::uniform(0.1, 1)), None),
        ([9.0, 9.0], with(ScoreThresholds::uniform(0.1, 0)), None),
    ];
    for (logits, params, class) in cases {
        let mut maps = empty();
        set(&mut maps[0], 0, 2, &logits);
        let found = run(&maps, &params, false, false);
        assert_eq!(found.first().map(|c| c.class), class, "{logits:?}");
    }
    for (map, channel) in [(1, 0), (1, 2), (1, 5), (1, 6), (2, 0), (2, 1)] {
        let mut maps = empty();
        set(&mut maps[0], 3, 1, &[1.0, 0.0]);
        assert_eq!(run(&maps, &params(), true, false).len(), 1);
        maps[map][(3 * NUM_ANCHORS + 1) * PER_ANCHOR[map] + channel] = nan;
        assert!(run(&maps, &params(), true, false).is_empty(), "map {map} channel {channel}");
    }
}

#[test]
fn anchors_with_a_nan_logit_are_counted_once() {
    let nan = f32::NAN;
    let mut maps = empty();
    set(&mut maps[0], 0, 2, &[nan, 1.0]);
    set(&mut maps[0], 1, 0, &[-1.0, nan]);
    set(&mut maps[0], 5, 3, &[nan, nan]);
    set(&mut maps[0], 4, 3, &[1.0, 0.0]);
    // Neither boxes nor directions are scores.
    set(&mut maps[1], 4, 3, &[nan; 7]);
    set(&mut maps[2], 4, 3, &[nan; 2]);
    for channels_last in [true, false] {
        for (half, thresholds) in [
            (false, ScoreThresholds::uniform(0.5, 2)),
            (true, ScoreThresholds::uniform(2.0, 2)),
            (false, ScoreThresholds::uniform(0.5, 0)),
        ] {
            let params = AnchorDecode { channels_last, score_thresholds: thresholds, ..params() };
            let candidates = decode(&maps, &params, true, half);
            assert_eq!((candidates.num_nan_scores(), candidates.num_dropped()), (3, 0));
        }
    }
    assert_eq!(decode(&empty(), &params(), true, false).num_nan_scores(), 0);
}

#[test]
fn anchors_that_pass_and_are_no_boxes_are_counted() {
    let [nan, inf] = [f32::NAN, f32::INFINITY];
    let by_distance = ScoreThresholds {
        distance_upper_limits_m: vec![1.0, 1000.0],
        per_class: vec![vec![0.9, 0.6]; 2],
    };
    // Residual (or direction, from 7 on), value, logit; whether it is counted.
    let cases = [
        (0, nan, 1.0, true),
        (1, inf, 1.0, true),
        (1, inf, 0.3, false), // below the lowest threshold
        (2, -inf, 1.0, true),
        (3, 100.0, 1.0, true), // overflows
        (5, nan, 1.0, true),
        (6, nan, 1.0, true),
        (6, inf, 1.0, true),
        (7, nan, 1.0, true),
        (8, nan, 1.0, true),
        (3, nan, -9.0, false),
        (0, 1e30, 1.0, false), // beyond the last limit
    ];
    for (channel, value, logit, is_counted) in cases {
        for (channels_last, half) in [(true, false), (false, false)] {
            let mut maps = empty();
            set(&mut maps[0], 4, 3, &[logit, -9.0]);
            let [mut residuals, mut directions] = [vec![0.0; 7], vec![0.0; 2]];
            match channel {
                0..7 => residuals[channel] = value,
                _ => directions[channel - 7] = value,
            }
            set(&mut maps[1], 4, 3, &residuals);
            set(&mut maps[2], 4, 3, &directions);
            let score_thresholds = by_distance.clone();
            let params = AnchorDecode { channels_last, score_thresholds, ..params() };
            let found = decode(&maps, &params, true, half);
            let counts = (found.as_slice().len(), found.num_invalid_boxes());
            assert_eq!(counts, (0, usize::from(is_counted)), "{channel} {value} {logit}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let values = vec![0.0; 1000];
    let view = |shape: &'static [usize]| {
        let num = shape.iter().product();
        TensorView::new(shape, TensorValues::F32(&values[..num])).unwrap()
    };
    let integers = [0; HEIGHT * WIDTH * 8];
    let integers = TensorView::new(&[1, HEIGHT, WIDTH, 8], TensorValues::I32(&integers)).unwrap();
    let (classes, boxes) = (view(&[1, 2, 3, 8]), view(&[1, 2, 3, 28]));
    let good = AnchorOutputs { classes, boxes, directions: None };
    let mut candidates = Candidates::with_capacity(1);
    assert!(decode_anchor(&good, &params(), &mut candidates).is_ok());
    for (outputs, message) in [
        (AnchorOutputs { classes: view(&[1, 2, 3, 4]), ..good }, "classes are f32"),
        (AnchorOutputs { classes: view(&[6, 8]), ..good }, "4 dimensions"),
        (AnchorOutputs { classes: integers, ..good }, "classes are i32"),
        (AnchorOutputs { boxes: view(&[1, 2, 3, 24]), ..good }, "boxes are f32"),
        (AnchorOutputs { boxes: view(&[1, 3, 2, 28]), ..good }, "boxes are f32"),
        (AnchorOutputs { directions: Some(boxes), ..good }, "directions are f32"),
    ] {
        let error = decode_anchor(&outputs, &params(), &mut candidates).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains(message), "{error}");
    }
    let first = AnchorDecode { channels_last: false, ..params() };
    assert!(decode_anchor(&good, &first, &mut candidates).is_err());
}

proptest! {
    /// Against the formulas in f64, anchor by anchor.
    #[test]
    fn equals_the_formulas(
        logits in prop::collection::vec(-3.0_f32..3.0, HEIGHT * WIDTH * 8),
        boxes in prop::collection::vec(-1.5_f32..1.5, HEIGHT * WIDTH * 28),
        directions in prop::collection::vec(-1.0_f32..1.0, HEIGHT * WIDTH * 8),
        align_center: bool,
        channels_last: bool,
    ) {
        let maps = [logits, boxes, directions];
        let params = AnchorDecode { align_center, channels_last, ..params() };
        let mut found = run(&maps, &params, true, false);
        found.sort_by_key(|candidate| candidate.source);
        let mut found = found.into_iter().peekable();
        for source in 0..HEIGHT * WIDTH * NUM_ANCHORS {
            let (cell, index) = (source / NUM_ANCHORS, source % NUM_ANCHORS);
            let at = |map: usize, i: usize| f64::from(maps[map][source * PER_ANCHOR[map] + i]);
            let class = u32::from(at(0, 1) > at(0, 0));
            let logit = at(0, class as usize);
            if logit.abs() < 1e-5 {
                found.next_if(|candidate| candidate.source == source as u32);
                continue;
            }
            let candidate = found.next_if(|candidate| candidate.source == source as u32);
            prop_assert_eq!(candidate.is_some(), logit > 0.0);
            let Some(Candidate { bbox, score, class: found_class, .. }) = candidate else { continue };
            prop_assert_eq!(found_class, class);
            let (anchor_class, turned) = (index / 2, index % 2 == 1);
            let [la, wa, ha] = params.anchors[anchor_class].size_m.map(f64::from);
            let (xa, ya) = if align_center {
                ((0.5 + (cell % WIDTH) as f64) * 23.0, -40.0 + (0.5 + (cell / WIDTH) as f64) * 39.0)
            } else {
                ((cell % WIDTH) as f64 * 34.5, -40.0 + (cell / WIDTH) as f64 * 78.0)
            };
            let za = f64::from(params.anchors[anchor_class].center_z_m);
            let [x, y, z] = bbox.bbox.center;
            for (found, expected) in [
                (score, 1.0 / (1.0 + (-logit).exp())),
                (x, at(1, 0) * la.hypot(wa) + xa),
                (y, at(1, 1) * la.hypot(wa) + ya),
                (z, at(1, 2) * ha + za),
                (bbox.bbox.length_m, la * at(1, 3).exp()),
                (bbox.bbox.width_m, wa * at(1, 4).exp()),
                (bbox.bbox.height_m, ha * at(1, 5).exp()),
            ] {
                prop_assert!(close(found, expected as f32), "{} {}", found, expected);
            }
            // The heading in the half plane that the classifier selects.
            let raw = at(1, 6) + if turned { 1.57 } else { 0.0 };
            let from_offset = f64::from(bbox.bbox.yaw_rad) - std::f64::consts::FRAC_PI_4;
            prop_assert!((f64::from(bbox.bbox.yaw_rad) - raw).sin().abs() < 1e-5);
            if from_offset.sin().abs() > 1e-4 {
                prop_assert_eq!(from_offset.sin() < 0.0, at(2, 1) > at(2, 0));
            }
        }
        prop_assert!(found.next().is_none());
    }
}
