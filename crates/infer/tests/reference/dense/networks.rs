//! The networks of the demo and of other projects.

use super::{agrees, library};
use det_post_testing::{shared_data, workspace};

fn demo(name: &str, num_steps: usize) {
    let Some(library) = library() else { return };
    let found = agrees(&workspace().join("models").join(name), &library, 1.0);
    assert!(found <= num_steps, "{name} takes {found} steps");
}

fn shared(name: &str, scale: f32, num_steps: usize) {
    let (Some(library), Some(data)) = (library(), shared_data::shared_data()) else { return };
    let found = agrees(&data.join("models").join(name), &library, scale);
    assert!(found <= num_steps, "{name} takes {found} steps");
}

#[test]
fn camera_agrees() {
    demo("camera.onnx", 37);
}

#[test]
fn camera_with_masks_agrees() {
    demo("camera_seg.onnx", 46);
}

#[test]
fn lidar_head_agrees() {
    demo("lidar_head.onnx", 21);
}

#[test]
fn lidar_encoder_agrees() {
    demo("lidar_encoder.onnx", 3);
}

#[test]
fn voxel_dense_agrees() {
    demo("voxel_dense.onnx", 23);
}

#[test]
fn surround_backbone_agrees() {
    demo("surround_backbone.onnx", 52);
}

#[test]
fn yolox_nano_agrees() {
    shared("yolox_nano_416.onnx", 255.0, 112);
}

#[test]
fn yolov5n_agrees() {
    shared("yolov5n_fp32_640.onnx", 1.0, 60);
}

#[test]
fn yolov8n_agrees() {
    shared("yolov8n_f32_from_qdq_640.onnx", 1.0, 68);
}

#[test]
fn pillar_encoders_agree() {
    shared("pfe.onnx", 1.0, 6);
}
