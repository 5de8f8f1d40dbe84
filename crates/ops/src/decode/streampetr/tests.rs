use super::*;
use det_post_types::{
    PointRange, QueryDecode, ScoreThresholds, SizeOrder, TensorValues, YawConvention,
};

const NUM_CLASSES: usize = 3;

fn params(channels_last: bool) -> StreamPetrDecode {
    let query = QueryDecode {
        size_order: SizeOrder::LengthWidthHeight,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(0.5, NUM_CLASSES),
        yaw_norm_thresholds: vec![0.3, 0.3, 0.0],
        center_range: Some(PointRange { min: [-10.0, -10.0, -2.0], max: [10.0, 10.0, 2.0] }),
    };
    StreamPetrDecode { channels_last, query }
}

/// A query in the middle of everything.
const SOUND: ([f32; 3], [f32; 10]) =
    ([2.0, 1.0, -1.0], [1.0, -2.0, 0.5, 1.0, 0.5, 0.25, 0.6, 0.8, 3.0, -4.0]);

/// Decodes queries in both layouts, which must agree.
fn decode(queries: &[([f32; 3], [f32; 10])], change: impl Fn(&mut QueryDecode)) -> Vec<Object> {
    let num = queries.len();
    let [mut first, mut last] = [Vec::new(), Vec::new()];
    for channels_last in [false, true] {
        let at = |values: &dyn Fn(usize, usize) -> f32, channels: usize| -> Vec<f32> {
            let item = |i: usize| match channels_last {
                true => values(i / channels, i % channels),
                false => values(i % num, i / num),
            };
            (0..num * channels).map(item).collect()
        };
        let logits = at(&|query, class| queries[query].0[class], NUM_CLASSES);
        let boxes = at(&|query, channel| queries[query].1[channel], NUM_BOX_CHANNELS);
        let shape = |channels| match channels_last {
            true => vec![1, 1, num, channels],
            false => vec![1, channels, num],
        };
        let (shape_of_logits, shape_of_boxes) = (shape(NUM_CLASSES), shape(NUM_BOX_CHANNELS));
        let outputs = StreamPetrOutputs {
            logits: TensorView::new(&shape_of_logits, TensorValues::F32(&logits)).unwrap(),
            boxes: TensorView::new(&shape_of_boxes, TensorValues::F32(&boxes)).unwrap(),
        };
        let mut params = params(channels_last);
        change(&mut params.query);
        let mut candidates = Candidates::with_capacity(100);
        decode_streampetr(&outputs, &params, &mut candidates).unwrap();
        candidates.finish(100);
        let found = if channels_last { &mut last } else { &mut first };
        found.extend(candidates.as_slice().iter().map(|c| (c.source, c.class, c.score, c.bbox)));
    }
    assert_eq!(first, last);
    first
}

type Object = (u32, u32, f32, Object3d);

/// Whether one query is a candidate.
fn passes(query: ([f32; 3], [f32; 10]), change: impl Fn(&mut QueryDecode)) -> bool {
    !decode(&[query], change).is_empty()
}

/// The sound query with one number replaced.
fn with(channel: usize, value: f32) -> ([f32; 3], [f32; 10]) {
    let (logits, mut numbers) = SOUND;
    numbers[channel] = value;
    (logits, numbers)
}

#[test]
fn a_query_becomes_a_box() {
    let found = decode(&[SOUND], |_| {});
    let [(source, class, score, object)] = found[..] else { panic!("{found:?}") };
    assert_eq!((source, class), (0, 0));
    assert!((score - 0.880_797).abs() < 1e-6);
    assert_eq!(object.bbox.center, [1.0, -2.0, 0.5]);
    let extents = [object.bbox.length_m, object.bbox.width_m, object.bbox.height_m];
    for (extent, logarithm) in extents.into_iter().zip([1.0_f32, 0.5, 0.25]) {
        assert!((extent - logarithm.exp()).abs() < 1e-6);
    }
    assert!((object.bbox.yaw_rad - 0.6_f32.atan2(0.8)).abs() < 1e-6);
    assert_eq!(object.velocity_mps, Some([3.0, -4.0]));
    let swapped = decode(&[SOUND], |params| params.size_order = SizeOrder::WidthLengthHeight);
    assert_eq!(swapped[0].3.bbox.length_m, object.bbox.width_m);
    let turned = decode(&[SOUND], |params| params.yaw = YawConvention::ClockwiseFromMinusY);
    let expected = -object.bbox.yaw_rad - std::f32::consts::FRAC_PI_2;
    assert!((turned[0].3.bbox.yaw_rad - expected).abs() < 1e-6);
}

#[test]
fn the_class_is_the_first_greatest_and_nan_is_none() {
    let of = |logits: [f32; 3]| {
        let found = decode(&[(logits, SOUND.1)], |_| {});
        found.first().map(|(_, class, ..)| *class)
    };
    assert_eq!(of([1.0, 1.0, 1.0]), Some(0));
    assert_eq!(of([0.5, 1.0, 1.0]), Some(1));
    assert_eq!(of([f32::NAN, 1.0, 2.0]), Some(2));
    assert_eq!(of([f32::NAN; 3]), None);
    assert_eq!(of([-0.1; 3]), None, "below the threshold");
    assert_eq!(of([0.0, -1.0, -1.0]), Some(0), "at the threshold");
}

