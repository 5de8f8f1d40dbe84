//! `det_post eval` with scores, truth and options whose numbers are none, or none of theirs.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use std::path::Path;

use common::replay::det_post;
use det_post_ros::bag::{BagCompression, BagWriter};
use det_post_ros::messages::{Detection2DArray, Detection3DArray, PointCloud2};
use det_post_ros::truth::encode_2d;
use det_post_types::{Box2d, Detection2d, Detection3d, Header, Object3d, Truth2d};
use serde_json::Value;

use super::eval::{NUM_FRAMES, add_topic, box_2d, eval, stamp, write_lines, write_truth};

/// A recording of one detection a frame and sensor with these scores.
fn write_scores(folder: &Path, score: impl Fn(u32) -> f32) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let lidar = add_topic(&mut bag, "/lidar/detections", Detection3DArray::TYPE);
    let camera = add_topic(&mut bag, "/camera/detections", Detection2DArray::TYPE);
    let mut bytes = Vec::new();
    for frame in 0..NUM_FRAMES {
        let (stamp, score) = (stamp(frame), score(frame));
        let found = Detection3d { class: 0, score, object: Object3d::default() };
        let header = Header { stamp, frame_id: "lidar_0" };
        Detection3DArray::encode(&header, &[found], &["car"], &mut bytes).unwrap();
        bag.write(lidar, stamp, &bytes).unwrap();
        let found = Detection2d { class: 0, score, bbox: box_2d(1) };
        let header = Header { stamp, frame_id: "camera_0" };
        Detection2DArray::encode(&header, &[found], &["car"], &mut bytes).unwrap();
        bag.write(camera, stamp, &bytes).unwrap();
    }
    bag.finish().unwrap();
}

#[test]
fn scores_that_are_no_probabilities_rank_and_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    write_lines(&folder.join("found.jsonl"), 0..NUM_FRAMES, ["lidar_0", "camera_0"]);
    let (of_probabilities, table) = eval(folder, "found.jsonl", &[]);
    assert_eq!(of_probabilities["scores_outside"], Value::Array(Vec::new()));
    assert!(!table.contains("outside 0 to 1"), "{table}");

    // Percentages: the same ranks, no calibration.
    let text = std::fs::read_to_string(folder.join("found.jsonl")).unwrap();
    let mut percentages = String::new();
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let kind = ["detections_2d", "detections_3d"].into_iter().find(|key| !line[*key].is_null());
        for found in line[kind.unwrap()].as_array_mut().unwrap() {
            found["score"] = (found["score"].as_f64().unwrap() * 100.0).into();
        }
        percentages += &format!("{line}\n");
    }
    std::fs::write(folder.join("percentages.jsonl"), percentages).unwrap();
    let (figures, table) = eval(folder, "percentages.jsonl", &[]);
    let num = 3 * 2 * u64::from(NUM_FRAMES);
    assert_eq!(figures["scores_outside"][0]["num_detections"], num);
    let lowest = figures["scores_outside"][0]["lowest"].as_f64().unwrap();
    assert!((lowest - 60.0).abs() < 1e-3, "{lowest}");
    let expected = format!("{num} scores outside 0 to 1, from ");
    assert!(table.contains(&expected) && table.contains("(first in line 1 of "), "{table}");
    for at in [0, 1] {
        let [sensor, expected] = [&figures, &of_probabilities].map(|of| &of["sensors"][at]);
        assert_eq!(sensor["classes"], expected["classes"]);
        assert_eq!(sensor["calibration"]["expected_error"], Value::Null);
        assert!(expected["calibration"]["expected_error"].is_number());
    }

    // A recording; limits of the interval are inside, what is no number is counted elsewhere.
    let scores = [0.0, 1.0, -0.25, 1.5, f32::NAN, f32::INFINITY];
    write_scores(&folder.join("recording"), |frame| scores[frame as usize % scores.len()]);
    let (figures, table) = eval(folder, "recording", &[]);
    let each = NUM_FRAMES / scores.len() as u32;
    assert_eq!(figures["scores_outside"][0]["num_detections"], 4 * each);
    assert_eq!(figures["sensors"][0]["num_unusable_detections"], 2 * each);
    let expected = format!("{} scores outside 0 to 1, from -0.25 to 1.5", 4 * each);
    assert!(table.contains(&expected) && table.contains("/lidar/detections at 1000."), "{table}");
}

/// An object that no filter can count is no reason for a better figure without a word.
#[test]
fn truth_whose_numbers_are_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut bag = BagWriter::create(&folder.join("truth"), BagCompression::None).unwrap();
    let array = add_topic(&mut bag, "/truth/camera_0", Detection2DArray::TYPE);
    let attributes = add_topic(&mut bag, "/truth/camera_0/attributes", PointCloud2::TYPE);
    let object = |bbox, visibility| Truth2d {
        class_name: "car",
        track_id: 0,
        bbox,
        visibility,
        truncation: 0.0,
        num_pixels: 99,
    };
    let objects: [Truth2d<'_, Box2d>; 4] = [
        object(box_2d(1), 1.0),
        object(box_2d(1), f32::NAN),
        object(Box2d::new(f32::NAN, 0.0, 40.0, 40.0), 1.0),
        object(Box2d::new(40.0, 0.0, 0.0, 40.0), 1.0),
    ];
    let [mut of_array, mut of_attributes] = [Vec::new(), Vec::new()];
    let header = Header { stamp: stamp(0), frame_id: "camera_0" };
    encode_2d(&header, &objects, &mut of_array, &mut of_attributes).unwrap();
    bag.write(array, stamp(0), &of_array).unwrap();
    bag.write(attributes, stamp(0), &of_attributes).unwrap();
    bag.finish().unwrap();
    write_lines(&folder.join("found.jsonl"), 0..1, ["lidar_0", "camera_0"]);
    let path = |name: &str| folder.join(name).display().to_string();
    let sides = ["--detections", &path("found.jsonl"), "--truth", &path("truth")];
    let run = det_post(&[&["eval"], &sides[..]].concat());
    run.expect_code(3);
    for expected in
        ["3 objects do not count: box or visibility not finite", "/truth/camera_0 at 1000."]
    {
        assert!(run.stdout.contains(expected), "{}", run.stdout);
    }
}

#[test]
fn filters_are_numbers_in_their_range() {
    for (option, values) in [
        ("--min-visibility", &["NaN", "50", "-0.1", "inf", ""][..]),
        ("--min-height", &["NaN", "-1", "inf", "tall"]),
        ("--max-range", &["NaN", "0", "1001"]),
    ] {
        for value in values {
            let option = format!("{option}={value}");
            let run = det_post(&["eval", "--detections", "no", "--truth", "no", &option]);
            run.expect_code(2);
            assert!(run.stderr.contains("invalid value"), "{option}: {}", run.stderr);
        }
    }
}

#[test]
fn classes_that_differ_in_case_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    let path = folder.join("found.jsonl");
    write_lines(&path, 0..NUM_FRAMES, ["lidar_0", "camera_0"]);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"car\"", "\"Car\"")).unwrap();
    let (_, table) = eval(folder, "found.jsonl", &[]);
    let expected = "classes \"car\" and \"Car\" differ in case: they are compared as two";
    assert_eq!(table.matches(expected).count(), 1, "{table}");
    assert!(!table.contains("\"pedestrian\""), "{table}");
}
