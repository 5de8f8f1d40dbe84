use std::f32::consts::{FRAC_PI_2, PI};

use half::f16;
use proptest::prelude::*;

use super::*;
use det_post_types::{
    Candidate, PointRange, ScoreThresholds, SizeOrder, TensorValues, Variance3d, YawConvention,
};

/// Values of the maps of one task on a map of `HEIGHT` x `WIDTH`, channel by
/// channel: heat, offset, height, size, rotation, velocity.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) maps: [Vec<f32>; 6],
}

const HEIGHT: usize = 3;
const WIDTH: usize = 5;
pub(super) const CELLS: usize = HEIGHT * WIDTH;

impl Task {
    /// No object anywhere: logits of -9, everything else 0 but the cosine.
    pub(super) fn empty(num_classes: usize, copies: usize) -> Self {
        let mut maps = [num_classes, 2 * copies, copies, 3 * copies, 2 * copies, 2 * copies]
            .map(|channels| vec![0.0; channels * CELLS]);
        maps[0].fill(-9.0);
        maps[4][CELLS..2 * CELLS].fill(1.0);
        Self { maps }
    }

    pub(super) fn set(&mut self, map: usize, cell: usize, values: &[f32]) {
        for (channel, &value) in values.iter().enumerate() {
            self.maps[map][channel * CELLS + cell] = value;
        }
    }
}

pub(super) fn params(tasks: &[&[u32]]) -> CenterDecode {
    let num_classes = tasks.iter().flat_map(|classes| classes.iter()).max().unwrap() + 1;
    CenterDecode {
        origin_m: [-10.0, -4.0],
        cell_size_m: [0.5, 0.8],
        tasks: tasks.iter().map(|classes| classes.to_vec()).collect(),
        heatmap_logits: true,
        size_order: SizeOrder::WidthLengthHeight,
        size_log: true,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(0.4, num_classes as usize),
        yaw_norm_thresholds: Vec::new(),
        center_range: None,
        has_velocity: true,
        has_variance: false,
    }
}

/// Decodes in f32 or f16, sorted.
fn run(tasks: &[Task], params: &CenterDecode, half: bool) -> Vec<Candidate<Object3d>> {
    let mut candidates = Candidates::with_capacity(100);
    decode(tasks, params, half, &mut candidates);
    candidates.as_slice().to_vec()
}

/// As [`run`], into candidates that are there.
pub(super) fn decode(
    tasks: &[Task],
    params: &CenterDecode,
    half: bool,
    to: &mut Candidates<Object3d>,
) {
    let shapes: Vec<[[usize; 4]; 6]> = tasks
        .iter()
        .map(|task| std::array::from_fn(|i| [1, task.maps[i].len() / CELLS, HEIGHT, WIDTH]))
        .collect();
    let halves: Vec<[Vec<f16>; 6]> = tasks
        .iter()
        .map(|task| {
            std::array::from_fn(|i| task.maps[i].iter().map(|&v| f16::from_f32(v)).collect())
        })
        .collect();
    let views: Vec<CenterTask<TensorView<'_>>> = (0..tasks.len())
        .map(|t| {
            let view = |i: usize| {
                let values = if half {
                    TensorValues::F16(&halves[t][i])
                } else {
                    TensorValues::F32(&tasks[t].maps[i])
                };
                TensorView::new(&shapes[t][i], values).unwrap()
            };
            CenterTask {
                heatmap: view(0),
                offset: view(1),
                height: view(2),
                size: view(3),
                rotation: view(4),
                velocity: Some(view(5)),
            }
        })
        .collect();
    decode_center(&views, params, to).unwrap();
    assert_eq!(to.finish(usize::MAX), 0);
}

fn close(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-5 * b.abs().max(1.0)
}

#[test]
fn one_cell_by_hand() {
    let mut tasks = [Task::empty(1, 1), Task::empty(2, 1)];
    let cell = 2 * WIDTH + 3;
    tasks[1].set(0, cell, &[-1.0, 0.8]);
    tasks[1].set(1, cell, &[0.25, 0.75]);
    tasks[1].set(2, cell, &[-1.5]);
    tasks[1].set(3, cell, &[0.5, 1.25, 0.375]);
    tasks[1].set(4, cell, &[0.25, -0.5]);
    tasks[1].set(5, cell, &[3.0, -2.0]);
    let params = params(&[&[0], &[1, 2]]);
    for half in [false, true] {
        let found = run(&tasks, &params, half);
        assert_eq!(found.len(), 1);
        let Candidate { bbox, score, class, source } = found[0];
        assert_eq!((class, source), (2, (CELLS + cell) as u32));
        assert!((score - 0.689_974).abs() < if half { 1e-4 } else { 1e-6 });
        assert_eq!(bbox.bbox.center, [(3.0 + 0.25) * 0.5 - 10.0, (2.0 + 0.75) * 0.8 - 4.0, -1.5]);
        assert!(close(bbox.bbox.length_m, 3.490_343) && close(bbox.bbox.width_m, 1.648_721));
        assert!(close(bbox.bbox.height_m, 1.454_991) && close(bbox.bbox.yaw_rad, 2.677_945));
        assert_eq!(bbox.velocity_mps, Some([3.0, -2.0]));
        assert_eq!(bbox.variance, None);
    }
}

