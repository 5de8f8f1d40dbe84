//! Cases whose figures can be told by hand; random ones stand beside their
//! peers in `tests/cli/eval_peers.rs`.

use super::box_overlap::{Overlaps, View};
use super::center_distance::{Errors, Matching, THRESHOLDS_M};
use super::*;
use det_post_types::{ImageBox, Object3d};

const ALL: Filter3d = Filter3d {
    min_range_m: 0.0,
    max_range_m: 50.0,
    min_points: 5,
    min_pixels: 12,
    min_visibility: 0.5,
};
const ALL_2D: Filter2d =
    Filter2d { min_height: 12.0, max_height: f64::INFINITY, min_visibility: 0.5 };

fn box_at(x: f32) -> Box3d {
    Box3d { center: [x, 3.0, 0.5], length_m: 4.0, width_m: 2.0, height_m: 1.5, yaw_rad: 0.3 }
}

fn there(x: f32, num_points: u32) -> GroundTruth3d {
    let evidence = Evidence::Points(num_points);
    GroundTruth3d { class: 0, bbox: box_at(x), velocity_mps: [1.0, 2.0], evidence, visibility: 0.0 }
}

fn found(x: f32, score: f32) -> Detection3d {
    let object = Object3d { bbox: box_at(x), velocity_mps: Some([1.0, 2.0]), variance: None };
    Detection3d { class: 0, score, object }
}

fn frame(truth: &[GroundTruth3d], detections: &[Detection3d]) -> Frame3d {
    Frame { truth: truth.to_vec(), detections: detections.to_vec() }
}

/// AP at the four distances, from above and in space. KITTI's definition gives
/// few objects less than their due, so that its frames come often.
fn figures(frames: &[Frame3d]) -> (Option<[f64; 4]>, Option<f64>, Option<f64>) {
    let often = vec![frames; 100].concat();
    let overlaps = Overlaps::new(&often, 0);
    let by_overlap = |view| overlaps.average_precision(view, 0.7, &ALL);
    let accuracy = Matching::new(frames, 0).accuracy(&ALL);
    (accuracy.ap, by_overlap(View::Bev), by_overlap(View::Space))
}

#[track_caller]
fn check(frames: &[Frame3d], by_distance: f64, by_overlap: f64) {
    let (ap, bev, space) = figures(frames);
    for ap in ap.unwrap() {
        assert!((ap - by_distance).abs() < 1e-9, "{ap} {by_distance}");
    }
    for ap in [bev.unwrap(), space.unwrap()] {
        assert!((ap - by_overlap).abs() < 1e-9, "{ap} {by_overlap}");
    }
}

#[test]
fn all_found_is_one_and_nothing_found_is_zero() {
    let truth: Vec<_> = (0..40).map(|i| there(i as f32, 9)).collect();
    let exact: Vec<_> = (0..40).map(|i| found(i as f32, 0.9 - 0.01 * i as f32)).collect();
    check(&[frame(&truth, &exact)], 1.0, 1.0);
    check(&[frame(&truth, &[])], 0.0, 0.0);
    let accuracy = Matching::new(&[frame(&truth, &[])], 0).accuracy(&ALL);
    assert_eq!(accuracy.errors.unwrap().translation_m.to_bits(), 1.0_f64.to_bits());
    let nothing_there = [frame(&[], &exact), frame(&[], &[])];
    for frames in [&nothing_there[..], &[]] {
        assert_eq!(figures(frames), (None, None, None));
        assert_eq!(Matching::new(frames, 0).accuracy(&ALL).errors, None);
    }
}

#[test]
fn truth_outside_the_filter_is_neither_missed_nor_a_false_alarm() {
    // Too few points, too far; both are found with the best scores.
    let truth = [there(10.0, 9), there(20.0, 4), there(60.0, 9)];
    let detections = [found(10.0, 0.5), found(20.0, 0.9), found(60.0, 0.8), found(-70.0, 0.95)];
    check(&[frame(&truth, &detections[..1])], 1.0, 1.0);
    check(&[frame(&truth, &detections)], 1.0, 1.0);
    // A detection in range that fits nothing halves the precision; nuScenes
    // draws a line from none at no recall to half at all: the mean of what
    // 0.5 r exceeds 0.1 by.
    let with_alarm = [detections.as_slice(), &[found(30.0, 0.7)]].concat();
    check(&[frame(&truth, &with_alarm)], 0.2, 0.5);
}

#[test]
fn scores_that_are_no_numbers_take_no_part() {
    let truth = [there(10.0, 9)];
    let mut detections = vec![found(10.0, 0.5)];
    check(&[frame(&truth, &detections)], 1.0, 1.0);
    detections.extend([found(30.0, f32::NAN), found(f32::NAN, 0.9), found(30.0, f32::INFINITY)]);
    let frames = [frame(&truth, &detections)];
    check(&frames, 1.0, 1.0);
    assert_eq!(num_unusable_3d(&frames), 3);
    let mut reversed = found(30.0, 0.9);
    reversed.object.bbox.width_m = -2.0;
    detections.push(reversed);
    let frames = [frame(&truth, &detections)];
    check(&frames, 1.0, 1.0);
    assert_eq!(num_unusable_3d(&frames), 4);
}

