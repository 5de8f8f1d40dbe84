use super::*;
use crate::decode::logit::{exp, sigmoid};
use crate::sparse::rulebook::sites_of_coordinates;
use det_post_types::{PointRange, ScoreThresholds, SizeOrder, YawConvention, total_order};

/// Outputs of a task of two classes, by site.
#[derive(Clone, Default)]
struct Outputs {
    heat: Vec<[f32; 2]>,
    offset: Vec<[f32; 2]>,
    height: Vec<f32>,
    size: Vec<[f32; 3]>,
    rotation: Vec<[f32; 2]>,
    velocity: Vec<[f32; 2]>,
    iou: Vec<f32>,
}

impl Outputs {
    fn of(heat: &[[f32; 2]]) -> Self {
        let num = heat.len();
        Self {
            heat: heat.to_vec(),
            offset: vec![[0.25, 0.5]; num],
            height: vec![-1.5; num],
            size: vec![[1.0, 0.5, 0.0]; num],
            rotation: vec![[0.0, 1.0]; num],
            velocity: vec![[3.0, -2.0]; num],
            iou: vec![0.0; num],
        }
    }

    fn task(&self) -> SiteTask<&[f32]> {
        SiteTask {
            heatmap: self.heat.as_flattened(),
            offset: self.offset.as_flattened(),
            height: &self.height,
            size: self.size.as_flattened(),
            rotation: self.rotation.as_flattened(),
            velocity: Some(self.velocity.as_flattened()),
            iou: Some(&self.iou),
        }
    }
}

/// A map of 4 rows and 5 columns with sites at these rows and columns.
fn sites(cells: &[[i32; 2]]) -> Sites {
    let mut sites = Sites::new(SiteGrid::new(1, [1, 4, 5]).unwrap(), 20);
    let cells: Vec<[i32; 4]> = cells.iter().map(|&[y, x]| [0, 0, y, x]).collect();
    sites_of_coordinates(&cells, &mut sites, &mut Vec::new());
    sites
}

fn params(tasks: &[&[u32]]) -> SiteDecode {
    SiteDecode {
        origin_m: [-10.0, 20.0],
        cell_size_m: [0.5, 2.0],
        tasks: tasks.iter().map(|classes| classes.to_vec()).collect(),
        score_thresholds: ScoreThresholds::uniform(0.5, 4),
        yaw_norm_thresholds: Vec::new(),
        iou_weights: Vec::new(),
        size_order: SizeOrder::LengthWidthHeight,
        yaw: YawConvention::CounterClockwise,
        center_range: None,
        has_velocity: true,
    }
}

fn decode(tasks: &[&Outputs], sites: &Sites, params: &SiteDecode) -> Candidates<Object3d> {
    let mut candidates = Candidates::with_capacity(100);
    let tasks: Vec<_> = tasks.iter().map(|outputs| outputs.task()).collect();
    decode_sites(&tasks, sites, params, &mut candidates).unwrap();
    candidates.finish(100);
    candidates
}

/// Class and source of each candidate, in the total order.
fn found(candidates: &Candidates<Object3d>) -> Vec<(u32, u32)> {
    assert!(candidates.as_slice().is_sorted_by(|a, b| total_order(a, b).is_le()));
    candidates.as_slice().iter().map(|candidate| (candidate.class, candidate.source)).collect()
}