#[test]
fn switches_change_one_thing_each() {
    let mut task = Task::empty(1, 1);
    task.set(0, 7, &[0.75]);
    task.set(3, 7, &[1.5, 4.0, 2.0]);
    task.set(4, 7, &[0.6, 0.8]);
    let task = [task];
    let base = CenterDecode { size_log: false, ..params(&[&[0]]) };
    let sizes = |params: &CenterDecode| {
        let bbox = run(&task, params, false)[0].bbox.bbox;
        [bbox.length_m, bbox.width_m, bbox.height_m]
    };
    assert_eq!(sizes(&base), [4.0, 1.5, 2.0]);
    let ordered = CenterDecode { size_order: SizeOrder::LengthWidthHeight, ..base.clone() };
    assert_eq!(sizes(&ordered), [1.5, 4.0, 2.0]);

    let plain = CenterDecode { heatmap_logits: false, has_velocity: false, ..base.clone() };
    let found = run(&task, &plain, false)[0];
    assert_eq!((found.score, found.bbox.velocity_mps), (0.75, None));

    let turned = CenterDecode { yaw: YawConvention::ClockwiseFromMinusY, ..base };
    for (angle, yaw) in [(0.3, -0.3 - FRAC_PI_2), (2.0, 1.5 * PI - 2.0), (-2.0, 2.0 - FRAC_PI_2)] {
        let mut task = task.clone();
        task[0].set(4, 7, &[f32::sin(angle), f32::cos(angle)]);
        assert!(close(run(&task, &turned, false)[0].bbox.bbox.yaw_rad, yaw), "{angle}");
    }
}

#[test]
fn thresholds_by_class_distance_yaw_norm_and_range() {
    let mut task = Task::empty(2, 1);
    // Cell 2 lies at (-9, -4), 9.8 m away; cell 14 at (-8, -2.4), 8.4 m away.
    task.set(0, 2, &[0.0, -9.0]);
    task.set(0, 14, &[-9.0, 0.0]);
    task.set(4, 14, &[0.3, 0.0]);
    let task = [task];
    let base = params(&[&[0, 1]]);
    let thresholds = |limits: &[f32], per_class: [&[f32]; 2]| ScoreThresholds {
        distance_upper_limits_m: limits.to_vec(),
        per_class: per_class.map(<[f32]>::to_vec).to_vec(),
    };
    let with = |score_thresholds| CenterDecode { score_thresholds, ..base.clone() };
    let norm = |yaw_norm_thresholds| CenterDecode { yaw_norm_thresholds, ..base.clone() };
    let range =
        |min, max| CenterDecode { center_range: Some(PointRange { min, max }), ..base.clone() };
    let cases = [
        (with(thresholds(&[], [&[0.5], &[0.5]])), &[2, 14][..]), // 0.5 reaches 0.5
        (with(thresholds(&[], [&[0.500_000_1], &[0.5]])), &[14]),
        (with(thresholds(&[9.0, 20.0], [&[0.1, 0.6], &[0.5, 0.9]])), &[14]),
        (with(thresholds(&[9.0, 20.0], [&[0.9, 0.5], &[0.6, 0.1]])), &[2]),
        (with(thresholds(&[5.0, 9.0], [&[0.1, 0.1], &[0.1, 0.1]])), &[14]),
        (with(ScoreThresholds::uniform(0.1, 1)), &[2]),
        (with(ScoreThresholds::uniform(f32::NAN, 2)), &[]),
        // A class that a filter leaves out.
        (with(thresholds(&[], [&[f32::INFINITY], &[0.5]])), &[14]),
        (norm(vec![0.9, 0.3]), &[2, 14]),
        (norm(vec![0.9, 0.31]), &[2]),
        (range([-9.0, -4.0, 0.0], [-7.0, -2.0, 1.0]), &[2, 14]),
        (range([-9.0, -4.0, 0.0], [-8.0, -2.0, 1.0]), &[2]),
    ];
    for (params, sources) in cases {
        let found = run(&task, &params, false);
        assert_eq!(found.iter().map(|c| c.source).collect::<Vec<_>>(), sources, "{params:?}");
    }
}

