use proptest::prelude::*;

use super::*;
use det_post_types::{PointRange, ScoreThresholds, SizeOrder, YawConvention};

fn params(threshold: f32, num_classes: usize) -> QueryDecode {
    QueryDecode {
        size_order: SizeOrder::LengthWidthHeight,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(threshold, num_classes),
        yaw_norm_thresholds: Vec::new(),
        center_range: None,
    }
}

fn query_box(x: f32) -> QueryBox {
    [x, 2.0, 0.5, 4.0_f32.ln(), 2.0_f32.ln(), 1.5_f32.ln(), 0.6, 0.8, 3.0, -1.0, 9.0]
}

/// (class, query, score) in the total order.
fn decode(
    queries: &Queries<'_>,
    params: &QueryDecode,
    max_pairs: usize,
) -> (Vec<(u32, u32, f32)>, usize) {
    let mut workspace = Workspace::new(max_pairs);
    let mut candidates = Candidates::with_capacity(max_pairs);
    decode_query(queries, params, &mut workspace, &mut candidates).unwrap();
    candidates.finish(usize::MAX);
    let found = candidates.as_slice().iter().map(|c| (c.class, c.source, c.score)).collect();
    (found, workspace.num_dropped())
}

#[test]
fn thresholds_are_inclusive_and_nan_never_passes() {
    let boxes = [query_box(1.0), query_box(2.0), query_box(3.0)];
    let logits = [0.0, -0.1, 0.5, f32::NAN, -1.0, f32::INFINITY];
    let queries = Queries { logits: &logits, boxes: &boxes, quality: None };
    let (found, num_dropped) = decode(&queries, &params(0.5, 2), 9);
    let pairs: Vec<_> = found.iter().map(|&(class, query, _)| (class, query)).collect();
    assert_eq!((pairs, num_dropped), (vec![(1, 2), (0, 1), (0, 0)], 0));
    assert_eq!((found[0].2, found[2].2), (1.0, 0.5));
    assert_eq!(decode(&queries, &params(1.5, 2), 9).0, []);
    assert_eq!(decode(&queries, &params(0.0, 2), 9).0.len(), 5, "only NaN is missing");
}

#[test]
fn queries_with_a_nan_logit_are_counted_once() {
    let nan = f32::NAN;
    // By query, two logits and the quality.
    let cases = [
        ([1.0, 2.0], [0.0, 0.0], 0, 2),
        ([1.0, nan], [0.0, 0.0], 1, 1),
        ([nan, nan], [0.0, 0.0], 1, 0),
        ([1.0, 2.0], [nan, 0.0], 1, 0),
        ([nan, nan], [nan, 0.0], 1, 0),
        ([1.0, 2.0], [0.0, nan], 0, 2), // the yawness is no score
    ];
    for (logits, quality, num_nan, num_found) in cases {
        // In front, out of range, without a position.
        let boxes = [query_box(1.0), query_box(99.0), query_box(nan)];
        let quality = [quality; 3];
        let logits = logits.repeat(3);
        let queries = Queries { logits: &logits, boxes: &boxes, quality: Some(&quality) };
        let center_range = Some(PointRange { min: [-5.0; 3], max: [5.0; 3] });
        let params = QueryDecode { center_range, ..params(0.5, 2) };
        let mut candidates = Candidates::with_capacity(9);
        let mut workspace = Workspace::new(1);
        decode_query(&queries, &params, &mut workspace, &mut candidates).unwrap();
        assert_eq!(candidates.num_nan_scores(), 3 * num_nan, "{logits:?} {quality:?}");
        let found = candidates.as_slice().len() + workspace.num_dropped();
        assert_eq!(found, num_found, "{logits:?} {quality:?}");
    }
}

