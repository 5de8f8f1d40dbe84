//! A whole node of Autoware from its files: networks with constant outputs, whose objects
//! every cloud must give.

use std::f64::consts::PI;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::ReplacedNode;
use crate::common::counting_voxels::{self, write_bag};
use crate::common::replay::Run;
use crate::common::shared_data::shared_data;

/// Autoware's numbers of the labels.
const LABELS: [&str; 8] =
    ["UNKNOWN", "CAR", "TRUCK", "BUS", "TRAILER", "MOTORBIKE", "BICYCLE", "PEDESTRIAN"];

/// The node with a recording of two clouds in a folder; `None`, said so, without the shared data.
pub fn node(folder: &Path) -> Option<ReplacedNode<'_>> {
    let data = shared_data()?.join("dropin");
    let e2e = data.join("e2e");
    let text = |path: PathBuf| path.display().to_string();
    let bag = folder.join("drive");
    let cloud: Vec<f32> = (0..400).flat_map(|n| [n as f32 * 0.05 - 10.0, 1.0, 0.0]).collect();
    write_bag(&bag, &["x", "y", "z"], &[cloud.clone(), cloud]);
    Some(ReplacedNode {
        package: "lidar_centerpoint",
        folder,
        bag,
        files: vec![
            text(e2e.join("centerpoint.param.yaml")),
            text(e2e.join("constant_ml_package.param.yaml")),
            text(data.join("centerpoint/detection_class_remapper.param.yaml")),
        ],
        overrides: Vec::new(),
        arguments: vec![format!("model_path:={}", e2e.display()), "model_name:=constant".into()],
        channel: "lidar",
        input: counting_voxels::TOPIC,
        output: "/lidar_centerpoint/output/objects",
    })
}

/// Fails unless each cloud gave the objects of Autoware's node.
pub fn assert_objects(run: &Run) {
    let path = shared_data().unwrap().join("dropin/e2e/expected.json");
    let expected: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let lines = run.lines();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        let found = line["detections_3d"].as_array().unwrap();
        let objects = expected["objects"].as_array().unwrap();
        assert_eq!(found.len(), objects.len());
        for (found, object) in found.iter().zip(objects) {
            compare(found, object);
        }
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn assert_near(found: f64, expected: &Value, what: &str) {
    let expected = number(expected);
    assert!((found - expected).abs() <= 1e-5, "{what}: {found}, expected {expected}");
}

/// Whether two angles are one rotation.
fn assert_same_rotation(yaw: f64, orientation: &Value) {
    let expected = 2.0 * number(&orientation["z"]).atan2(number(&orientation["w"]));
    let difference = (yaw - expected).rem_euclid(2.0 * PI);
    assert!(difference.min(2.0 * PI - difference) <= 1e-5, "{yaw}, expected {expected}");
}

/// Compares a detection with an object of theirs. Labels by area, and the velocity in the
/// object's frame, are of their message.
fn compare(found: &Value, object: &Value) {
    let kinematics = &object["kinematics"];
    let pose = &kinematics["pose_with_covariance"]["pose"];
    assert_near(number(&found["score"]), &object["existence_probability"], "score");
    for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
        assert_near(number(&found["center"][axis]), &pose["position"][name], name);
        assert_near(number(&found["size"][axis]), &object["shape"]["dimensions"][name], "size");
    }
    let yaw = number(&found["yaw"]);
    assert_same_rotation(yaw, &pose["orientation"]);
    let [vx, vy] = [0, 1].map(|axis| number(&found["velocity"][axis]));
    let linear = &kinematics["twist_with_covariance"]["twist"]["linear"];
    assert_near(yaw.cos() * vx + yaw.sin() * vy, &linear["x"], "vx");
    assert_near(-yaw.sin() * vx + yaw.cos() * vy, &linear["y"], "vy");
    let [length, width] = [0, 1].map(|axis| number(&found["size"][axis]));
    let label = match (found["class_name"].as_str().unwrap(), length * width) {
        ("CAR" | "TRUCK" | "BUS", area) if area >= 36.0 => "TRAILER",
        ("CAR", area) if area >= 12.1 => "TRUCK",
        (class, _) => class,
    };
    let number_of = LABELS.iter().position(|name| *name == label).unwrap();
    assert_eq!(object["classification"][0]["label"], number_of, "{found}");
}