#[test]
fn equal_scores_are_taken_in_their_order() {
    let truth = [there(10.0, 9)];
    let near_first = [found(10.1, 0.5), found(10.0, 0.5)];
    let accuracy =
        |detections: &[Detection3d]| Matching::new(&[frame(&truth, detections)], 0).accuracy(&ALL);
    let error = |detections: &[Detection3d]| accuracy(detections).errors.unwrap().translation_m;
    assert!((error(&near_first) - 0.1).abs() < 1e-6);
    assert!(error(&[near_first[1], near_first[0]]) < 1e-6);
    assert_eq!(accuracy(&near_first).scored.iter().filter(|s| s.is_right).count(), 1);
}

#[test]
fn a_threshold_is_not_itself_near_enough() {
    let truth = [there(10.0, 9)];
    let detections = [found(11.0, 0.5)];
    let ap = figures(&[frame(&truth, &detections)]).0.unwrap();
    assert_eq!(THRESHOLDS_M.map(|threshold| threshold > 1.0), ap.map(|ap| ap > 0.5));
}

#[test]
fn errors_are_those_of_the_matches() {
    let mut detection = found(10.3, 0.5);
    let bbox = &mut detection.object.bbox;
    (bbox.length_m, bbox.yaw_rad) = (2.0, bbox.yaw_rad + 7.0);
    detection.object.velocity_mps = Some([1.5, 2.0]);
    let errors = |detection| {
        Matching::new(&[frame(&[there(10.0, 9)], &[detection])], 0).accuracy(&ALL).errors.unwrap()
    };
    let Errors { translation_m, scale, heading_rad, velocity_mps } = errors(detection);
    let turn = 7.0 - std::f64::consts::TAU;
    let pairs =
        [(translation_m, 0.3), (scale, 0.5), (heading_rad, turn), (velocity_mps.unwrap(), 0.5)];
    for (found, expected) in pairs {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
    detection.object.velocity_mps = None;
    assert_eq!(errors(detection).velocity_mps, None);
}

#[test]
fn regions_in_images_ask_for_nothing() {
    let there = |x: f32, height: f32, visibility| GroundTruth2d {
        class: 0,
        bbox: Box2d::new(x, 0.0, x + 40.0, height).into(),
        visibility,
    };
    let found = |x: f32, height: f32, score| Detection2d {
        class: 0,
        score,
        bbox: Box2d::new(x, 0.0, x + 40.0, height).into(),
    };
    let truth = vec![there(0.0, 40.0, 1.0), there(100.0, 40.0, 0.4), there(200.0, 8.0, 1.0)];
    let ap = |detections: &[Detection2d<ImageBox>]| {
        let frames = [Frame { truth: truth.clone(), detections: detections.to_vec() }];
        image::accuracy(&frames, 0, &ALL_2D)
    };
    let good = found(0.0, 40.0, 0.5);
    // In a hidden object's box twice; on a low object; low and on nothing.
    let excused = [
        found(100.0, 20.0, 0.9),
        found(100.0, 40.0, 0.8),
        found(200.0, 9.0, 0.95),
        found(300.0, 11.0, 0.99),
    ];
    let detections = [&excused[..], &[good]].concat();
    for detections in [&[good][..], &detections] {
        let found = ap(detections);
        assert_eq!(found.num_truth, 1);
        assert!((found.mean_ap().unwrap() - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found.scored, [Scored { score: 0.5, is_right: true }]);
    }
    let alarm = ap(&[&detections[..], &[found(300.0, 12.0, 0.6)]].concat());
    assert!((alarm.ap50().unwrap() - 0.5).abs() < 1e-9, "{alarm:?}");
    assert!(ap(&[]).mean_ap().unwrap() < 1e-12);
    assert_eq!(image::accuracy(&[], 0, &ALL_2D).mean_ap(), None);
    let not_a_number = ap(&[good, found(300.0, 50.0, f32::NAN)]);
    assert!((not_a_number.ap75().unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn few_objects_keep_overlap_below_one() {
    for num_truth in [1, box_overlap::MIN_NUM_TRUTH - 1, box_overlap::MIN_NUM_TRUTH] {
        let frames = vec![frame(&[there(10.0, 9)], &[found(10.0, 0.5)]); num_truth];
        let ap = Overlaps::new(&frames, 0).average_precision(View::Bev, 0.7, &ALL).unwrap();
        assert!((ap - (num_truth - 1) as f64 / 40.0).abs() < 1e-9, "{num_truth} {ap}");
    }
}

/// An object with a box that is none is neither found nor missed.
#[test]
fn truth_that_is_no_box_does_not_count() {
    let whole = there(10.0, 9);
    assert!(ALL.counts(&whole));
    let length = |length_m| GroundTruth3d { bbox: Box3d { length_m, ..box_at(10.0) }, ..whole };
    for damaged in [length(-4.0), length(f32::NAN), length(f32::INFINITY)] {
        assert!(!ALL.counts(&damaged), "{damaged:?}");
        check(&[frame(&[whole, damaged], &[found(10.0, 0.9)])], 1.0, 1.0);
    }
    let in_image = |[x1, y1, x2, y2]: [f32; 4]| GroundTruth2d {
        class: 0,
        bbox: Box2d::new(x1, y1, x2, y2).into(),
        visibility: 1.0,
    };
    assert!(ALL_2D.counts(&in_image([0.0, 0.0, 40.0, 40.0])));
    for damaged in [[40.0, 0.0, 0.0, 40.0], [f32::NAN, 0.0, 40.0, 40.0], [0.0, 40.0, 40.0, 0.0]] {
        assert!(!ALL_2D.counts(&in_image(damaged)), "{damaged:?}");
    }
    assert!(
        !ALL_2D.counts(&GroundTruth2d { visibility: f32::NAN, ..in_image([0.0, 0.0, 40.0, 40.0]) })
    );
}