#[test]
fn the_best_class_of_a_cell_counts_and_ties_go_to_the_lower() {
    let mut task = Task::empty(3, 1);
    for (cell, heat) in [
        (0, [1.0, 1.0, 0.5]),
        (1, [0.5, 2.0, 2.0]),
        (2, [f32::NAN, 0.7, f32::NAN]),
        (3, [f32::NAN; 3]),
        (4, [f32::NEG_INFINITY; 3]),
        (5, [1.0, f32::INFINITY, 3.0]),
    ] {
        task.set(0, cell, &heat);
    }
    // Channels in another order than classes.
    let mut found = run(&[task], &params(&[&[2, 0, 1]]), false);
    found.sort_by_key(|c| c.source);
    let found: Vec<_> = found.iter().map(|c| (c.source, c.class)).collect();
    assert_eq!(found, [(0, 0), (1, 0), (2, 0), (5, 0)]);
}

#[test]
fn what_is_not_finite_never_passes() {
    for map in 1..6 {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut task = Task::empty(1, 2);
            task.set(0, 6, &[3.0]);
            task.set(0, 7, &[3.0]);
            // The last value, or the last variance.
            let num = task.maps[map].len() / CELLS;
            for channel in [num / 2 - 1, num - 1] {
                let mut task = task.clone();
                task.maps[map][channel * CELLS + 6] = bad;
                let params = CenterDecode { has_variance: true, ..params(&[&[0]]) };
                let sources: Vec<_> =
                    run(&[task], &params, false).iter().map(|c| c.source).collect();
                assert_eq!(sources, [7], "map {map} channel {channel} {bad}");
            }
        }
    }
}

