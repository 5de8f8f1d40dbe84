//! Topics of several types, names without a slash, other serializations: the usable messages are
//! read, the others are counted or refused by name.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use det_post_types::{Header, Stamp};
use mcap::WriteOptions;
use mcap::records::MessageHeader;

use crate::common::replay::{Run, det_post, replay};
use crate::common::yolov8_tensor::{CANDIDATES, message};

const TENSORS: &str = "isaac_ros_tensor_list_interfaces/msg/TensorList";

/// A topic: name, type, serialization, and its messages.
type Topic<'a> = (&'a str, &'a str, &'a str, Vec<Vec<u8>>);

fn tensors() -> Vec<Vec<u8>> {
    let of_second = |second| {
        let header = Header { stamp: Stamp::from_ros(second, 0), frame_id: "camera0" };
        message(&header, "output_tensor", &CANDIDATES)
    };
    [1, 2, 3].map(of_second).to_vec()
}

fn write(path: &Path, topics: &[Topic<'_>]) {
    let mut file = Cursor::new(Vec::new());
    let mut writer = WriteOptions::new().profile("ros2").create(&mut file).unwrap();
    let mut sequence = 0;
    for (name, type_name, serialization, messages) in topics {
        let schema = writer.add_schema(type_name, "ros2msg", b"byte[] data").unwrap();
        let channel_id = writer.add_channel(schema, name, serialization, &BTreeMap::new()).unwrap();
        for payload in messages {
            sequence += 1;
            let log_time = 1_000_000_000 + 1_000_000 * u64::from(sequence);
            let header = MessageHeader { channel_id, sequence, log_time, publish_time: log_time };
            writer.write_to_known_channel(&header, payload).unwrap();
        }
    }
    writer.finish().unwrap();
    drop(writer);
    std::fs::write(path, file.into_inner()).unwrap();
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let text =
            "/**:\n  ros__parameters:\n    decoder: {head: isaac_ros_yolov8, input: /tensors}\n";
        std::fs::write(folder.path("tensors.yaml"), text).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A replay of a recording of these topics.
    fn replay(&self, topics: &[Topic<'_>]) -> Run {
        let bag = self.path("drive.mcap");
        write(&bag, topics);
        replay(&bag, self.path("tensors.yaml").to_str().unwrap(), &[], &self.path("out"))
    }
}

#[test]
fn the_usable_type_of_a_topic_is_read_and_the_others_are_counted() {
    let folder = Folder::new();
    for other in ["a_msgs/msg/First", "z_msgs/msg/Last"] {
        let topics = [
            ("/tensors", other, "cdr", vec![vec![0, 1, 0, 0]; 2]),
            ("/tensors", TENSORS, "cdr", tensors()),
        ];
        let run = folder.replay(&topics);
        run.expect_code(0);
        let report = run.report();
        let channel = &report["channels"]["decoder"];
        assert_eq!((run.lines().len(), &channel["frames_out"]), (3, &3.into()), "{channel}");
        let reason = &channel["dropped"]["another_type"];
        assert_eq!(reason["count"], 2, "{channel}");
        let text = reason["first"].as_str().unwrap();
        for part in ["/tensors", other, TENSORS] {
            assert!(text.contains(part) && run.stderr.contains(part), "{part}: {text}");
        }
        // At the recorded pace, too.
        let (bag, config) = (folder.path("drive.mcap"), folder.path("tensors.yaml"));
        let paths = [bag.to_str().unwrap(), config.to_str().unwrap()];
        let arguments = ["replay", paths[0], "--config", paths[1], "--rate", "1.0"];
        let run = det_post(&arguments);
        run.expect_code(0);
        assert!(run.stdout.contains("another_type"), "{}", run.stdout);
    }
}

#[test]
fn messages_of_another_serialization_are_counted_beside_usable_ones() {
    let folder = Folder::new();
    let json = ("/tensors", TENSORS, "json", vec![b"{}".to_vec()]);
    let run = folder.replay(&[json, ("/tensors", TENSORS, "cdr", tensors())]);
    run.expect_code(0);
    let report = run.report();
    let channel = &report["channels"]["decoder"];
    assert_eq!((&channel["frames_out"], run.lines().len()), (&3.into(), 3), "{channel}");
    let reason = &channel["dropped"]["another_type"];
    assert_eq!(reason["count"], 1, "{channel}");
    assert!(reason["first"].as_str().unwrap().contains("serialized as json"), "{reason}");
}

#[test]
fn names_without_a_slash_and_short_types_are_those_of_ros() {
    let folder = Folder::new();
    let short = TENSORS.replace("/msg/", "/");
    for (name, type_name) in [("tensors", TENSORS), ("/tensors", &short), ("tensors", &short)] {
        let run = folder.replay(&[(name, type_name, "cdr", tensors())]);
        run.expect_code(0);
        assert_eq!(run.lines().len(), 3, "{name} {type_name}");
        let inspected = det_post(&["inspect", folder.path("drive.mcap").to_str().unwrap()]);
        assert!(inspected.stdout.contains(&format!("/tensors  {TENSORS}")), "{}", inspected.stdout);
    }
}

#[test]
fn names_that_differ_by_the_slash_are_two_topics() {
    let folder = Folder::new();
    let [first, second, third] = &tensors()[..] else { panic!() };
    let topics = [
        ("tensors", TENSORS, "cdr", vec![first.clone()]),
        ("/tensors", TENSORS, "cdr", vec![second.clone(), third.clone()]),
    ];
    let run = folder.replay(&topics);
    run.expect_code(0);
    let stamps: Vec<_> = run.lines().iter().map(|line| line["stamp_ns"].as_u64()).collect();
    assert_eq!(stamps, [2_000_000_000, 3_000_000_000].map(Some));
    let inspected = det_post(&["inspect", folder.path("drive.mcap").to_str().unwrap()]).stdout;
    let num_messages = |name: &str| {
        let mut lines = inspected.lines();
        lines.find(|line| *line == format!("{name}  {TENSORS}"));
        lines.next().map(str::trim_start).and_then(|line| line.split(' ').next())
    };
    assert_eq!((num_messages("tensors"), num_messages("/tensors")), (Some("1"), Some("2")));
}

#[test]
fn names_of_other_tools_are_read_as_written() {
    let folder = Folder::new();
    for name in ["/front-left/tensors.raw", "front left tensors", "/caméra", "//tensors/"] {
        let text = format!(
            "/**:\n  ros__parameters:\n    decoder: {{head: isaac_ros_yolov8, input: \"{name}\"}}\n"
        );
        std::fs::write(folder.path("tensors.yaml"), text).unwrap();
        let run = folder.replay(&[(name, TENSORS, "cdr", tensors())]);
        run.expect_code(0);
        assert_eq!(run.lines().len(), 3, "{name}");
    }
}

#[test]
fn another_serialization_is_refused_at_the_start() {
    let folder = Folder::new();
    let short = TENSORS.replace("/msg/", "/");
    let cases = [
        (TENSORS, "ros1", "serialized as ros1 (ROS 1)", "rosbags-convert"),
        (&short, "ros1", "serialized as ros1 (ROS 1)", "rosbags-convert"),
        (TENSORS, "json", "serialized as json", "ros2 bag record"),
        (TENSORS, "protobuf", "serialized as protobuf", "ros2 bag record"),
    ];
    for (type_name, serialization, named, advice) in cases {
        let run = folder.replay(&[("/tensors", type_name, serialization, tensors())]);
        run.expect_code(2);
        for part in [named, advice, "decoder.input"] {
            assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
        }
        let inspected = det_post(&["inspect", folder.path("drive.mcap").to_str().unwrap()]);
        assert!(inspected.stdout.contains(named), "{}", inspected.stdout);
    }
}

#[test]
fn a_replay_without_a_usable_frame_fails_and_names_the_reason() {
    let folder = Folder::new();
    let compressed = vec![vec![0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x00]; 3];
    let run = folder.replay(&[("/tensors", TENSORS, "cdr", compressed)]);
    run.expect_code(1);
    let report = run.report();
    let reason = &report["channels"]["decoder"]["dropped"]["unsupported_encoding"];
    assert_eq!(reason["count"], 3, "{report}");
    let text = reason["first"].as_str().unwrap();
    assert!(text.contains("zstd") && text.contains("ros2 bag convert"), "{text}");
    assert!(run.stderr.contains("no frame could be used"), "{}", run.stderr);
}
