//! The recording `detections/` that a replay writes says the same as
//! `detections.jsonl`: read back with this crate and, where
//! `DET_POST_PEER_PYTHON` names a Python that has `rosbags` and
//! `mcap-ros2-support`, with both of them.
//!
//! The lidar networks are set by hand, not trained.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::counting_pillars::{self, CLASSES, NUM_ROWS};
use common::replay::{Run, replay};
use common::require::{Need, skip};
use common::shared_data::shared_data;
use det_post_ros::bag::BagReader;
use det_post_ros::cdr::Reader;
use det_post_ros::messages::{
    Detection2DArray, Detection3DArray, Hypothesis, LabelInfo, read_header,
};
use det_post_types::Header;
use serde_json::Value;

/// Both outputs below one parent.
const OUTPUTS: [(&str, &str); 2] =
    [("camera", "/perception/detections_2d"), ("lidar", "/perception/detections_3d")];

/// Replays camera and lidar of the KITTI recording to `folder/out`.
fn run(data: &Path, folder: &Path) -> Run {
    let config = counting_pillars::write(folder, NUM_ROWS, false);
    let mut text = std::fs::read_to_string(&config).unwrap();
    let model = data.join("models/yolox_nano_416.onnx");
    text += &format!(
        "    camera:
      input: /sensing/camera/image_raw
      head: yolox
      model_path: {}
      engine: {{kind: rten}}
",
        model.display()
    );
    std::fs::write(&config, text).unwrap();
    let outputs = OUTPUTS.map(|(channel, topic)| format!("{channel}.output:={topic}"));
    let bag = data.join("bags/kitti_000008_mcap");
    replay(&bag, config.to_str().unwrap(), &outputs, &folder.join("out"))
}

fn number(value: &Value) -> f64 {
    // What is written is the shortest text of a 32-bit float.
    f64::from(value.as_f64().unwrap() as f32)
}

#[track_caller]
fn check_header(header: &Header<'_>, line: &Value) {
    assert_eq!(line["stamp_ns"], header.stamp.nanos());
    assert_eq!(line["frame_id"], header.frame_id);
}

#[track_caller]
fn check_hypothesis(best: &Option<Hypothesis<'_>>, expected: &Value) {
    let best = best.as_ref().unwrap();
    assert_eq!(expected["class_name"], best.class_id);
    assert_eq!(number(&expected["score"]), best.score);
}

fn compare_2d(data: &[u8], line: &Value) -> usize {
    let array = Detection2DArray::decode(data).unwrap();
    check_header(&array.header, line);
    let expected = line["detections_2d"].as_array().unwrap();
    assert_eq!(array.detections.len(), expected.len());
    for (found, expected) in array.detections.map(Result::unwrap).zip(expected) {
        check_header(&found.header, line);
        check_hypothesis(&found.best, expected);
        let [x1, y1, x2, y2] = [0, 1, 2, 3].map(|corner: usize| number(&expected["box"][corner]));
        assert_eq!(found.center, [0.5 * (x1 + x2), 0.5 * (y1 + y2)]);
        assert_eq!(found.size, [x2 - x1, y2 - y1]);
        assert_eq!((found.theta_rad, found.id), (0.0, ""));
    }
    expected.len()
}

fn compare_3d(data: &[u8], line: &Value) -> usize {
    let array = Detection3DArray::decode(data).unwrap();
    check_header(&array.header, line);
    let expected = line["detections_3d"].as_array().unwrap();
    assert_eq!(array.detections.len(), expected.len());
    for (found, expected) in array.detections.map(Result::unwrap).zip(expected) {
        check_header(&found.header, line);
        check_hypothesis(&found.best, expected);
        let three = |key: &str| [0, 1, 2].map(|axis: usize| number(&expected[key][axis]));
        assert_eq!(found.center.position, three("center"));
        assert_eq!(found.size, three("size"));
        let difference = found.center.yaw_rad() - number(&expected["yaw"]);
        assert!(difference.sin().abs() < 1e-12 && difference.cos() > 0.0, "{difference}");
        assert_eq!(found.best.unwrap().pose, found.center);
    }
    expected.len()
}