#[test]
fn a_box_is_decoded_by_its_conventions() {
    let queries = Queries { logits: &[3.0], boxes: &[query_box(1.0)], quality: None };
    let mut params = params(0.1, 1);
    let object = |params: &QueryDecode| {
        let mut candidates = Candidates::with_capacity(1);
        decode_query(&queries, params, &mut Workspace::new(1), &mut candidates).unwrap();
        candidates.as_slice()[0].bbox
    };
    let Object3d { bbox, velocity_mps, variance } = object(&params);
    assert_eq!((bbox.center, velocity_mps, variance), ([1.0, 2.0, 0.5], Some([3.0, -1.0]), None));
    assert_eq!([bbox.length_m, bbox.width_m, bbox.height_m], [4.0, 2.0, 1.5]);
    assert!((bbox.yaw_rad - 0.6_f32.atan2(0.8)).abs() < 1e-6);
    params.size_order = SizeOrder::WidthLengthHeight;
    assert_eq!(object(&params).bbox.length_m, 2.0);
}

#[test]
fn logits_order_what_scores_cannot_and_the_rest_is_counted() {
    // All sigmoids round to 1.
    let logits = [30.0, 32.0, 31.0, 33.0];
    let boxes = [0.0, 1.0, 2.0, 3.0].map(query_box);
    let queries = Queries { logits: &logits, boxes: &boxes, quality: None };
    let mut workspace = Workspace::new(2);
    let mut candidates = Candidates::with_capacity(2);
    decode_query(&queries, &params(0.1, 1), &mut workspace, &mut candidates).unwrap();
    let kept: Vec<u32> = workspace.pairs().iter().map(|pair| pair.source).collect();
    assert_eq!((kept, workspace.num_dropped()), (vec![3, 1], 2));
    assert!(candidates.as_slice().iter().all(|c| c.score == 1.0));
}

#[test]
fn centreness_scales_the_score_after_the_choice() {
    let boxes = [query_box(0.0), query_box(1.0), query_box(2.0)];
    let quality = [[-2.0, 9.0], [2.0, -9.0], [5.0, 0.0]];
    let queries = Queries { logits: &[3.0, 2.0, 1.0], boxes: &boxes, quality: Some(&quality) };
    let (found, num_dropped) = decode(&queries, &params(0.5, 1), 2);
    // Query 2 has the best product with its quality, but the third class logit.
    let order: Vec<u32> = found.iter().map(|pair| pair.1).collect();
    assert_eq!((order, num_dropped), (vec![1, 0], 1));
    assert!((found[0].2 - 0.880_797 * 0.880_797).abs() < 1e-6);
    assert!(found[1].2 < 0.5, "the threshold is that of the class");
}

#[test]
fn range_distance_norm_and_finiteness() {
    let mut params = params(0.0, 1);
    params.score_thresholds.distance_upper_limits_m = vec![10.0, 20.0];
    params.score_thresholds.per_class = vec![vec![0.2, 0.7]];
    let boxes = [5.0, 15.0, 19.0, 25.0, f32::NAN].map(query_box);
    let logits = [0.0, 0.0, 2.0, 9.0, 9.0];
    let queries = Queries { logits: &logits, boxes: &boxes, quality: None };
    let sources = |params: &QueryDecode| -> Vec<u32> {
        decode(&queries, params, 9).0.iter().map(|pair| pair.1).collect()
    };
    assert_eq!(sources(&params), [2, 0]);
    params.center_range = Some(PointRange { min: [0.0; 3], max: [15.0, 3.0, 1.0] });
    assert_eq!(sources(&params), [0]);
    params.yaw_norm_thresholds = vec![1.1];
    assert_eq!(sources(&params), [0_u32; 0]);
    // An extent of infinity after exp.
    let mut huge = query_box(1.0);
    huge[3] = 1000.0;
    let queries = Queries { logits: &[1.0], boxes: &[huge], quality: None };
    params.yaw_norm_thresholds.clear();
    assert_eq!(decode(&queries, &params, 1).0, []);
}

