//! `det_post eval` as a user runs it, on recordings whose figures are known.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use std::path::Path;

use common::replay::det_post;
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{Detection2DArray, Detection3DArray, PointCloud2, definition};
use det_post_ros::truth::{encode_2d, encode_3d};
use det_post_types::{
    Box2d, Box3d, Detection2d, Detection3d, Evidence, Header, Object3d, Stamp, Truth2d, Truth3d,
};
use serde_json::{Value, json};

const CLASSES: [&str; 2] = ["car", "pedestrian"];
pub(super) const NUM_FRAMES: u32 = 30;
const NUM_OBJECTS: u32 = 4;

pub(super) fn stamp(frame: u32) -> Stamp {
    Stamp::from_ros(1000, 100_000_000 / NUM_FRAMES * frame)
}

fn box_3d(object: u32) -> Box3d {
    let x = 4.0 + 11.0 * object as f32;
    Box3d { center: [x, -1.0, 0.5], length_m: 4.0, width_m: 2.0, height_m: 1.5, yaw_rad: 0.4 }
}

pub(super) fn box_2d(object: u32) -> Box2d {
    let x = 100.0 * object as f32;
    Box2d::new(x, 50.0, x + 40.0, 65.0 + 30.0 * object as f32)
}

pub(super) fn add_topic(bag: &mut BagWriter, topic: &str, type_name: &str) -> usize {
    let text = definition(type_name).unwrap();
    bag.add_topic(topic, type_name, &text, OfferedQos::default()).unwrap()
}

/// Truth of a lidar and of a camera, the same in every frame.
pub(super) fn write_truth(folder: &Path) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let topics = [
        ("/truth/lidar_0", Detection3DArray::TYPE),
        ("/truth/lidar_0/attributes", PointCloud2::TYPE),
        ("/truth/camera_0", Detection2DArray::TYPE),
        ("/truth/camera_0/attributes", PointCloud2::TYPE),
    ]
    .map(|(topic, type_name)| add_topic(&mut bag, topic, type_name));
    let [mut array, mut attributes] = [Vec::new(), Vec::new()];
    for frame in 0..NUM_FRAMES {
        let stamp = stamp(frame);
        let objects = |i: u32| Truth3d {
            class_name: CLASSES[i as usize % 2],
            track_id: i,
            bbox: box_3d(i),
            velocity_mps: [1.0, 0.0],
            evidence: Evidence::Points(if i == 3 { 4 } else { 50 }),
            visibility: 1.0,
        };
        let objects: Vec<_> = (0..NUM_OBJECTS).map(objects).collect();
        let header = Header { stamp, frame_id: "lidar_0" };
        encode_3d(&header, &objects, &mut array, &mut attributes).unwrap();
        bag.write(topics[0], stamp, &array).unwrap();
        bag.write(topics[1], stamp, &attributes).unwrap();
        let objects = |i: u32| Truth2d {
            class_name: CLASSES[i as usize % 2],
            track_id: i,
            bbox: box_2d(i),
            visibility: if i == 3 { 0.4 } else { 1.0 },
            truncation: 0.0,
            num_pixels: 99,
        };
        let objects: Vec<_> = (0..NUM_OBJECTS).map(objects).collect();
        let header = Header { stamp, frame_id: "camera_0" };
        encode_2d(&header, &objects, &mut array, &mut attributes).unwrap();
        // The halves of a frame may come in either order.
        bag.write(topics[3], stamp, &attributes).unwrap();
        bag.write(topics[2], stamp, &array).unwrap();
    }
    bag.finish().unwrap();
}

fn found_3d(object: u32) -> Detection3d {
    let object_3d =
        Object3d { bbox: box_3d(object), velocity_mps: Some([1.0, 0.5]), variance: None };
    Detection3d { class: object % 2, score: 0.9 - 0.1 * object as f32, object: object_3d }
}

fn found_2d(object: u32) -> Detection2d {
    Detection2d { class: object % 2, score: 0.9 - 0.1 * object as f32, bbox: box_2d(object) }
}

