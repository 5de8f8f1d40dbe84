//! The best pairs of a query and a class: the same candidates, in the same order, and the same
//! counts.

use std::cell::Cell;

use det_post_ops::decode::query::cuda::{DeviceQueries, Workspace as DeviceWorkspace};
use det_post_ops::decode::query::{Queries, Workspace, decode_query};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer};
use det_post_types::{
    Candidate, Candidates, Object3d, PointRange, QueryBox, QueryDecode, ScoreThresholds, SizeOrder,
    YawConvention,
};

use det_post_testing::random::Random;
use det_post_testing::view_cases::Case;

struct Scene {
    logits: Vec<f32>,
    boxes: Vec<QueryBox>,
    quality: Vec<[f32; 2]>,
    num_classes: usize,
    /// Of the last comparison.
    num_invalid: Cell<usize>,
}

fn params(threshold: f32, num_classes: usize) -> QueryDecode {
    QueryDecode {
        size_order: SizeOrder::WidthLengthHeight,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(threshold, num_classes),
        yaw_norm_thresholds: Vec::new(),
        center_range: None,
    }
}

impl Scene {
    /// `num_steps` different logits, so that there are ties.
    fn random(num_queries: usize, num_classes: usize, num_steps: f32, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut logit = || (random.range(-6.0, 3.0) * num_steps).round() / num_steps;
        let logits = (0..num_queries * num_classes).map(|_| logit()).collect();
        let mut random = Random::new(seed + 1);
        let mut value = |most: f32| random.range(-most, most);
        let boxes = (0..num_queries).map(|_| {
            let [x, y, z] = [value(60.0), value(60.0), value(4.0)];
            let [sin, cos] = [value(1.0), value(1.0)];
            [x, y, z, value(1.5), value(1.5), value(1.0), sin, cos, value(9.0), value(9.0), 0.0]
        });
        let boxes = boxes.collect();
        let quality = (0..num_queries).map(|_| [value(3.0), value(3.0)]).collect();
        Self { logits, boxes, quality, num_classes, num_invalid: Cell::new(0) }
    }

    fn queries(&self, has_quality: bool) -> Queries<'_> {
        let Self { logits, boxes, quality, .. } = self;
        Queries { logits, boxes, quality: has_quality.then_some(quality) }
    }

    fn compare(
        &self,
        device: &CudaDevice,
        params: &QueryDecode,
        max_pairs: usize,
        has_quality: bool,
    ) -> Vec<Candidate<Object3d>> {
        let mut expected = Candidates::with_capacity(max_pairs);
        let mut workspace = Workspace::new(max_pairs);
        decode_query(&self.queries(has_quality), params, &mut workspace, &mut expected).unwrap();
        expected.finish(usize::MAX);

        let stream = device.stream().unwrap();
        let upload = |values: &[f32]| {
            let mut buffer = DeviceBuffer::zeros(&stream, values.len()).unwrap();
            buffer.write(values).unwrap();
            buffer
        };
        let boxes = upload(self.boxes.as_flattened());
        let logits = upload(&self.logits);
        let quality = upload(if has_quality { self.quality.as_flattened() } else { &[] });
        let sizes = [self.boxes.len(), self.num_classes];
        // Settings of another configuration are replaced.
        let other = self::params(0.99, self.num_classes);
        let mut on_device = DeviceWorkspace::new(&stream, sizes, &other, max_pairs).unwrap();
        on_device.set(params, max_pairs).unwrap();
        let mut found = Candidates::with_capacity(max_pairs);
        for _ in 0..3 {
            let queries = DeviceQueries {
                boxes: boxes.input(&stream).unwrap(),
                logits: logits.input(&stream).unwrap(),
                quality: quality.input(&stream).unwrap(),
            };
            on_device.enqueue(&queries).unwrap();
            let num_dropped = on_device.read(has_quality, &mut found).unwrap();
            assert_eq!(num_dropped, workspace.num_dropped());
            assert_eq!(found.num_nan_scores(), expected.num_nan_scores());
            assert_eq!(found.num_invalid_boxes(), expected.num_invalid_boxes());
            let pairs = on_device.pairs().map(|pair| (pair.query, pair.class_index, pair.logit));
            let of_cpu = workspace.pairs().iter().map(|pair| (pair.source, pair.class, pair.score));
            assert!(pairs.eq(of_cpu), "{max_pairs} pairs");
            found.finish(usize::MAX);
            assert!(same(found.as_slice(), expected.as_slice()), "{max_pairs} pairs");
        }
        self.num_invalid.set(expected.num_invalid_boxes());
        expected.as_slice().to_vec()
    }
}

