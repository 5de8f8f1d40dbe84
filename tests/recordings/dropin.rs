//! A whole node of Autoware from its files: networks with constant outputs, whose objects
//! every cloud must give.

use std::f64::consts::PI;
use std::path::Path;

use serde_json::Value;

use crate::common::counting_voxels::write_bag;
use crate::common::replay::{Run, det_post};
use crate::common::shared_data::shared_data;

/// Autoware's numbers of the labels.
const LABELS: [&str; 8] =
    ["UNKNOWN", "CAR", "TRUCK", "BUS", "TRAILER", "MOTORBIKE", "BICYCLE", "PEDESTRIAN"];

/// Replays two clouds; `parameters` are the files and how they are read.
fn replayed(folder: &Path, out: &str, parameters: &[&str]) -> Run {
    let bag = folder.join("drive");
    if !bag.exists() {
        let cloud: Vec<f32> = (0..400).flat_map(|n| [n as f32 * 0.05 - 10.0, 1.0, 0.0]).collect();
        write_bag(&bag, &["x", "y", "z"], &[cloud.clone(), cloud]);
    }
    let out = folder.join(out);
    let paths = [bag.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let arguments = [&["replay"][..], &paths, parameters].concat();
    let run = det_post(&arguments);
    run.expect_code(0);
    Run { out, ..run }
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

#[test]
fn constant_networks_give_their_objects() {
    let Some(data) = shared_data() else { return };
    let e2e = data.join("dropin/e2e");
    let text = std::fs::read_to_string(e2e.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| e2e.join(name).to_str().unwrap().to_owned();
    let remapper = data.join("dropin/centerpoint/detection_class_remapper.param.yaml");
    let files = [
        path("centerpoint.param.yaml"),
        path("constant_ml_package.param.yaml"),
        remapper.to_str().unwrap().to_owned(),
    ];
    let model_path = format!("model_path:={}", e2e.display());
    let arguments = ["--arg", &model_path, "--arg", "model_name:=constant"];
    let files = files.each_ref().map(String::as_str);
    let source = [&["--config"][..], &files, &arguments].concat();
    let theirs =
        [&source[..], &["--like", "lidar_centerpoint", "-p", "input:=/sensing/lidar/points"]]
            .concat();
    let like = replayed(folder.path(), "like", &theirs);
    let lines = like.lines();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        let found = line["detections_3d"].as_array().unwrap();
        let objects = expected["objects"].as_array().unwrap();
        assert_eq!(found.len(), objects.len());
        for (found, object) in found.iter().zip(objects) {
            compare(found, object);
        }
    }

    let migrate = [&["migrate"][..], &files, &arguments].concat();
    let migrated = det_post(&migrate);
    migrated.expect_code(0);
    let file = folder.path().join("migrated.param.yaml");
    std::fs::write(&file, &migrated.stdout).unwrap();
    let overrides = [
        "-p",
        "lidar.input:=/sensing/lidar/points",
        "-p",
        "lidar.output:=/lidar_centerpoint/output/objects",
    ];
    let ours = [&["--config", file.to_str().unwrap()][..], &overrides].concat();
    let ours = replayed(folder.path(), "ours", &ours);
    assert_eq!(ours.bytes("detections.jsonl"), like.bytes("detections.jsonl"));
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