#[test]
fn queries_that_pass_and_are_no_boxes_are_counted_once() {
    let [nan, inf] = [f32::NAN, f32::INFINITY];
    let mut params = params(0.5, 2);
    params.score_thresholds = ScoreThresholds {
        distance_upper_limits_m: vec![1.0, 50.0],
        per_class: vec![vec![0.9, 0.5], vec![0.95, 0.8]],
    };
    params.center_range = Some(PointRange { min: [-60.0; 3], max: [60.0; 3] });
    params.yaw_norm_thresholds = vec![0.5, 0.5];
    let sound = query_box(1.0);
    let with = |at: usize, value: f32| {
        let mut numbers = sound;
        numbers[at] = value;
        numbers
    };
    let mut cases: Vec<(QueryBox, [f32; 2], usize)> = (0..11)
        .flat_map(|at| [nan, inf, -inf].map(|value| (with(at, value), [5.0, 5.0], 1)))
        .collect();
    cases.extend([
        (sound, [5.0, 5.0], 0),
        (with(0, nan), [0.0, 0.0], 1), // the lowest bound of the first class
        (with(0, nan), [-0.1, 0.0], 0),
        (with(3, nan), [nan, 1.5], 1),
        (with(3, nan), [nan, 1.0], 0),
        (with(0, 55.0), [5.0, 5.0], 0), // beyond the last limit
        (with(4, 88.722_83), [5.0, 5.0], 0),
        (with(4, 88.722_84), [5.0, 5.0], 1), // overflows
    ]);
    for (bbox, logits, expected) in cases {
        let queries = Queries { logits: &logits, boxes: &[bbox], quality: None };
        let mut candidates = Candidates::with_capacity(9);
        decode_query(&queries, &params, &mut Workspace::new(9), &mut candidates).unwrap();
        assert_eq!(candidates.num_invalid_boxes(), expected, "{bbox:?} {logits:?}");
        assert!(expected == 0 || candidates.as_slice().is_empty(), "{bbox:?}");
        assert!(candidates.as_slice().iter().all(|c| c.bbox.is_valid()), "{bbox:?}");
    }
    // A query without a score counts as such.
    let queries =
        Queries { logits: &[5.0, 5.0], boxes: &[with(0, nan)], quality: Some(&[[nan, 0.0]]) };
    let mut candidates = Candidates::with_capacity(9);
    decode_query(&queries, &params, &mut Workspace::new(9), &mut candidates).unwrap();
    assert_eq!((candidates.num_nan_scores(), candidates.num_invalid_boxes()), (1, 0));
}

#[test]
fn the_largest_logarithm_of_an_extent() {
    assert!(exp(MAX_LOG_EXTENT).is_finite() && exp(MAX_LOG_EXTENT.next_up()).is_infinite());
}

#[test]
fn what_does_not_fit_is_refused() {
    let boxes = [query_box(0.0); 2];
    let fits = |queries: Queries<'_>, params: &QueryDecode| {
        decode_query(&queries, params, &mut Workspace::new(1), &mut Candidates::with_capacity(1))
            .is_ok()
    };
    let queries = Queries { logits: &[0.0; 4], boxes: &boxes, quality: None };
    assert!(fits(queries, &params(0.5, 2)));
    assert!(!fits(queries, &params(0.5, 3)));
    assert!(!fits(Queries { quality: Some(&[[0.0; 2]]), ..queries }, &params(0.5, 2)));
    assert!(!fits(queries, &QueryDecode { yaw_norm_thresholds: vec![0.1], ..params(0.5, 2) }));
    assert!(fits(Queries { logits: &[], boxes: &[], quality: None }, &params(0.5, 2)));
}

proptest! {
    #[test]
    fn equals_a_sort_of_all_pairs(
        steps in prop::collection::vec(-8_i8..8, 0..120), threshold in 0.0_f32..1.0, max_pairs in 1_usize..40,
    ) {
        let num_queries = steps.len() / 3;
        let logits: Vec<f32> = steps[..num_queries * 3].iter().map(|&s| f32::from(s) / 2.0).collect();
        let boxes = vec![query_box(1.0); num_queries];
        let mut expected: Vec<(f32, u32, u32)> = (0..).zip(logits.chunks_exact(3))
            .flat_map(|(query, row)| (0..).zip(row).map(move |(class, &logit)| (logit, class, query)))
            .filter(|pair| sigmoid(pair.0) >= threshold)
            .collect();
        expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let num_over = expected.len().saturating_sub(max_pairs);
        expected.truncate(max_pairs);
        let queries = Queries { logits: &logits, boxes: &boxes, quality: None };
        let (found, num_dropped) = decode(&queries, &params(threshold, 3), max_pairs);
        let found: Vec<_> = found.iter().map(|&(class, query, _)| (class, query)).collect();
        let expected: Vec<_> = expected.iter().map(|&(_, class, query)| (class, query)).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(num_dropped, num_over);
    }
}