/// Lines that find all but one car: in every frame objects 1 to 3.
pub(super) fn write_lines(path: &Path, frames: impl Iterator<Item = u32>, frame_ids: [&str; 2]) {
    let mut text = String::new();
    for frame in frames {
        let nanos = stamp(frame).nanos();
        let found: Vec<Value> = (1..NUM_OBJECTS)
            .map(found_3d)
            .map(|d| {
                let b = d.object.bbox;
                json!({"class_id": d.class, "class_name": CLASSES[d.class as usize],
                       "score": d.score, "center": b.center, "yaw": b.yaw_rad,
                       "size": [b.length_m, b.width_m, b.height_m],
                       "velocity": d.object.velocity_mps})
            })
            .collect();
        let line = json!({"channel": "lidar", "topic": "/lidar/detections", "stamp_ns": nanos,
                          "frame_id": frame_ids[0], "detections_3d": found});
        text += &format!("{line}\n");
        let found: Vec<Value> = (1..NUM_OBJECTS)
            .map(found_2d)
            .map(|d| {
                json!({"class_id": d.class, "class_name": CLASSES[d.class as usize],
                       "score": d.score, "box": [d.bbox.x1, d.bbox.y1, d.bbox.x2, d.bbox.y2]})
            })
            .collect();
        let line = json!({"channel": "camera", "topic": "/camera/detections", "stamp_ns": nanos,
                          "frame_id": frame_ids[1], "detections_2d": found});
        text += &format!("{line}\n");
    }
    std::fs::write(path, text).unwrap();
}

/// The same as a recording.
pub(super) fn write_recording(folder: &Path) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let lidar = add_topic(&mut bag, "/lidar/detections", Detection3DArray::TYPE);
    let camera = add_topic(&mut bag, "/camera/detections", Detection2DArray::TYPE);
    let mut bytes = Vec::new();
    for frame in 0..NUM_FRAMES {
        let stamp = stamp(frame);
        let found: Vec<_> = (1..NUM_OBJECTS).map(found_3d).collect();
        let header = Header { stamp, frame_id: "lidar_0" };
        Detection3DArray::encode(&header, &found, &CLASSES, &mut bytes).unwrap();
        bag.write(lidar, stamp, &bytes).unwrap();
        let found: Vec<_> = (1..NUM_OBJECTS).map(found_2d).collect();
        let header = Header { stamp, frame_id: "camera_0" };
        Detection2DArray::encode(&header, &found, &CLASSES, &mut bytes).unwrap();
        bag.write(camera, stamp, &bytes).unwrap();
    }
    bag.finish().unwrap();
}

/// Runs the command; the figures it wrote and its tables.
#[track_caller]
pub(super) fn eval(folder: &Path, detections: &str, more: &[&str]) -> (Value, String) {
    let path = |name: &str| folder.join(name).display().to_string();
    let (found, truth, json) = (path(detections), path("truth"), path("eval.json"));
    let mut arguments = vec!["eval", "--detections", &found, "--truth", &truth, "--json", &json];
    arguments.extend(more);
    let run = det_post(&arguments);
    run.expect_code(0);
    (serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap(), run.stdout)
}

#[track_caller]
fn near(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() < 1e-6, "{found} {expected}");
}

/// Whether a figure is what half of the cars and all pedestrians make.
#[track_caller]
fn check_figures(figures: &Value, velocity_error: Option<f64>) {
    let [lidar, camera] = [&figures["sensors"][0], &figures["sensors"][1]];
    assert_eq!((&lidar["sensor"], &camera["sensor"]), (&json!("lidar"), &json!("camera")));
    // Object 3 has too few points; of the cars one of two is found.
    let classes = &lidar["classes"];
    assert_eq!(classes["car"]["num_truth"], 2 * NUM_FRAMES);
    assert_eq!(classes["pedestrian"]["num_truth"], NUM_FRAMES);
    near(&classes["pedestrian"]["ap"], 1.0);
    // Recall points 0.11 to 0.50 of 0.11 to 1.
    near(&classes["car"]["ap"], 40.0 / 90.0);
    near(&lidar["map"], (1.0 + 40.0 / 90.0) / 2.0);
    near(&classes["car"]["errors"]["translation_m"], 0.0);
    match velocity_error {
        Some(error) => near(&classes["car"]["errors"]["velocity_mps"], error),
        None => assert_eq!(classes["car"]["errors"]["velocity_mps"], Value::Null),
    }
    near(&classes["car"]["ap_3d"], 0.5);
    let ranges = classes["car"]["by_range_m"].as_array().unwrap();
    let num_truth: Vec<_> =
        ranges.iter().map(|bin| bin[1]["num_truth"].as_u64().unwrap()).collect();
    let per_bin = u64::from(NUM_FRAMES);
    assert_eq!(num_truth, [per_bin, 0, per_bin, 0, 0]);
    near(&ranges[0][1]["ap"], 0.0);
    assert_eq!(ranges[1][1]["ap"], Value::Null);
    near(&ranges[2][1]["ap"], 1.0);
    // 51 of 101 recall points.
    let classes = &camera["classes"];
    near(&classes["car"]["ap50"], 51.0 / 101.0);
    near(&classes["pedestrian"]["ap"], 1.0);
    assert_eq!(classes["pedestrian"]["num_truth"], NUM_FRAMES, "object 3 is hidden");
    let heights = classes["car"]["by_height"].as_array().unwrap();
    near(&heights[0][1]["ap50"], 0.0);
    near(&heights[2][1]["ap50"], 1.0);
}

