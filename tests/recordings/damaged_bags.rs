//! Damaged recordings through the whole program: the exit code and the reason
//! fit the damage, and the good messages around the bad one are served.
//!
//! The lidar networks are set by hand, not trained.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common;

use std::path::Path;

use common::counting_pillars::{self, Expected, NUM_ROWS};
use common::recordings::{Layout, mcap_file, messages};
use common::replay::{Run, replay};
use common::shared_data::shared_data;
use det_post_ros::bag::BagReader;
use det_post_ros::messages::{CompressedImage, Image};
use serde_json::{Value, json};
use tempfile::TempDir;

const CLOUDS: &str = "/sensing/lidar/points";
const IMAGES: &str = "/sensing/camera/image_raw";
const COMPRESSED: &str = "/camera/front/image_raw/compressed";

/// A recording, what it holds, and what becomes of it.
struct Case {
    bag: &'static str,
    topic: &'static str,
    code: i32,
    frames_in: u64,
    frames_out: u64,
    /// Key under `dropped` and a part of its message.
    reason: Option<(&'static str, &'static str)>,
    /// Points that are not finite.
    num_not_finite: u64,
}

const fn good(bag: &'static str, topic: &'static str, num_not_finite: u64) -> Case {
    Case { bag, topic, code: 0, frames_in: 3, frames_out: 3, reason: None, num_not_finite }
}

const fn dropped(
    bag: &'static str,
    topic: &'static str,
    key: &'static str,
    part: &'static str,
) -> Case {
    let reason = Some((key, part));
    Case { bag, topic, code: 0, frames_in: 3, frames_out: 2, reason, num_not_finite: 0 }
}

const CASES: [Case; 11] = [
    Case { code: 3, frames_in: 6, frames_out: 6, ..good("truncated_mcap", CLOUDS, 0) },
    good("nan_inf_points", CLOUDS, 400),
    good("zero_points", CLOUDS, 0),
    good("big_endian_cloud_valid", CLOUDS, 0),
    dropped("cloud_data_short", CLOUDS, "inconsistent_layout", "12007"),
    dropped("no_xyz_fields", CLOUDS, "unusable_point_field", "x"),
    dropped("field_beyond_point_step", CLOUDS, "unusable_point_field", "intensity"),
    dropped("image_data_short", IMAGES, "inconsistent_layout", "15371"),
    dropped("image_zero_size", IMAGES, "inconsistent_layout", "0x0"),
    dropped("unknown_encoding", IMAGES, "unsupported_encoding", "rgb9_unknown"),
    dropped("jpeg_truncated", COMPRESSED, "undecodable_image", ""),
];

fn run(data: &Path, bag: &Path, topic: &str) -> (Run, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = if topic == CLOUDS {
        let config = counting_pillars::write(folder.path(), NUM_ROWS, true);
        replay(bag, config.to_str().unwrap(), &[], &out)
    } else {
        let model = data.join("models/yolox_nano_416.onnx");
        let parameters = [
            "camera.head:=yolox".into(),
            format!("camera.model_path:={}", model.display()),
            format!("camera.input:={topic}"),
            "camera.engine.kind:=rten".into(),
            "camera.score_threshold:=0.1".into(),
        ];
        replay(bag, "config/camera.param.yaml", &parameters, &out)
    };
    (run, folder)
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(values) => values.values().any(has_null),
        _ => false,
    }
}