#[test]
fn variances_are_propagated_to_first_order() {
    let mut task = Task::empty(1, 2);
    task.set(0, 8, &[1.0]);
    task.set(1, 8, &[0.1, 0.2, 0.5, -0.5]);
    task.set(2, 8, &[0.3, -1.0]);
    task.set(3, 8, &[0.4, 1.6, 0.2, -3.0, -2.0, -1.0]);
    task.set(4, 8, &[0.6, -0.7, -2.5, -1.5]);
    task.set(5, 8, &[1.0, 2.0, -0.2, 0.3]);
    let params = CenterDecode { has_variance: true, ..params(&[&[0]]) };
    let found = run(&[task], &params, false)[0].bbox;
    let variance = found.variance.unwrap();
    let (sin, cos) = (0.6_f64, -0.7_f64);
    // d yaw = (cos d sin - sin d cos) / (sin² + cos²)
    let norm = sin * sin + cos * cos;
    let yaw = (cos / norm).powi(2) * (-2.5_f64).exp() + (sin / norm).powi(2) * (-1.5_f64).exp();
    let expected = [
        0.5_f64.exp() * 0.25,
        (-0.5_f64).exp() * 0.64,
        (-1.0_f64).exp(),
        (-2.0_f64 + 3.2).exp(),
        (-3.0_f64 + 0.8).exp(),
        (-1.0_f64 + 0.4).exp(),
        yaw,
        (-0.2_f64).exp(),
        0.3_f64.exp(),
    ];
    let Variance3d { center, size, yaw, velocity } = variance;
    let [x, y, z] = center;
    let [l, w, h] = size;
    let [vx, vy] = velocity;
    for (found, expected) in [x, y, z, l, w, h, yaw, vx, vy].into_iter().zip(expected) {
        assert!(close(found, expected as f32), "{found} {expected}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let values = vec![0.0; 6 * CELLS];
    let integers = vec![0; 2 * CELLS];
    let shapes = [1, 2, 3, 4, 6].map(|channels| [1, channels, HEIGHT, WIDTH]);
    let view = |i: usize| {
        let num = shapes[i].iter().product();
        TensorView::new(&shapes[i], TensorValues::F32(&values[..num])).unwrap()
    };
    let good = CenterTask {
        heatmap: view(0),
        offset: view(1),
        height: view(0),
        size: view(2),
        rotation: view(1),
        velocity: Some(view(1)),
    };
    let other_map =
        TensorView::new(&[1, 2, WIDTH, HEIGHT], TensorValues::F32(&values[..2 * CELLS]));
    let of_integers = TensorView::new(&shapes[1], TensorValues::I32(&integers)).unwrap();
    let flat = TensorView::new(&[CELLS], TensorValues::F32(&values[..CELLS])).unwrap();
    let base = params(&[&[0]]);
    let variance = CenterDecode { has_variance: true, ..base.clone() };
    let norms = CenterDecode { yaw_norm_thresholds: vec![0.3], ..params(&[&[1]]) };
    let cases: [(&CenterDecode, CenterTask<TensorView<'_>>, &str); 8] = [
        (&base, CenterTask { heatmap: view(1), ..good }, "heatmap of task 0"),
        (&base, CenterTask { heatmap: flat, ..good }, "4 dimensions"),
        (&base, CenterTask { offset: other_map.unwrap(), ..good }, "offset of task 0"),
        (&base, CenterTask { rotation: of_integers, ..good }, "rotation of task 0 is i32"),
        (&base, CenterTask { velocity: None, ..good }, "no velocity"),
        (&base, CenterTask { size: view(4), ..good }, "size of task 0"),
        (&variance, good, "offset of task 0"),
        (&norms, good, "class 1 of task 0 has none of the 1"),
    ];
    let mut candidates = Candidates::with_capacity(1);
    assert!(decode_center(&[good], &base, &mut candidates).is_ok());
    for (params, task, message) in cases {
        let error = decode_center(&[task], params, &mut candidates).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains(message), "{error}");
    }
    assert!(decode_center(&[], &base, &mut candidates).is_err());
}

#[test]
fn over_capacity_the_lowest_scores_are_lost() {
    let mut task = Task::empty(1, 1);
    (0..CELLS).for_each(|cell| task.set(0, cell, &[cell as f32 * 0.1]));
    let mut candidates = Candidates::with_capacity(2);
    for _ in 0..2 {
        decode(std::slice::from_ref(&task), &params(&[&[0]]), false, &mut candidates);
        let sources: Vec<_> = candidates.as_slice().iter().map(|c| c.source).collect();
        assert_eq!((sources, candidates.num_dropped()), (vec![14, 13], CELLS - 2));
    }
}

proptest! {
    /// Against the formulas in f64, cell by cell.
    #[test]
    fn equals_the_formulas(
        heat in prop::collection::vec(-4.0_f32..4.0, 3 * CELLS),
        rest in prop::collection::vec(-1.0_f32..1.0, 10 * CELLS),
        threshold in 0.05_f32..0.95,
    ) {
        let mut task = Task::empty(3, 1);
        task.maps[0] = heat;
        let mut rest = rest.chunks_exact(CELLS);
        for (map, channels) in [(1, 2), (2, 1), (3, 3), (4, 2), (5, 2)] {
            task.maps[map] = rest.by_ref().take(channels).flatten().copied().collect();
        }
        let params = CenterDecode {
            score_thresholds: ScoreThresholds::uniform(threshold, 3),
            ..params(&[&[0, 1, 2]])
        };
        let mut found = run(std::slice::from_ref(&task), &params, false);
        found.sort_by_key(|candidate| candidate.source);
        let mut found = found.into_iter().peekable();
        for cell in 0..CELLS {
            let at = |map: usize, channel: usize| f64::from(task.maps[map][channel * CELLS + cell]);
            let (class, logit) = (0..3).map(|c| (c, at(0, c))).reduce(|a, b| if b.1 > a.1 { b } else { a }).unwrap();
            let score = 1.0 / (1.0 + (-logit).exp());
            if (score - f64::from(threshold)).abs() < 1e-6 {
                found.next_if(|candidate| candidate.source == cell as u32);
                continue;
            }
            let candidate = found.next_if(|candidate| candidate.source == cell as u32);
            prop_assert_eq!(candidate.is_some(), score > f64::from(threshold));
            let Some(candidate) = candidate else { continue };
            prop_assert_eq!(candidate.class, class as u32);
            let bbox = candidate.bbox.bbox;
            let found = [
                candidate.score, bbox.center[0], bbox.center[1], bbox.center[2],
                bbox.width_m, bbox.length_m, bbox.height_m, bbox.yaw_rad.sin(), bbox.yaw_rad.cos(),
            ];
            let norm = at(4, 0).hypot(at(4, 1));
            let expected = [
                score,
                ((cell % WIDTH) as f64 + at(1, 0)) * 0.5 - 10.0,
                ((cell / WIDTH) as f64 + at(1, 1)) * 0.8 - 4.0,
                at(2, 0),
                at(3, 0).exp(), at(3, 1).exp(), at(3, 2).exp(),
                at(4, 0) / norm, at(4, 1) / norm,
            ];
            for (found, expected) in found.into_iter().zip(expected) {
                prop_assert!(close(found, expected as f32), "{} {}", found, expected);
            }
        }
        prop_assert!(found.next().is_none());
    }
}