#[test]
fn known_figures_come_out() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    write_lines(&folder.join("detections.jsonl"), 0..NUM_FRAMES, ["lidar_0", "camera_0"]);
    write_recording(&folder.join("detections"));
    let plots = folder.join("plots").display().to_string();
    let (figures, table) = eval(folder, "detections.jsonl", &["--out", &plots]);
    check_figures(&figures, Some(0.5));
    assert!(table.contains("mAP 0.722"), "{table}");
    assert!(table.contains("0.000 (30)        - (0)   1.000 (30)"), "{table}");
    for name in ["lidar", "camera"] {
        for plot in ["precision_recall", "calibration"] {
            let file = std::fs::File::open(format!("{plots}/{name}_{plot}.png")).unwrap();
            let decoder = png::Decoder::new(std::io::BufReader::new(file));
            assert_eq!(decoder.read_info().unwrap().info().size(), (820, 560));
        }
    }
    // A folder with detections.jsonl says the same; a recording has no velocities.
    let (of_folder, _) = eval(folder, "", &[]);
    assert_eq!(of_folder["sensors"], figures["sensors"]);
    let (figures, _) = eval(folder, "detections", &[]);
    check_figures(&figures, None);
}

/// Drives of the same stamps: precision and recall are those of all frames
/// together.
#[test]
fn drives_are_measured_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    write_lines(&folder.join("one.jsonl"), 0..NUM_FRAMES, ["lidar_0", "camera_0"]);
    let path = |name: &str| folder.join(name).display().to_string();
    let (one, truth, json) = (path("one.jsonl"), path("truth"), path("eval.json"));
    let (by_itself, _) = eval(folder, "one.jsonl", &[]);
    let run = det_post(&[
        "eval",
        "--json",
        &json,
        "--detections",
        &one,
        &one,
        "--truth",
        &truth,
        "--truth",
        &truth,
    ]);
    run.expect_code(0);
    let both: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(both["drives"].as_array().unwrap().len(), 2);
    for (sensor, of_one) in [0, 1].map(|at| (&both["sensors"][at], &by_itself["sensors"][at])) {
        assert_eq!(sensor["num_frames"], 2 * of_one["num_frames"].as_u64().unwrap());
        let [twice, once] = [sensor, of_one].map(|s| &s["classes"]["car"]);
        assert_eq!(twice["num_truth"], 2 * once["num_truth"].as_u64().unwrap());
        assert_eq!(twice["ap"], once["ap"], "the same frames twice have the same curve");
    }
    // Of the second drive all frames but one are missing.
    write_lines(&folder.join("none.jsonl"), NUM_FRAMES - 1..NUM_FRAMES, ["lidar_0", "camera_0"]);
    let none = path("none.jsonl");
    let run = det_post(&[
        "eval",
        "--json",
        &json,
        "--count-missing",
        "--detections",
        &one,
        &none,
        "--truth",
        &truth,
        &truth,
    ]);
    run.expect_code(0);
    let half: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let pedestrians = &half["sensors"][1]["classes"]["pedestrian"];
    // 31 of 60 are found, none wrongly: 52 of 101 recall points.
    near(&pedestrians["ap50"], 52.0 / 101.0);
    let run = det_post(&["eval", "--detections", &one, &one, "--truth", &truth]);
    run.expect_code(2);
    assert!(run.stderr.contains("2 --detections do not match 1 --truth"), "{}", run.stderr);
    // A file of the user is refused before any recording is looked for.
    for option in ["--json", "--html"] {
        let run = det_post(&["eval", "--detections", "no", "--truth", "no", option, &none]);
        run.expect_code(2);
        assert!(run.stderr.contains("none.jsonl was not written by det_post"), "{}", run.stderr);
    }
}