#[test]
fn every_damaged_bag_gives_its_reason_and_serves_what_is_good() {
    let Some(data) = shared_data() else { return };
    for case in &CASES {
        let bag = data.join("bags/broken").join(case.bag);
        let (run, _folder) = run(&data, &bag, case.topic);
        run.expect_code(case.code);
        let (report, lines) = (run.report(), run.lines());
        let name = if case.topic == CLOUDS { "lidar" } else { "camera" };
        let channel = &report["channels"][name];
        println!("{}: {} {}", case.bag, channel["dropped"], report["damage"]);

        assert_eq!(channel["frames_in"], case.frames_in, "{}", case.bag);
        assert_eq!(channel["frames_out"], case.frames_out, "{}", case.bag);
        assert_eq!(lines.len() as u64, case.frames_out, "{}", case.bag);
        assert_eq!(report["damage"].as_array().unwrap().len(), usize::from(case.code == 3));
        // Ten were recorded.
        let num_lost = if case.code == 3 { json!(10 - case.frames_in) } else { Value::Null };
        assert_eq!(report["num_lost"], num_lost, "{}", case.bag);
        match case.reason {
            None => assert_eq!(channel["dropped"], json!({}), "{}", case.bag),
            Some((key, part)) => {
                assert_eq!(channel["dropped"].as_object().unwrap().len(), 1, "{}", case.bag);
                let reason = &channel["dropped"][key];
                assert_eq!(reason["count"], 1, "{}: {}", case.bag, channel["dropped"]);
                let first = reason["first"].as_str().unwrap();
                assert!(first.contains(part), "{}: {first}", case.bag);
                assert!(run.stderr.contains(first), "{}: {}", case.bag, run.stderr);
            }
        }
        let not_finite = channel["truncated"]["points_not_finite"].as_u64().unwrap_or(0);
        assert_eq!(not_finite, case.num_not_finite, "{}", case.bag);
        assert!(!lines.iter().any(has_null), "{}", case.bag);
        if case.topic == CLOUDS {
            check_clouds(&bag, &lines);
        } else {
            check_images(&bag, case.topic, &lines);
        }
    }
}

/// The usable clouds, and nothing else, give their pillars.
fn check_clouds(bag: &Path, lines: &[Value]) {
    let clouds = counting_pillars::clouds(bag, CLOUDS);
    assert_eq!(clouds.len(), lines.len());
    for (line, cloud) in lines.iter().zip(&clouds) {
        assert_eq!(line["stamp_ns"], cloud.stamp_ns);
        assert_eq!(line["frame_id"], cloud.frame_id);
        let expected = Expected::of(cloud, NUM_ROWS);
        assert_eq!(expected.num_pillars() == 0, cloud.points.is_empty());
        expected.compare(line);
    }
    if bag.ends_with("big_endian_cloud_valid") {
        assert!(lines.iter().all(|line| line["detections_3d"] == lines[0]["detections_3d"]));
    }
}

/// The first and the last image, which are the same, give the same
/// detections under their own stamps.
fn check_images(bag: &Path, topic: &str, lines: &[Value]) {
    let mut reader = BagReader::open(bag).unwrap();
    let mut stamps = Vec::new();
    while let Some(message) = reader.next_message().unwrap() {
        let header = match topic {
            COMPRESSED => CompressedImage::decode(message.data).unwrap().header,
            _ => Image::decode(message.data).unwrap().header,
        };
        stamps.push(header.stamp.nanos());
    }
    assert_eq!((lines.len(), stamps.len()), (2, 3));
    assert_eq!(lines[0]["stamp_ns"], stamps[0]);
    assert_eq!(lines[1]["stamp_ns"], stamps[2]);
    assert!(!lines[0]["detections_2d"].as_array().unwrap().is_empty(), "{}", bag.display());
    assert_eq!(lines[0]["detections_2d"], lines[1]["detections_2d"]);
}

#[test]
fn a_recording_of_which_nothing_is_readable_is_code_3_and_names_the_file() {
    let Some(data) = shared_data() else { return };
    for bag in ["missing_file", "zero_length_file"] {
        let path = data.join("bags/broken").join(bag);
        let (run, folder) = run(&data, &path, CLOUDS);
        run.expect_code(3);
        assert!(run.stderr.contains(&format!("{bag}_0.mcap")), "{}", run.stderr);
        assert_eq!(run.stderr.matches("ERROR").count(), 1, "{}", run.stderr);
        assert!(!folder.path().join("out").exists());
    }
}

/// A recording that ends before the topics of a channel is damaged; one that lacks them is the
/// wrong one for the configuration.
#[test]
fn a_recording_without_the_inputs_is_code_3_if_it_is_cut_and_code_2_if_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let [bag, out] = ["drive.mcap", "out"].map(|name| folder.path().join(name));
    let without_index = Layout { has_summary: false, ..Layout::PLAIN };
    for (layout, len, code) in
        [(Layout::PLAIN, None, 2), (without_index, None, 2), (Layout::PLAIN, Some(100), 3)]
    {
        let mut bytes = mcap_file(layout, &messages(20));
        bytes.truncate(len.unwrap_or(bytes.len()));
        std::fs::write(&bag, bytes).unwrap();
        let run = replay(&bag, "config/camera.param.yaml", &[], &out);
        run.expect_code(code);
        assert!(run.stderr.contains("no channel has its input (/sensing/camera/image_raw)"));
        assert_eq!(run.stderr.contains("the file ends"), code == 3, "{}", run.stderr);
        assert!(!out.exists());
    }
}

