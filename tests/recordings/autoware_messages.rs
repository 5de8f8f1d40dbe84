//! Messages of Autoware and Isaac ROS, against those that another implementation wrote.

use std::path::{Path, PathBuf};

use det_post_ros::messages::{
    DetectedObjects, DetectedObjectsWithFeature, Float64Stamped, TensorList,
};
use det_post_ros::{ObjectFormat, ObjectLabel};
use det_post_types::{
    Box2d, Box3d, Detection2d, Detection3d, Header, Object3d, OwnedTensor, Stamp, TensorType,
    TensorValues,
};
use serde_json::Value;

use crate::common::shared_data::shared_data;

fn folder() -> Option<PathBuf> {
    shared_data().map(|root| root.join("dropin/messages"))
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The message that is stored; ours may be padded to four bytes.
#[track_caller]
fn assert_is_stored(ours: &[u8], folder: &Path, name: &str) {
    let theirs = std::fs::read(folder.join(name)).unwrap();
    assert!(ours.len() - theirs.len() < 4, "{name}: {} and {}", ours.len(), theirs.len());
    for (at, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(a, b, "byte {at} of {name}");
    }
}

fn format(class_names: &[&str]) -> ObjectFormat {
    let labels = class_names.iter().map(|name| Some(ObjectLabel::of_class(name)));
    ObjectFormat { labels: labels.collect(), has_twist: true, ..ObjectFormat::default() }
}

const HEADER: Header<'_> = Header { stamp: Stamp::from_ros(12, 34), frame_id: "base_link" };

#[test]
fn detected_objects_are_those_of_autoware() {
    let Some(folder) = folder() else { return };
    let classes = ["CAR", "PEDESTRIAN"];
    let detections: Vec<Detection3d> = json(&folder.join("boxes.json"))
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let found = &entry["box"];
            let float = |value: &Value| value.as_f64().unwrap() as f32;
            let floats = |key: &str| -> Vec<f32> {
                found[key].as_array().unwrap().iter().map(float).collect()
            };
            let [x, y, z] = floats("center")[..] else { panic!("{found}") };
            let [width_m, length_m, height_m] = floats("width_length_height")[..] else {
                panic!("{found}")
            };
            let [vx, vy] = floats("velocity")[..] else { panic!("{found}") };
            let bbox = Box3d {
                center: [x, y, z],
                length_m,
                width_m,
                height_m,
                yaw_rad: float(&entry["yaw_ros"]),
            };
            let class = classes.iter().position(|class| found["class"] == *class).unwrap();
            Detection3d {
                class: class as u32,
                score: float(&found["score"]),
                object: Object3d { bbox, velocity_mps: Some([vx, vy]), variance: None },
            }
        })
        .collect();
    let mut cdr = Vec::new();
    DetectedObjects::encode(&HEADER, &detections, &format(&classes), &mut cdr).unwrap();
    assert_is_stored(&cdr, &folder, "detected_objects.cdr");
    let header = Header { stamp: Stamp::from_ros(1, 0), frame_id: "lidar" };
    DetectedObjects::encode(&header, &[], &format(&classes), &mut cdr).unwrap();
    assert_is_stored(&cdr, &folder, "detected_objects_empty.cdr");
}

#[test]
fn regions_of_interest_are_those_of_autoware() {
    let Some(folder) = folder() else { return };
    let stored = json(&folder.join("rois.json"));
    let objects = stored["message"]["feature_objects"].as_array().unwrap();
    let mut format = ObjectFormat::default();
    let mut detections = Vec::new();
    for (class, object) in (0..).zip(objects) {
        let roi = &object["feature"]["roi"];
        let [x, y, width, height] = ["x_offset", "y_offset", "width", "height"]
            .map(|key| roi[key].as_f64().unwrap() as f32);
        let label = object["object"]["classification"][0]["label"].as_u64().unwrap() as u8;
        format.labels.push(Some(ObjectLabel(label)));
        // Pixels are cut.
        let bbox = Box2d::new(x + 0.5, y + 0.25, x + width + 0.75, y + height + 0.25);
        let score = object["object"]["existence_probability"].as_f64().unwrap() as f32;
        detections.push(Detection2d { class, score, bbox });
    }
    assert!(!detections.is_empty());
    let header = Header { frame_id: "camera0", ..HEADER };
    let mut cdr = Vec::new();
    DetectedObjectsWithFeature::encode(&header, &detections, &format, &mut cdr).unwrap();
    assert_is_stored(&cdr, &folder, "rois.cdr");
}

#[test]
fn tensors_and_times_are_those_of_others() {
    let Some(folder) = folder() else { return };
    let mut cdr = Vec::new();
    Float64Stamped { stamp: HEADER.stamp, data: 4.25 }.encode(&mut cdr).unwrap();
    assert_is_stored(&cdr, &folder, "float64_stamped.cdr");

    let stored = std::fs::read(folder.join("tensor_list.cdr")).unwrap();
    let list = TensorList::decode(&stored).unwrap();
    assert_eq!(list.header, Header { frame_id: "camera0", ..HEADER });
    let view = list.tensors;
    assert_eq!(view.describe(), "output_tensor f32 [1, 6, 4]");
    let (entry, data) = view.find("output_tensor").unwrap();
    let mut tensor = OwnedTensor::default();
    tensor.fill(entry, data).unwrap();
    let expected: Vec<f32> = (0..24).map(|value| value as f32).collect();
    let TensorValues::F32(values) = tensor.values() else { panic!("{:?}", tensor.values()) };
    assert_eq!(values, expected);
    let tensors = [("output_tensor", TensorType::F32, &[1, 6, 4][..], data)];
    TensorList::encode(&list.header, &tensors, &mut cdr).unwrap();
    assert_is_stored(&cdr, &folder, "tensor_list.cdr");
}