/// Whether all bits are the same.
fn same(found: &[Candidate<Object3d>], expected: &[Candidate<Object3d>]) -> bool {
    let text = |candidates: &[Candidate<Object3d>]| format!("{candidates:?}");
    text(found) == text(expected)
}

#[test]
fn pairs_and_candidates_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    // The last two are chosen from in another way, for their queries and their classes.
    let sizes = [(1, 1), (96, 10), (300, 3), (900, 10), (900, 26), (1500, 10), (200, 33)];
    for (num_queries, num_classes) in sizes {
        for (threshold, max_pairs, has_quality) in [
            (0.1, 300, false),
            (0.0, 300, true),
            (0.3, 1000, true),
            (0.0, QueryDecode::MAX_PAIRS, false),
        ] {
            let scene = Scene::random(num_queries, num_classes, 1e4, 3);
            scene.compare(&device, &params(threshold, num_classes), max_pairs, has_quality);
        }
    }
}

#[test]
fn ties_are_decided_by_class_and_query() {
    let Some(device) = det_post_testing::gpu() else { return };
    let scene = Scene::random(700, 9, 1.0, 17);
    for max_pairs in [1, 2, 255, 256, 257, 2000, 6299, 6300, 6301] {
        let found = scene.compare(&device, &params(0.0, 9), max_pairs, false);
        assert_eq!(found.len(), max_pairs.min(6300));
    }
}

#[test]
fn equal_logits_beyond_those_that_a_block_sorts_at_once() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut scene = Scene::random(900, 10, 1e3, 23);
    for (at, logit) in scene.logits.iter_mut().enumerate() {
        *logit = if at % 30 == 0 { 50.0 + *logit } else { -4.6 };
    }
    // Of the 300 better ones, all of them, one of the equal ones, as many as there are.
    for max_pairs in [299, 300, 301, QueryDecode::MAX_PAIRS] {
        let found = scene.compare(&device, &params(0.0, 10), max_pairs, false);
        assert_eq!(found.len(), max_pairs);
    }
}

#[test]
fn bins_ranges_norms_and_classes_are_those_of_the_cpu() {
    let Some(device) = det_post_testing::gpu() else { return };
    let scene = Scene::random(500, 3, 1e3, 5);
    let all = params(0.05, 3);
    let bins = ScoreThresholds {
        distance_upper_limits_m: vec![20.0, 45.0],
        per_class: vec![vec![0.3, 0.1], vec![0.02, f32::INFINITY], vec![0.0, 0.5]],
    };
    let range = PointRange::from_bounds([-30.0, -50.0, -1.0, 50.0, 20.0, 2.0]);
    let cases = [
        QueryDecode { score_thresholds: bins.clone(), ..all.clone() },
        QueryDecode { center_range: Some(range), ..all.clone() },
        QueryDecode { yaw_norm_thresholds: vec![0.5, 0.0, 1.1], ..all.clone() },
        QueryDecode {
            score_thresholds: bins,
            center_range: Some(range),
            yaw_norm_thresholds: vec![0.2; 3],
            ..all
        },
    ];
    for params in cases {
        assert!(!scene.compare(&device, &params, 200, true).is_empty(), "{params:?}");
    }
}

#[test]
fn what_is_not_finite_never_passes_and_nan_is_counted() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut scene = Scene::random(80, 4, 1e3, 9);
    for (query, value) in [(3, f32::NAN), (9, f32::INFINITY), (60, f32::NAN)] {
        scene.logits[4 * query + 1] = value;
    }
    scene.logits[4 * 3 + 2] = f32::NAN;
    scene.boxes[7][4] = f32::NAN;
    scene.boxes[8][10] = f32::INFINITY;
    scene.boxes[11][0] = f32::NEG_INFINITY;
    scene.quality[20][0] = f32::NAN;
    scene.quality[21][1] = f32::NAN;
    for has_quality in [false, true] {
        let found = scene.compare(&device, &params(0.0, 4), 1000, has_quality);
        assert!(found.len() > 200);
    }
}