#[test]
fn a_file_that_cannot_be_read_costs_that_file_alone() {
    let Some(data) = shared_data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    std::fs::create_dir_all(bag.join("b.mcap")).unwrap();
    let good = "zero_points/zero_points_0.mcap";
    std::fs::copy(data.join("bags/broken").join(good), bag.join("a.mcap")).unwrap();
    let (run, _folder) = run(&data, &bag, CLOUDS);
    run.expect_code(3);
    let report = run.report();
    assert_eq!(report["channels"]["lidar"]["frames_out"], 3);
    assert!(report["damage"][0].as_str().unwrap().contains("b.mcap"), "{report}");
    assert_eq!(run.lines().len(), 3);
}

#[test]
fn what_follows_the_end_of_a_recording_is_named_unless_it_is_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = mcap_file(Layout::PLAIN, &messages(12));
    let mut cut = bytes.clone();
    cut.truncate(bytes.len() - 20);
    for (name, file, is_named) in [
        ("whole", bytes.clone(), false),
        ("joined", bytes.repeat(2), true),
        ("text", [&bytes[..], b"\n"].concat(), true),
        ("preallocated", [&bytes[..], &[0; 4096]].concat(), false),
        ("without the end of its index", cut, false),
    ] {
        let path = folder.path().join(name).with_extension("mcap");
        std::fs::write(&path, &file).unwrap();
        let mut reader = BagReader::open(&path).unwrap();
        let (mut num, mut damage) = (0, Vec::new());
        loop {
            match reader.next_message() {
                Ok(Some(_)) => num += 1,
                Ok(None) => break,
                Err(error) => damage.push(error.to_string()),
            }
        }
        assert_eq!(num, 12, "{name}");
        let rest = file.len().saturating_sub(bytes.len());
        let expected = format!("the recording ends, {rest} bytes after it are not read");
        assert_eq!(damage.len(), usize::from(is_named), "{name}: {damage:?}");
        assert!(damage.iter().all(|text| text.contains(&expected)), "{name}: {damage:?}");
    }
}

/// Makes the first chunk index of an MCAP file name the first channel in place of all others.
fn leave_out_channels(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
    };
    // Footer: start of the summary, start of its offsets, checksum; then magic.
    let checksum = bytes.len() - 12;
    let mut at = number(bytes, checksum - 16);
    while bytes[at] != 0x08 {
        at += 9 + number(bytes, at + 1);
    }
    // Times, position and length of the chunk; then bytes of the map.
    let map = at + 9 + 4 * 8;
    let num_entries = u32::from_le_bytes(bytes[map..map + 4].try_into().unwrap()) as usize / 10;
    let channels: Vec<usize> = (0..num_entries).map(|entry| map + 4 + 10 * entry).collect();
    let id = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let first = channels.iter().map(|at| id(*at)).min().unwrap().to_le_bytes();
    assert_eq!(num_entries, 2);
    channels.into_iter().for_each(|at| bytes[at..at + 2].copy_from_slice(&first));
    // Not recorded.
    bytes[checksum..checksum + 4].fill(0);
}

#[test]
fn messages_that_an_index_leaves_out_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let config = counting_pillars::write(folder.path(), NUM_ROWS, true);
    let mut bytes = mcap_file(Layout::PLAIN, &messages(12));
    for (name, num_read, num_lost) in [("sound", 6, Value::Null), ("incomplete", 4, json!(2))] {
        let bag = folder.path().join(name).with_extension("mcap");
        std::fs::write(&bag, &bytes).unwrap();
        let out = folder.path().join(name);
        let run = replay(&bag, config.to_str().unwrap(), &["lidar.input:=/lidar".into()], &out);
        run.expect_code(1);
        let report = run.report();
        assert_eq!(report["num_messages"], num_read, "{name}");
        assert_eq!(report["num_lost"], num_lost, "{name}");
        assert_eq!(report["damage"], json!([]), "{name}");
        assert_eq!(run.stderr.contains("2 messages"), name == "incomplete", "{}", run.stderr);
        leave_out_channels(&mut bytes);
    }
}