#[test]
fn frames_without_a_partner_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    // Every other frame is missing, and five come that truth does not know.
    let frames = (0..NUM_FRAMES).step_by(2).chain(NUM_FRAMES..NUM_FRAMES + 5);
    write_lines(&folder.join("found.jsonl"), frames, ["lidar_0", "camera_0"]);
    let (figures, table) = eval(folder, "found.jsonl", &[]);
    let lidar = &figures["sensors"][0];
    assert_eq!(lidar["num_frames"], 15);
    assert_eq!(lidar["num_truth_frames_without_detections"], 15);
    assert_eq!(lidar["num_detection_frames_without_truth"], 5);
    near(&lidar["classes"]["pedestrian"]["ap"], 1.0);
    assert!(table.contains("15 frames of truth without detections"), "{table}");
    assert!(table.contains("5 frames of detections without truth, left out"), "{table}");
    let (figures, _) = eval(folder, "found.jsonl", &["--count-missing"]);
    near(&figures["sensors"][0]["classes"]["pedestrian"]["ap"], 40.0 / 90.0);
}

#[test]
fn topics_of_another_frame_belong_together_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    write_lines(&folder.join("found.jsonl"), 0..NUM_FRAMES, ["velodyne", "camera_0"]);
    let (figures, _) = eval(folder, "found.jsonl", &[]);
    assert_eq!(figures["sensors"].as_array().unwrap().len(), 1, "only the camera");
    let pair = "/lidar/detections=/truth/lidar_0";
    let (figures, _) = eval(folder, "found.jsonl", &["--pair", pair]);
    check_figures(&figures, Some(0.5));
    let path = |name: &str| folder.join(name).display().to_string();
    for (more, code) in [("/lidar/detections=/truth/camera_0", 1), ("/lidar/detections", 2)] {
        let run = det_post(&[
            "eval",
            "--detections",
            &path("found.jsonl"),
            "--truth",
            &path("truth"),
            "--pair",
            more,
        ]);
        run.expect_code(code);
    }
}

/// Files that an editor saved: a mark of the byte order, blank lines, ends of lines of two bytes.
#[test]
fn blank_lines_and_a_mark_are_no_damage_and_a_missing_drive_names_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    write_lines(&folder.join("found.jsonl"), 0..3, ["lidar_0", "camera_0"]);
    let lines = std::fs::read_to_string(folder.join("found.jsonl")).unwrap();
    let edited = format!("\u{feff}{}\r\n  \r\n\n", lines.replace('\n', "\r\n\r\n"));
    std::fs::write(folder.join("edited.jsonl"), edited).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let table = |name: &str| {
        let run = det_post(&["eval", "--detections", &path(name), "--truth", &path("truth")]);
        run.expect_code(0);
        run.stdout
    };
    assert_eq!(table("edited.jsonl"), table("found.jsonl"));
    let good = "{\"detections\": \"found.jsonl\", \"truth\": \"truth\"}\n";
    let list = format!("{good}\n{{\"detections\": \"gone\", \"truth\": \"truth\"}}\n");
    std::fs::write(folder.join("drives.jsonl"), list).unwrap();
    let run = det_post(&["eval", "--drives", &path("drives.jsonl")]);
    run.expect_code(1);
    let place = format!("line 3 of {}", path("drives.jsonl"));
    assert!(run.stderr.contains(&place) && run.stderr.contains("gone"), "{}", run.stderr);
}