/// The class names and the threshold of a class table.
fn read_labels(data: &[u8], line: &Value) -> (Vec<String>, f32) {
    let mut reader = Reader::new(LabelInfo::TYPE, data).unwrap();
    check_header(&read_header(&mut reader).unwrap(), line);
    let num_classes = reader.sequence_len(6).unwrap();
    let mut names = Vec::new();
    for class in 0..num_classes {
        assert_eq!(usize::from(reader.u16().unwrap()), class);
        names.push(reader.str().unwrap().to_owned());
    }
    (names, reader.f32().unwrap())
}

#[test]
fn the_recording_of_detections_says_what_the_lines_say() {
    let Some(data) = shared_data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = run(&data, folder.path());
    run.expect_code(0);
    let lines = run.lines();
    let mut lines_of: BTreeMap<&str, std::slice::Iter<'_, Value>> = BTreeMap::new();
    let of_channel = |channel| -> Vec<Value> {
        lines.iter().filter(|line| line["channel"] == channel).cloned().collect()
    };
    let by_channel = OUTPUTS.map(|(channel, _)| of_channel(channel));
    for ((_, topic), lines) in OUTPUTS.iter().zip(&by_channel) {
        assert_eq!(lines.len(), 10);
        lines_of.insert(topic, lines.iter());
    }

    let mut reader = BagReader::open(&folder.path().join("out/detections")).unwrap();
    let topics = reader.topics().to_vec();
    assert_eq!(topics.len(), 6);
    let mut tables = BTreeMap::new();
    let (mut num_detections, mut num_shown) = ([0; 2], 0);
    while let Some(message) = reader.next_message().unwrap() {
        let topic = &topics[message.topic];
        if let Some(output) = topic.name.strip_suffix("/label_info") {
            assert_eq!(topic.type_name, LabelInfo::TYPE);
            let line = lines_of[output].as_slice().first().unwrap();
            let table = read_labels(message.data, line);
            assert!(tables.insert(output.to_owned(), table).is_none(), "twice: {output}");
            continue;
        }
        if topic.name.ends_with("/markers") || topic.name.ends_with("/annotations") {
            num_shown += 1;
            continue;
        }
        assert!(tables.contains_key(&topic.name), "{} comes before its table", topic.name);
        let line = lines_of.get_mut(&*topic.name).unwrap().next().unwrap();
        assert_eq!(line["topic"], topic.name);
        // The inputs of this recording are logged at their stamps.
        assert_eq!(line["stamp_ns"], message.log_time.nanos());
        match &*topic.type_name {
            Detection2DArray::TYPE => num_detections[0] += compare_2d(message.data, line),
            Detection3DArray::TYPE => num_detections[1] += compare_3d(message.data, line),
            other => panic!("{other}"),
        }
    }
    assert_eq!(num_shown, lines.len());
    assert!(lines_of.values().all(|lines| lines.len() == 0));
    assert!(num_detections.iter().all(|&num| num >= 60), "{num_detections:?}");
    println!("compared: {num_detections:?} detections in 2D, 3D");

    let (names, threshold) = &tables[OUTPUTS[1].1];
    assert_eq!((&names[..], *threshold), (&CLASSES.map(str::to_owned)[..], 0.02));
    assert_eq!(tables[OUTPUTS[0].1].0.len(), 80);
}

#[test]
fn peers_read_the_recording_of_detections() {
    let Ok(python) = std::env::var("DET_POST_PEER_PYTHON") else {
        skip(Need::Peers, "DET_POST_PEER_PYTHON is not set");
        return;
    };
    let Some(data) = shared_data() else { return };
    let folder = tempfile::tempdir().unwrap();
    run(&data, folder.path()).expect_code(0);
    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/check_recording.py"))
        .arg(folder.path().join("out"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
