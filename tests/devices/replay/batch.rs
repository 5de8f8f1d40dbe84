//! Six cameras on a GPU whose network runs once for the frames of all.

use std::path::Path;

use super::networks_on_the_gpu::{compare, library};
use super::{has_gpu, recording, write_sample};
use crate::common::replay::replay;

const NUM_CAMERAS: usize = 6;

/// Six channels of the sample's camera, each with a threshold of its own.
fn channels(folder: &Path, engine: &[&str], is_batched: bool) -> Vec<String> {
    let folder = folder.display();
    let mut all = vec!["device:=cuda:0".to_owned()];
    for camera in 0..NUM_CAMERAS {
        all.extend([
            format!("c{camera}.input:={}", recording::IMAGE_TOPIC),
            format!("c{camera}.head:={folder}/heads/blobs_yolov8.yaml"),
            format!("c{camera}.model_path:={folder}/models/blobs_yolov8.onnx"),
            format!("c{camera}.score_threshold:={:?}", 0.2 + 0.1 * camera as f32),
        ]);
        all.extend(engine.iter().map(|parameter| format!("c{camera}.engine.{parameter}")));
        if is_batched && camera > 0 {
            all.push(format!("c{camera}.batch_with:=c0"));
        }
    }
    all
}

#[test]
fn six_cameras_in_one_batch_find_what_each_finds_alone() {
    if !has_gpu() {
        return;
    }
    let sample = tempfile::tempdir().unwrap();
    let folder = sample.path();
    write_sample(folder);
    let (nothing, drive) = (folder.join("none.yaml"), folder.join("drive"));
    std::fs::write(&nothing, "/**:\n  ros__parameters:\n    use_sim_time: false\n").unwrap();
    let run = |engine: &[&str], is_batched, out: &str| {
        let parameters = channels(folder, engine, is_batched);
        replay(&drive, nothing.to_str().unwrap(), &parameters, &folder.join(out))
    };
    let rten = ["kind:=rten", "threads:=2"];
    let alone = run(&rten, false, "alone");
    let batched = run(&rten, true, "batched");
    batched.expect_code(0);
    let report = batched.report();
    for camera in 0..NUM_CAMERAS {
        let channel = &report["channels"][format!("c{camera}")];
        let engine = channel["engine"].as_str().unwrap();
        assert!(engine.ends_with("a batch of 6"), "{engine}");
    }
    // On the CPU the network rounds alike.
    assert!(batched.bytes("detections.jsonl") == alone.bytes("detections.jsonl"));

    let Some(library) = library() else { return };
    let names: Vec<String> = (0..NUM_CAMERAS).map(|camera| format!("c{camera}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut parameters = channels(folder, &[], true);
    parameters.retain(|parameter| !parameter.starts_with("device"));
    compare(&drive, nothing.to_str().unwrap(), &names, &parameters, &library);
}