#[test]
fn what_cannot_be_compared_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    write_recording(&folder.join("detections"));
    write_lines(&folder.join("later.jsonl"), 100..110, ["lidar_0", "camera_0"]);
    write_lines(&folder.join("apart.jsonl"), 0..3, ["elsewhere", "nowhere"]);
    std::fs::write(folder.join("broken.jsonl"), "{\"channel\": \"lidar\"}\n").unwrap();
    // A line without an end; the file is sparse.
    let long = std::fs::File::create(folder.join("long.jsonl")).unwrap();
    long.set_len(1 << 30).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let cases = [
        ("long.jsonl", "truth", "has more than 33554432 bytes"),
        ("later.jsonl", "truth", "has its stamp in /truth/lidar_0"),
        ("apart.jsonl", "truth", "(/lidar/detections in \"elsewhere\""),
        ("broken.jsonl", "truth", "line 1 of"),
        ("detections", "detections", "holds no truth"),
        ("missing.jsonl", "truth", "missing.jsonl"),
    ];
    for (found, truth, words) in cases {
        let run = det_post(&["eval", "--detections", &path(found), "--truth", &path(truth)]);
        run.expect_code(1);
        assert!(run.stderr.contains(words), "{found}: {}", run.stderr);
    }
}

#[test]
fn what_is_malformed_is_left_out_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    let path = |name: &str| folder.join(name).display().to_string();
    // A line that is cut.
    write_lines(&folder.join("found.jsonl"), 0..NUM_FRAMES, ["lidar_0", "camera_0"]);
    let text = std::fs::read_to_string(path("found.jsonl")).unwrap();
    std::fs::write(path("found.jsonl"), &text[..text.len() - 9]).unwrap();
    // A message that is cut, beside others.
    write_recording(&folder.join("whole"));
    let mut bag = BagWriter::create(&folder.join("found"), BagCompression::None).unwrap();
    let topic = add_topic(&mut bag, "/lidar/detections", Detection3DArray::TYPE);
    let mut bytes = Vec::new();
    for frame in 0..NUM_FRAMES {
        let found: Vec<_> = (1..NUM_OBJECTS).map(found_3d).collect();
        let header = Header { stamp: stamp(frame), frame_id: "lidar_0" };
        Detection3DArray::encode(&header, &found, &CLASSES, &mut bytes).unwrap();
        let len = if frame == 3 { 50 } else { bytes.len() };
        bag.write(topic, stamp(frame), &bytes[..len]).unwrap();
    }
    bag.finish().unwrap();
    for (found, words) in [
        ("found.jsonl", ["found.jsonl is no frame", "line 60 of"]),
        ("found", ["/found: /lidar/detections at 1000.", "recording damaged"]),
    ] {
        let (truth, whole) = (path("truth"), path("whole"));
        let sides = ["--detections", &path(found), &whole, "--truth", &truth, &truth];
        let run = det_post(&[&["eval"], &sides[..]].concat());
        run.expect_code(3);
        for word in words {
            assert!(run.stdout.contains(word), "{word}: {}", run.stdout);
        }
    }
}

#[test]
fn outputs_are_neither_the_same_file_nor_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    std::fs::create_dir(folder.join("out")).unwrap();
    let lines = folder.join("out/detections.jsonl");
    write_lines(&lines, 0..NUM_FRAMES, ["lidar_0", "camera_0"]);
    let before = std::fs::read(&lines).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let (found, truth) = (path("out"), path("truth"));
    let sides = ["eval", "--detections", &found, "--truth", &truth];
    for (more, words) in [
        (vec!["--json", &*path("a"), "--html", &*path("out/../a")], "name the same file"),
        (vec!["--json", &*path("out/detections.jsonl")], "detections.jsonl"),
        (vec!["--html", &*path("truth/metadata.yaml")], "metadata.yaml"),
    ] {
        let run = det_post(&[&sides[..], &more].concat());
        run.expect_code(2);
        assert!(run.stderr.contains(words), "{more:?}: {}", run.stderr);
    }
    assert_eq!(std::fs::read(&lines).unwrap(), before);
    // A channel whose name is too long for a file.
    let text = String::from_utf8(before)
        .unwrap()
        .replace("\"lidar\"", &format!("\"{}\"", "x".repeat(300)));
    std::fs::write(&lines, text).unwrap();
    det_post(&[&sides[..], &["--out", &path("plots"), "--coco", &path("coco")]].concat())
        .expect_code(0);
}

