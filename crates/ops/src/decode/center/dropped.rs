//! Tests of cells that pass the threshold and are no boxes.

use super::tests::{CELLS, Task, decode, params};
use det_post_types::{Candidates, CenterDecode, PointRange, ScoreThresholds};

#[test]
fn cells_that_pass_and_are_no_boxes_are_counted() {
    let [nan, inf] = [f32::NAN, f32::INFINITY];
    let by_distance = ScoreThresholds {
        distance_upper_limits_m: vec![2.0, 100.0],
        per_class: vec![vec![0.9, 0.6]],
    };
    let range = PointRange { min: [-50.0; 3], max: [50.0; 3] };
    let strict = CenterDecode {
        score_thresholds: by_distance,
        center_range: Some(range),
        yaw_norm_thresholds: vec![0.5],
        size_log: false,
        ..params(&[&[0]])
    };
    // Map, channel, value, heat; boxes, and invalid ones.
    let cases = [
        (3, 0, 1.0, 3.0, 1, 0),
        (3, 0, 0.0, 3.0, 1, 0),
        (3, 0, -0.5, 3.0, 0, 1),
        (3, 1, -1e-9, 3.0, 0, 1),
        (3, 2, nan, 3.0, 0, 1),
        (1, 0, inf, 3.0, 0, 1),  // neither in the range nor in a bin
        (1, 1, -inf, 0.5, 0, 1), // the lowest threshold, 0.6, of a centre that is none
        (1, 1, nan, 0.2, 0, 0),
        (2, 0, nan, 3.0, 0, 1),
        (4, 0, nan, 3.0, 0, 1), // a norm that is none
        (4, 1, inf, 3.0, 0, 1),
        (4, 1, 0.1, 3.0, 0, 0), // below the norm
        (5, 1, nan, 3.0, 0, 1),
        (1, 0, 500.0, 3.0, 0, 0), // out of range
        (3, 0, nan, -9.0, 0, 0),  // below the threshold
    ];
    for (map, channel, value, heat, num_boxes, num_invalid) in cases {
        let mut task = Task::empty(1, 1);
        (3..4).for_each(|map| task.maps[map].fill(1.0));
        task.set(0, 6, &[heat]);
        task.maps[map][channel * CELLS + 6] = value;
        for half in [false, true] {
            let mut candidates = Candidates::with_capacity(9);
            decode(std::slice::from_ref(&task), &strict, half, &mut candidates);
            let found = (candidates.as_slice().len(), candidates.num_invalid_boxes());
            let negative_zero = half && value == -1e-9;
            let expected = if negative_zero { (1, 0) } else { (num_boxes, num_invalid) };
            assert_eq!(found, expected, "map {map} channel {channel} {value} heat {heat}");
        }
    }
    // An extent that overflows, and a variance.
    let mut task = Task::empty(1, 2);
    task.set(0, 6, &[3.0]);
    task.set(3, 6, &[89.0]);
    task.set(0, 7, &[3.0]);
    task.maps[2][CELLS + 7] = nan;
    let params = CenterDecode { has_variance: true, ..params(&[&[0]]) };
    let mut candidates = Candidates::with_capacity(9);
    decode(&[task], &params, false, &mut candidates);
    assert_eq!((candidates.as_slice().len(), candidates.num_invalid_boxes()), (0, 2));
}

#[test]
fn cells_with_nan_heat_are_counted_once_in_a_task() {
    let nan = f32::NAN;
    let mut tasks = [Task::empty(1, 1), Task::empty(2, 1)];
    tasks[0].set(0, 2, &[nan]);
    // Maps other than the heat have no scores.
    (1..6).for_each(|map| tasks[0].set(map, 5, &[nan]));
    for (cell, heat) in [(2, [nan, 0.7]), (3, [nan, nan]), (CELLS - 1, [1.0, nan])] {
        tasks[1].set(0, cell, &heat);
    }
    let mut candidates = Candidates::with_capacity(1);
    for (half, threshold, num_classes) in [(false, 0.4, 3), (true, 2.0, 3), (false, 0.4, 0)] {
        let score_thresholds = ScoreThresholds::uniform(threshold, num_classes);
        let params = CenterDecode { score_thresholds, ..params(&[&[0], &[1, 2]]) };
        decode(&tasks, &params, half, &mut candidates);
        assert_eq!(candidates.num_nan_scores(), 4);
    }
}
