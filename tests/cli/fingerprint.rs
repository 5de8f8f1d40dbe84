//! `det_post check --json`: a key that changes with what a replay computes, and with nothing
//! else.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;

use serde_json::Value;

use crate::common::replay::det_post;
use crate::common::stand_in;

fn check(models: &Path, more: &[&str]) -> Value {
    let model = |key: &str, name: &str| format!("{key}:={}/{name}.onnx", models.display());
    let paths = [
        model("camera.model_path", "camera"),
        model("lidar.encoder_path", "lidar_encoder"),
        model("lidar.model_path", "lidar_head"),
    ];
    let mut arguments = vec!["check", "config/demo.param.yaml", "--json"];
    arguments.extend(paths.iter().flat_map(|path| ["-p", path.as_str()]));
    arguments.extend(more.iter().flat_map(|parameter| ["-p", *parameter]));
    serde_json::from_str(&det_post(&arguments).expect_code(0).stdout).unwrap()
}

#[test]
fn the_key_follows_parameters_and_contents_and_not_where_files_are() {
    let folder = tempfile::tempdir().unwrap();
    let [models, moved] = ["models", "moved"].map(|name| folder.path().join(name));
    stand_in::write(&models);
    stand_in::write(&moved);
    let whole = check(&models, &[]);
    let key = whole["key"].as_str().unwrap();
    assert_eq!(key.len(), 64);
    assert_eq!(whole["parameters"]["lidar.densification.num_past_sweeps"], 2, "{whole}");
    let files = whole["files"].as_array().unwrap();
    let names: Vec<_> = files.iter().map(|file| file["parameter"].as_str().unwrap()).collect();
    assert_eq!(names, ["camera.model_path", "lidar.encoder_path", "lidar.model_path"]);
    let size = std::fs::metadata(models.join("camera.onnx")).unwrap().len();
    assert_eq!(files[0]["bytes"], size);
    assert_eq!(files[0]["sha256"].as_str().unwrap().len(), 64);

    assert_eq!(check(&models, &[])["key"], key);
    assert_eq!(check(&moved, &[])["key"], key);
    assert_ne!(check(&models, &["camera.score_threshold:=0.77"])["key"], key);
    let camera = moved.join("camera.onnx");
    let mut bytes = std::fs::read(&camera).unwrap();
    bytes.push(0);
    std::fs::write(&camera, bytes).unwrap();
    assert_ne!(check(&moved, &[])["key"], key);
    std::fs::remove_file(&camera).unwrap();
    let missing = check(&moved, &[]);
    assert_eq!(missing["key"], Value::Null);
    assert!(missing["files"][0]["error"].is_string(), "{missing}");
}