#[test]
fn a_side_without_detections_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    write_truth(&folder.path().join("truth"));
    std::fs::write(path("none.jsonl"), "\n").unwrap();
    for detections in ["truth", "none.jsonl"] {
        let run = det_post(&["eval", "--detections", &path(detections), "--truth", &path("truth")]);
        run.expect_code(1);
        let expected = format!("{} holds no detections; allowed: ", path(detections));
        assert!(run.stderr.contains(&expected), "{}", run.stderr);
    }
}

#[test]
fn numbers_that_are_none_are_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    let path = folder.join("found.jsonl");
    write_lines(&path, 0..NUM_FRAMES, ["lidar_0", "camera_0"]);
    let text = std::fs::read_to_string(&path).unwrap();
    let (first, rest) = text.split_once("\"score\":").unwrap();
    let (_, after) = rest.split_once(',').unwrap();
    std::fs::write(&path, format!("{first}\"score\":null,{after}")).unwrap();
    let (figures, table) = eval(folder, "found.jsonl", &[]);
    assert_eq!(figures["sensors"][0]["num_unusable_detections"], 1);
    assert!(
        table.contains("1 detection left out: score or box not finite, or box reversed"),
        "{table}"
    );
}

#[test]
fn a_list_of_drives_is_what_the_command_line_would_name() {
    let folder = tempfile::tempdir().unwrap();
    let [truth, found] = ["truth", "found"].map(|name| folder.path().join(name));
    write_truth(&truth);
    write_recording(&found);
    let list = folder.path().join("drives.jsonl");
    let line = "{\"detections\": \"found\", \"truth\": \"truth\", \"unit\": \"a\"}\n";
    std::fs::write(&list, [line, line].concat()).unwrap();
    let [truth, found, list] = [&truth, &found, &list].map(|path| path.display().to_string());
    let [a, b] = ["a.json", "b.json"].map(|name| folder.path().join(name).display().to_string());
    let named = det_post(&[
        "eval",
        "--detections",
        &found,
        &found,
        "--truth",
        &truth,
        &truth,
        "--json",
        &a,
    ]);
    let listed = det_post(&["eval", "--drives", &list, "--json", &b]);
    assert_eq!(named.expect_code(0).stdout, listed.expect_code(0).stdout);
    assert_eq!(std::fs::read(&a).unwrap(), std::fs::read(&b).unwrap());
    det_post(&["eval", "--drives", &list, "--truth", &truth]).expect_code(2);
    det_post(&["eval"]).expect_code(2);
}