#[test]
fn queries_with_a_nan_logit_are_counted_once() {
    let nan = f32::NAN;
    // By query, the logits of two classes.
    let logits = [[nan, nan], [nan, 2.0], [1.0, nan], [1.0, 2.0]];
    let boxes = [[nan; NUM_BOX_CHANNELS]; 4];
    for threshold in [0.5, 1.5] {
        let outputs = StreamPetrOutputs {
            logits: TensorView::new(&[4, 2], TensorValues::F32(logits.as_flattened())).unwrap(),
            boxes: TensorView::new(&[4, 10], TensorValues::F32(boxes.as_flattened())).unwrap(),
        };
        let mut params = params(true);
        params.query.yaw_norm_thresholds.clear();
        params.query.score_thresholds = ScoreThresholds::uniform(threshold, 2);
        let mut candidates = Candidates::with_capacity(9);
        decode_streampetr(&outputs, &params, &mut candidates).unwrap();
        assert_eq!((candidates.num_nan_scores(), candidates.as_slice().len()), (3, 0));
    }
}

#[test]
fn what_is_outside_weak_or_not_finite_is_dropped() {
    assert!(passes(SOUND, |_| {}));
    assert!(passes(with(0, 10.0), |params| params.center_range = None));
    for (channel, value) in [(0, 10.5), (1, -10.5), (2, 2.5)] {
        assert!(!passes(with(channel, value), |_| {}), "{channel} {value}");
        assert!(passes(with(channel, value), |params| params.center_range = None));
    }
    let weak = ([2.0, 1.0, -1.0], [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.0, 0.0]);
    assert!(!passes(weak, |_| {}));
    assert!(passes(weak, |params| params.yaw_norm_thresholds.clear()));
    assert!(passes(([0.0, 0.0, 2.0], weak.1), |_| {}), "the last class has no norm");
    for channel in 0..NUM_BOX_CHANNELS {
        for value in [f32::NAN, f32::INFINITY] {
            assert!(!passes(with(channel, value), |params| params.center_range = None));
        }
    }
    assert!(!passes(with(3, 200.0), |_| {}), "an extent that overflows");
    let by_distance = |params: &mut QueryDecode| {
        params.score_thresholds = ScoreThresholds {
            distance_upper_limits_m: vec![2.0, 3.0],
            per_class: vec![vec![0.5, 0.9]; NUM_CLASSES],
        };
    };
    assert!(!passes(SOUND, by_distance), "0.88 in a bin of 0.9");
    assert!(passes(with(1, 0.0), by_distance));
    assert!(!passes(with(1, 5.0), by_distance), "beyond the last bin");
}

#[test]
fn queries_that_pass_and_are_no_boxes_are_counted() {
    let num_invalid = |(logits, numbers): ([f32; 3], [f32; 10])| {
        let outputs = StreamPetrOutputs {
            logits: TensorView::new(&[1, 3], TensorValues::F32(&logits)).unwrap(),
            boxes: TensorView::new(&[1, 10], TensorValues::F32(&numbers)).unwrap(),
        };
        let mut candidates = Candidates::with_capacity(9);
        decode_streampetr(&outputs, &params(true), &mut candidates).unwrap();
        assert!(candidates.as_slice().len() + candidates.num_invalid_boxes() <= 1);
        candidates.num_invalid_boxes()
    };
    for channel in 0..NUM_BOX_CHANNELS {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(num_invalid(with(channel, value)), 1, "{channel} {value}");
            let (_, numbers) = with(channel, value);
            assert_eq!(num_invalid(([-2.0; 3], numbers)), 0, "below the threshold");
        }
    }
    assert_eq!(num_invalid(with(4, 200.0)), 1, "an extent that overflows");
    assert_eq!(num_invalid(SOUND), 0);
    assert_eq!(num_invalid(with(0, 10.5)), 0, "out of range");
}

#[test]
fn candidates_over_the_capacity_are_the_weakest() {
    let query = |logit| ([logit, -9.0, -9.0], SOUND.1);
    let found = decode(&[query(1.0), query(3.0), query(1.0), query(2.0)], |_| {});
    assert_eq!(found.iter().map(|found| found.0).collect::<Vec<_>>(), [1, 3, 0, 2]);
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let values = [0.0_f32; 60];
    let view = |shape| TensorView::new(shape, TensorValues::F32(&values)).unwrap();
    let integers = [0_i32; 6];
    let (logits, boxes): (&[usize], &[usize]) = (&[1, 3, 20], &[1, 10, 6]);
    let mut candidates = Candidates::with_capacity(1);
    let mut refused = |logits, boxes, params: &StreamPetrDecode| {
        let outputs = StreamPetrOutputs { logits, boxes };
        decode_streampetr(&outputs, params, &mut candidates).is_err()
    };
    let params = params(false);
    assert!(refused(view(logits), view(boxes), &params), "20 queries and 6");
    let six = TensorView::new(&[2, 3], TensorValues::I32(&integers)).unwrap();
    assert!(refused(six, view(boxes), &params), "integers");
    assert!(refused(view(&[60]), view(boxes), &params), "one dimension");
    let mut fewer = params.clone();
    fewer.query.yaw_norm_thresholds.pop();
    assert!(refused(view(logits), view(&[1, 10, 6]), &fewer));
}
