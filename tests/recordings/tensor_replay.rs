//! A recording of tensors, decoded without a network.

use std::path::Path;

use det_post_ros::bag::{BagCompression, BagReader, BagWriter, OfferedQos};
use det_post_ros::messages::{TensorList, definition};
use det_post_types::{Header, Stamp};
use serde_json::Value;

use crate::common::replay::replay;
use crate::common::yolov8_tensor::{CANDIDATES, FOUND, message};

const TOPIC: &str = "/tensor_pub";

/// Three lists of tensors, of which the second lacks the one that is decoded.
fn write(bag: &Path) {
    let mut writer = BagWriter::create(bag, BagCompression::None).unwrap();
    let text = definition(TensorList::TYPE).unwrap();
    let topic = writer.add_topic(TOPIC, TensorList::TYPE, &text, OfferedQos::default()).unwrap();
    for (second, name) in [(1, "output_tensor"), (2, "output0"), (3, "output_tensor")] {
        let header = Header { stamp: Stamp::from_ros(second, 0), frame_id: "camera0" };
        writer.write(topic, header.stamp, &message(&header, name, &CANDIDATES)).unwrap();
    }
    writer.finish().unwrap();
}

/// The lines of a replay with further parameters.
fn lines(folder: &Path, name: &str, more: &[&str]) -> String {
    let config = folder.join("tensors.yaml");
    let text = format!(
        "/**:\n  ros__parameters:\n    decoder: {{head: isaac_ros_yolov8, input: {TOPIC}}}\n"
    );
    std::fs::write(&config, text).unwrap();
    let parameters: Vec<String> = more.iter().map(|text| (*text).to_owned()).collect();
    let out = folder.join(name);
    replay(&folder.join("bag"), config.to_str().unwrap(), &parameters, &out).expect_code(0);
    let report: Value =
        serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap();
    let channel = &report["channels"]["decoder"];
    assert_eq!((&channel["frames_in"], &channel["frames_out"]), (&3.into(), &2.into()));
    assert_eq!(channel["dropped"]["inconsistent_layout"]["count"], 1, "{channel}");
    assert_eq!(channel["engine"], "external", "{channel}");
    std::fs::read_to_string(out.join("detections.jsonl")).unwrap()
}

#[test]
fn tensors_of_a_recording_are_decoded() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("bag"));
    let found = lines(folder.path(), "here", &[]);
    for (line, stamp) in found.lines().zip([1_000_000_000_i64, 3_000_000_000]) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["stamp_ns"], &line["frame_id"]), (&stamp.into(), &"camera0".into()));
        let boxes = line["detections_2d"].as_array().unwrap();
        assert_eq!(boxes.len(), FOUND.len());
        for (found, (class, score, [x, y, width, height])) in boxes.iter().zip(FOUND) {
            assert_eq!((&found["class_id"], &found["score"]), (&class.into(), &score.into()));
            let (half_width, half_height) = (0.5 * width, 0.5 * height);
            let corners = [x - half_width, y - half_height, x + half_width, y + half_height];
            assert_eq!(found["box"], serde_json::json!(corners));
        }
    }
    assert_eq!(found.lines().count(), 2);
    // In a process of its own they are the same.
    assert_eq!(lines(folder.path(), "isolated", &["decoder.isolate:=true"]), found);

    // In pixels of images twice as wide as the network's input, letterboxed by half.
    let scaled = lines(folder.path(), "scaled", &["decoder.source_size:=[1280, 640]"]);
    let line: Value = serde_json::from_str(scaled.lines().next().unwrap()).unwrap();
    // The person; the cars are in the padding above the image.
    let boxes = line["detections_2d"].as_array().unwrap();
    assert_eq!(boxes.len(), 1, "{line}");
    assert_eq!(boxes[0]["box"], serde_json::json!([590.0, 50.0, 610.0, 110.0]));
}

#[test]
fn a_recording_of_detections_has_the_message_that_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("bag"));
    let more = [
        "decoder.output_type:=detected_objects_with_feature",
        "decoder.output:=/rois",
        "decoder.labels.person:=-1",
    ];
    lines(folder.path(), "rois", &more);
    let mut reader = BagReader::open(&folder.path().join("rois/detections")).unwrap();
    let topics: Vec<_> =
        reader.topics().iter().map(|topic| (topic.name.clone(), topic.type_name.clone())).collect();
    let type_name = "tier4_perception_msgs/msg/DetectedObjectsWithFeature";
    let expected =
        [("/rois", type_name), ("/rois/annotations", "foxglove_msgs/msg/ImageAnnotations")];
    assert_eq!(topics, expected.map(|(name, of)| (name.to_owned(), of.to_owned())));
    let first = reader.next_message().unwrap().unwrap();
    let mut cdr = det_post_ros::cdr::Reader::new("test", first.data).unwrap();
    let header = det_post_ros::messages::read_header(&mut cdr).unwrap();
    assert_eq!(header, Header { stamp: Stamp::from_ros(1, 0), frame_id: "camera0" });
    // The person is not published there; the car has its label.
    assert_eq!(cdr.sequence_len(1).unwrap(), 1);
    assert_eq!((cdr.f32().unwrap(), cdr.u32().unwrap(), cdr.u8().unwrap()), (0.875, 1, 1));
}