#[test]
fn files_of_coco_hold_every_box() {
    let folder = tempfile::tempdir().unwrap();
    let [truth, found, coco] = ["truth", "found", "coco"].map(|name| folder.path().join(name));
    write_truth(&truth);
    write_recording(&found);
    let [truth, found, out] = [&truth, &found, &coco].map(|path| path.display().to_string());
    let arguments = ["eval", "--detections", &found, "--truth", &truth, "--coco", &out];
    det_post(&arguments).expect_code(0);
    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(coco.join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let mut files: Vec<String> = std::fs::read_dir(&coco)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json"))
        .collect();
    files.sort();
    let [detections, truth] = [0, 1].map(|at: usize| read(&files[at]));
    assert!(files[0].ends_with("_detections.json") && files[1].ends_with("_truth.json"));
    let images = truth["images"].as_array().unwrap();
    assert_eq!(images.len(), NUM_FRAMES as usize);
    let annotations = truth["annotations"].as_array().unwrap();
    assert_eq!(annotations.len(), (NUM_FRAMES * NUM_OBJECTS) as usize);
    let Box2d { x1, y1, x2, y2 } = box_2d(0);
    let expected = [x1, y1, x2 - x1, y2 - y1].map(f64::from);
    assert_eq!(annotations[0]["bbox"], json!(expected));
    let names: Vec<_> = truth["categories"].as_array().unwrap().iter().collect();
    let name_of =
        |id: &Value| names.iter().find(|entry| entry["id"] == *id).unwrap()["name"].clone();
    assert_eq!(name_of(&annotations[0]["category_id"]), CLASSES[0]);
    let found = detections.as_array().unwrap();
    assert!(!found.is_empty());
    for detection in found {
        let image = detection["image_id"].as_u64().unwrap();
        assert!((1..=u64::from(NUM_FRAMES)).contains(&image), "{detection}");
    }
    // Another run replaces the files.
    det_post(&arguments).expect_code(0);
}

/// Channels of one name in drives whose topics differ are sensors of their own.
#[test]
fn sensors_of_one_name_have_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    write_lines(&folder.join("a.jsonl"), 0..NUM_FRAMES, ["lidar_0", "camera_0"]);
    let text = std::fs::read_to_string(folder.join("a.jsonl")).unwrap();
    let text = text.replace("/detections\"", "/others\"");
    std::fs::write(folder.join("b.jsonl"), &text).unwrap();
    // A name that is the other with a number.
    let text = text.replace("/others\"", "/thirds\"").replace("\"camera\"", "\"/camera/2\"");
    std::fs::write(folder.join("c.jsonl"), &text).unwrap();
    let [out, coco] = ["out", "coco"].map(|name| folder.join(name).display().to_string());
    // Another run replaces the files.
    for _ in 0..2 {
        let more = ["--out", &out, "--coco", &coco];
        let (figures, _) = eval_drives(folder, &["a.jsonl", "b.jsonl", "c.jsonl"], &more);
        assert_eq!(figures["sensors"].as_array().unwrap().len(), 6);
        let files = |folder: &str, end: &str| -> Vec<String> {
            let entries = std::fs::read_dir(folder).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<_> =
                names.filter_map(|name| name.strip_suffix(end).map(str::to_owned)).collect();
            names.sort();
            names
        };
        let cameras = ["camera", "camera_2", "camera_2_2"];
        for end in ["_precision_recall.png", "_calibration.png"] {
            let expected = [&cameras[..], &["lidar", "lidar_2", "lidar_3"]].concat();
            assert_eq!(files(&out, end), expected);
        }
        for end in ["_truth.json", "_detections.json"] {
            assert_eq!(files(&coco, end), cameras);
        }
        for (camera, topic) in cameras.iter().zip(["detections", "others", "thirds"]) {
            let text = std::fs::read_to_string(format!("{coco}/{camera}_truth.json")).unwrap();
            assert!(text.contains(&format!("\"file_name\":\"/camera/{topic}/")), "{camera}");
        }
    }
}

/// Heads write the classes of KITTI in either case, and so do recordings.
#[test]
fn overlaps_of_kitti_hold_for_names_in_either_case() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    let path = folder.join("found.jsonl");
    write_lines(&path, 0..NUM_FRAMES, ["lidar_0", "camera_0"]);
    let expected =
        [("Car", 0.7), ("CAR", 0.7), ("Van", 0.7), ("TRUCK", 0.7), ("Bus", 0.7), ("Cyclist", 0.5)];
    let mut text = String::new();
    // A line of the lidar and one of the camera are a frame.
    for (index, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
        let (name, _) = expected[index / 2 % expected.len()];
        text += &(line.replace("\"car\"", &format!("\"{name}\"")) + "\n");
    }
    std::fs::write(&path, text).unwrap();
    let (figures, _) = eval(folder, "found.jsonl", &[]);
    let classes = &figures["sensors"][0]["classes"];
    for (name, overlap) in expected.into_iter().chain([("car", 0.7), ("pedestrian", 0.5)]) {
        assert_eq!(classes[name]["min_overlap"], overlap, "{name}");
    }
}

/// The figures of drives with the same truth, and the log.
#[track_caller]
fn eval_drives(folder: &Path, detections: &[&str], more: &[&str]) -> (Value, String) {
    let path = |name: &str| folder.join(name).display().to_string();
    let (truth, json) = (path("truth"), path("eval.json"));
    let found: Vec<String> = detections.iter().map(|name| path(name)).collect();
    let mut arguments = vec!["eval", "--json", &json, "--detections"];
    arguments.extend(found.iter().map(String::as_str));
    arguments.push("--truth");
    arguments.extend(detections.iter().map(|_| truth.as_str()));
    arguments.extend(more);
    let run = det_post(&arguments);
    run.expect_code(0);
    (serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap(), run.stderr)
}