#[test]
fn a_site_may_have_several_classes() {
    let sites = sites(&[[1, 2], [3, 4]]);
    let (first, second) =
        (Outputs::of(&[[0.0, 2.0], [-0.1, 0.5]]), Outputs::of(&[[-1.0, -1.0], [0.4, -0.0]]));
    // A score of exactly 0.5 passes, ties go to the lower class.
    let candidates = decode(&[&first, &second], &sites, &params(&[&[1, 0], &[3, 2]]));
    assert_eq!(found(&candidates), [(0, 7), (0, 19), (3, 39), (1, 7), (2, 39)]);
    let best = candidates.as_slice()[0];
    assert_eq!(best.score, sigmoid(2.0));
    let object = best.bbox;
    assert_eq!(object.bbox.center, [2.25 * 0.5 - 10.0, 1.5 * 2.0 + 20.0, -1.5]);
    let lengths = [object.bbox.length_m, object.bbox.width_m, object.bbox.height_m];
    assert_eq!(lengths, [1.0, 0.5, 0.0].map(exp));
    assert_eq!(object.bbox.yaw_rad, std::f32::consts::FRAC_PI_2, "cosine comes first");
    assert_eq!(object.velocity_mps, Some([3.0, -2.0]));
    let without = SiteDecode { has_velocity: false, ..params(&[&[1, 0], &[3, 2]]) };
    assert_eq!(decode(&[&first, &second], &sites, &without).as_slice()[0].bbox.velocity_mps, None);
}

#[test]
fn none_all_and_one_over_the_capacity() {
    let params = params(&[&[0, 1]]);
    let empty = sites(&[]);
    assert!(decode(&[&Outputs::of(&[])], &empty, &params).as_slice().is_empty());
    let sites = sites(&[[0, 0], [0, 1], [2, 3]]);
    assert!(decode(&[&Outputs::of(&[[-5.0; 2]; 3])], &sites, &params).as_slice().is_empty());
    let all = Outputs::of(&[[1.0, 1.0], [2.0, 3.0], [1.0, 0.5]]);
    let ranked = [(1, 1), (0, 1), (0, 0), (0, 13), (1, 0), (1, 13)];
    assert_eq!(found(&decode(&[&all], &sites, &params)), ranked);
    let mut candidates = Candidates::with_capacity(5);
    decode_sites(&[all.task()], &sites, &params, &mut candidates).unwrap();
    candidates.finish(100);
    assert_eq!(found(&candidates), ranked[..5]);
    assert_eq!(candidates.num_dropped(), 1);
}

#[test]
fn nan_and_infinity_are_counted() {
    let sites = sites(&[[0, 0], [0, 1], [0, 2], [0, 3]]);
    let params = params(&[&[0, 1]]);
    let nan = f32::NAN;
    let heat = Outputs::of(&[[nan, 2.0], [nan, nan], [1.0, -1.0], [f32::INFINITY, -1.0]]);
    let candidates = decode(&[&heat], &sites, &params);
    assert_eq!(found(&candidates), [(0, 3), (1, 0), (0, 2)]);
    assert_eq!((candidates.num_nan_scores(), candidates.num_invalid_boxes()), (3, 0));
    let good = Outputs::of(&[[1.0, 2.0], [1.0, -9.0], [-9.0, 1.0], [-9.0, -9.0]]);
    let changes: [fn(&mut Outputs, f32); 6] = [
        |outputs, value| outputs.offset[0][1] = value,
        |outputs, value| outputs.height[0] = value,
        |outputs, value| outputs.size[0][2] = value,
        |outputs, value| outputs.rotation[0][0] = value,
        |outputs, value| outputs.rotation[0][1] = value,
        |outputs, value| outputs.velocity[0][1] = value,
    ];
    for value in [nan, f32::INFINITY] {
        for change in changes {
            let mut outputs = good.clone();
            change(&mut outputs, value);
            let candidates = decode(&[&outputs], &sites, &params);
            assert_eq!(found(&candidates), [(0, 1), (1, 2)]);
            assert_eq!(candidates.num_invalid_boxes(), 2, "a box of each class");
        }
    }
}