#[test]
fn queries_that_are_no_boxes_are_counted_and_leave_their_places_to_others() {
    let Some(device) = det_post_testing::gpu() else { return };
    let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 88.722_83, 88.722_84];
    let bins = ScoreThresholds {
        distance_upper_limits_m: vec![20.0, 45.0],
        per_class: vec![vec![0.3, 0.1], vec![0.02, f32::INFINITY], vec![0.0, 0.5]],
    };
    let range = PointRange::from_bounds([-30.0, -50.0, -1.0, 50.0, 20.0, 2.0]);
    let plain = params(0.05, 3);
    let strict = QueryDecode {
        score_thresholds: bins,
        center_range: Some(range),
        yaw_norm_thresholds: vec![0.5, 0.0, 1.1],
        ..plain.clone()
    };
    // The last is chosen from in another way.
    for num_queries in [1, 31, 500, 1024, 1500] {
        let mut scene = Scene::random(num_queries, 3, 1e3, 31);
        let mut random = Random::new(32);
        for bbox in scene.boxes.iter_mut().step_by(3) {
            bbox[random.below(11)] = values[random.below(values.len())];
        }
        for params in [&plain, &strict] {
            for (max_pairs, has_quality) in [(10, false), (1000, true)] {
                scene.compare(&device, params, max_pairs, has_quality);
                assert!(num_queries < 31 || scene.num_invalid.get() > 0, "{num_queries}");
            }
        }
        scene.boxes.fill([f32::NAN; 11]);
        scene.logits.fill(9.0);
        assert!(scene.compare(&device, &strict, 10, false).is_empty());
        assert_eq!(scene.num_invalid.get(), num_queries);
    }
}

#[test]
fn the_reference_chooses_the_same_pairs() {
    let Some(device) = det_post_testing::gpu() else { return };
    for (name, num_frames) in [("detr3d_c64", 1), ("detr3d_c256", 1), ("sparse4d_c64", 3)] {
        let Some(case) = Case::open(name) else { return };
        let selected = case.json("selected.json");
        let expected = case.file("expected");
        for frame in 0..num_frames {
            let (selected, logits) = match num_frames {
                1 => (&selected, "logits".to_owned()),
                _ => (&selected[frame], format!("frame{frame}.logits")),
            };
            let logits = expected.f32s(&logits);
            let boxes = vec![[0.5; 11]; logits.len() / 10];
            let (quality, num_invalid) = (Vec::new(), Cell::new(0));
            let scene = Scene { logits, boxes, quality, num_classes: 10, num_invalid };
            let threshold = selected["threshold"].as_f64().unwrap() as f32;
            let max_pairs = selected["top_k"].as_u64().unwrap() as usize;
            let found = scene.compare(&device, &params(threshold, 10), max_pairs, false);
            let kept = selected["kept"].as_array().unwrap();
            let pair = |pair: &serde_json::Value| {
                ["query", "class"].map(|key| pair[key].as_u64().unwrap() as u32)
            };
            let kept: Vec<[u32; 2]> = kept.iter().map(pair).collect();
            let found: Vec<[u32; 2]> = found.iter().map(|c| [c.source, c.class]).collect();
            assert_eq!(found, kept, "{name}, frame {frame}");
        }
    }
}

#[test]
fn limits_of_the_device_are_named() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let new = |sizes, params: &QueryDecode, max_pairs| {
        DeviceWorkspace::new(&stream, sizes, params, max_pairs).map(drop)
    };
    let error = new([900, 26], &params(0.1, 26), QueryDecode::MAX_PAIRS + 1).unwrap_err();
    assert!(error.message().contains("exceed the limit of a GPU, 8192"), "{error}");
    // There are fewer pairs than that.
    new([100, 3], &params(0.1, 3), QueryDecode::MAX_PAIRS + 1).unwrap();
    assert!(new([100, 3], &params(0.1, 2), 10).is_err());
    let mut bins = params(0.1, 1);
    bins.score_thresholds.distance_upper_limits_m = (1_u8..=17).map(f32::from).collect();
    bins.score_thresholds.per_class = vec![vec![0.1; 17]];
    let error = new([100, 1], &bins, 10).unwrap_err();
    assert!(error.message().contains("16 bins"), "{error}");
    let mut workspace = DeviceWorkspace::new(&stream, [900, 26], &params(0.1, 26), 300).unwrap();
    assert!(workspace.holds(4096) && !workspace.holds(4097));
    assert!(workspace.set(&params(0.1, 26), 4097).is_err());
}