#[test]
fn a_drive_without_common_frames_leaves_the_figures_of_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    write_lines(&folder.join("whole.jsonl"), 0..NUM_FRAMES, ["lidar_0", "camera_0"]);
    write_lines(&folder.join("later.jsonl"), 100..110, ["lidar_0", "camera_0"]);
    std::fs::write(folder.join("empty.jsonl"), "").unwrap();
    let (by_itself, _) = eval(folder, "whole.jsonl", &[]);
    for other in ["empty.jsonl", "later.jsonl"] {
        let pair = ["--pair", "/lidar/detections=/truth/lidar_0"];
        let (both, log) = eval_drives(folder, &[other, "whole.jsonl"], &pair);
        assert!(log.contains(other), "{log}");
        for (sensor, of_one) in [0, 1].map(|at| (&both["sensors"][at], &by_itself["sensors"][at])) {
            assert_eq!(sensor["classes"], of_one["classes"]);
            assert_eq!(sensor["num_frames"], NUM_FRAMES);
            assert_eq!(sensor["num_truth_frames_without_detections"], NUM_FRAMES);
        }
        let (both, _) = eval_drives(folder, &["whole.jsonl", other], &["--count-missing"]);
        for sensor in [&both["sensors"][0], &both["sensors"][1]] {
            assert_eq!(sensor["num_frames"], 2 * NUM_FRAMES);
            assert_eq!(sensor["classes"]["pedestrian"]["num_truth"], 2 * NUM_FRAMES);
        }
        // Half is found, nothing wrongly: 51 of 101 recall points.
        near(&both["sensors"][1]["classes"]["pedestrian"]["ap50"], 51.0 / 101.0);
    }
    // No drive has anything in common.
    let path = |name: &str| folder.join(name).display().to_string();
    let (empty, later, truth) = (path("empty.jsonl"), path("later.jsonl"), path("truth"));
    for (found, words) in [
        ([&empty, &empty], "holds no detections"),
        ([&later, &later], "has its stamp in /truth/lidar_0"),
        ([&empty, &later], "has its stamp in /truth/lidar_0"),
    ] {
        let [a, b] = found;
        let run = det_post(&["eval", "--detections", a, b, "--truth", &truth, &truth]);
        run.expect_code(1);
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
}

/// A sensor that loses all frames of a drive loses as much as one that loses all but one.
#[test]
fn truth_of_a_sensor_that_is_silent_in_a_drive_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_truth(&folder.join("truth"));
    let whole = folder.join("whole.jsonl");
    write_lines(&whole, 0..NUM_FRAMES, ["lidar_0", "camera_0"]);
    let text = std::fs::read_to_string(&whole).unwrap();
    let of_camera = text.lines().filter(|line| line.contains("/camera/detections"));
    let of_camera: String = of_camera.map(|line| format!("{line}\n")).collect();
    std::fs::write(folder.join("camera.jsonl"), of_camera).unwrap();
    let drives = ["whole.jsonl", "camera.jsonl"];
    let (figures, log) = eval_drives(folder, &drives, &["--count-missing"]);
    let [lidar, camera] = [&figures["sensors"][0], &figures["sensors"][1]];
    assert_eq!(lidar["num_frames"], 2 * NUM_FRAMES);
    assert_eq!(lidar["num_truth_frames_without_detections"], NUM_FRAMES);
    assert_eq!(lidar["classes"]["pedestrian"]["num_truth"], 2 * NUM_FRAMES);
    // Recall points 0.11 to 0.50 of 0.11 to 1.
    near(&lidar["classes"]["pedestrian"]["ap"], 40.0 / 90.0);
    near(&camera["classes"]["pedestrian"]["ap"], 1.0);
    assert!(log.contains("camera.jsonl: no frame of /lidar/detections (no frames)"), "{log}");
    let (figures, _) = eval_drives(folder, &drives, &[]);
    assert_eq!(figures["sensors"][0]["num_frames"], NUM_FRAMES);
    assert_eq!(figures["sensors"][0]["num_truth_frames_without_detections"], NUM_FRAMES);
    // Of a single drive no topic of detections says which sensor it was.
    let (_, log) = eval_drives(folder, &["camera.jsonl"], &["--count-missing"]);
    assert!(log.contains("no detections belong to /truth/lidar_0"), "{log}");
}