#[test]
fn thresholds_norms_and_ranges() {
    let sites = sites(&[[0, 0], [3, 4]]);
    let outputs = Outputs::of(&[[0.5, 0.5]; 2]);
    let plain = params(&[&[0, 1]]);
    // The centres are (-9.875, 21) and (-7.875, 27).
    let range = |min_x: f32, max_y: f32| {
        Some(PointRange { min: [min_x, 0.0, -2.0], max: [0.0, max_y, 0.0] })
    };
    for (params, expected) in [
        (SiteDecode { center_range: range(-9.875, 27.0), ..plain.clone() }, vec![(0, 0), (1, 0)]),
        (SiteDecode { center_range: range(-9.8, 27.1), ..plain.clone() }, vec![(0, 19), (1, 19)]),
        (
            SiteDecode { yaw_norm_thresholds: vec![1.0, 1.1], ..plain.clone() },
            vec![(0, 0), (0, 19)],
        ),
        (
            SiteDecode {
                score_thresholds: ScoreThresholds {
                    distance_upper_limits_m: vec![25.0, 28.0],
                    per_class: vec![vec![0.9, 0.3], vec![0.3, 0.9]],
                },
                ..plain.clone()
            },
            vec![(1, 0)],
        ),
    ] {
        assert_eq!(found(&decode(&[&outputs], &sites, &params)), expected, "{params:?}");
    }
}

#[test]
fn predicted_overlaps_change_scores_that_passed() {
    let sites = sites(&[[0, 0], [0, 1], [0, 2], [0, 3]]);
    let mut outputs = Outputs::of(&[[1.0, -9.0], [0.9, -9.0], [0.8, -9.0], [-0.1, -9.0]]);
    outputs.iou = vec![-0.5, 0.5, 7.0, 1.0];
    let params = SiteDecode { iou_weights: vec![0.68, 0.71], ..params(&[&[0, 1]]) };
    let candidates = decode(&[&outputs], &sites, &params);
    let expected = |heat: f32, iou: f64| {
        let score = f64::from(sigmoid(heat)).powf(f64::from(1.0 - 0.68_f32));
        score as f32 * iou.powf(f64::from(0.68_f32)) as f32
    };
    let scores: Vec<f32> = candidates.as_slice().iter().map(|one| one.score).collect();
    assert_eq!(found(&candidates), [(0, 2), (0, 1), (0, 0)]);
    assert_eq!(scores, [expected(0.8, 1.0), expected(0.9, 0.75), expected(1.0, 0.25)]);
    assert!(scores[2] < 0.5, "below the threshold of the heat");
    outputs.iou[1] = f32::NAN;
    let candidates = decode(&[&outputs], &sites, &params);
    assert_eq!((found(&candidates).len(), candidates.num_invalid_boxes()), (2, 1));
}

#[test]
fn outputs_that_do_not_fit_are_refused() {
    let plane = sites(&[[0, 0], [0, 1]]);
    let outputs = Outputs::of(&[[1.0; 2]; 2]);
    let good = params(&[&[0, 1]]);
    let check = |task: SiteTask<&[f32]>, sites: &Sites, params: &SiteDecode, expected: &str| {
        let mut candidates = Candidates::with_capacity(1);
        let error = decode_sites(&[task], sites, params, &mut candidates).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains(expected), "{error}");
    };
    let task = outputs.task();
    check(SiteTask { size: &[0.0; 5], ..task }, &plane, &good, "size of task 0 has 5 values");
    check(SiteTask { velocity: None, ..task }, &plane, &good, "task 0 has no velocity");
    let weights = SiteDecode { iou_weights: vec![0.5; 2], ..good.clone() };
    check(SiteTask { iou: None, ..task }, &plane, &weights, "task 0 has no iou");
    let weights = SiteDecode { iou_weights: vec![0.5], ..good.clone() };
    check(task, &plane, &weights, "1 weights of overlaps do not match 2 classes");
    check(task, &plane, &params(&[&[0, 1], &[2]]), "1 tasks; 2 expected");
    let high = Sites::new(SiteGrid::new(1, [2, 4, 5]).unwrap(), 2);
    check(task, &high, &good, "one plane of rows and columns is expected");
}
