//! A LiDAR and six cameras of a simulated drive through a small BEVFusion of two files.

use det_post_testing::fused_onnx::{camera_lidar, save_backbone};

use super::surround::frames;
use crate::common::replay::Run;
use crate::common::surround_rig::{Fixture, NUM_FRAMES};

const FACTS: &str = "\
sensor: lidar
encoder: none
kind: bevfusion
class_names: [CAR, TRUCK, BUS]
point_range_m: [-40, -30, -3, 40, 30, 5]
voxel_size_m: [10, 10, 1]
max_points_per_voxel: 10
voxel_capacity: 400
point_channels: []
input_names: [voxels, num_points, coors]
coordinates: zyx
output_names: [bbox_pred, score, label_pred]
downsample_factor: 2
cameras: 6
input_size: [64, 32]
depths_m: [2, 6]
camera_range_m: [-40, -30, -10, 40, 30, 10]
";

fn fixture() -> Fixture {
    let fixture = Fixture::drive_with_lidars(1);
    let [head, model, backbone] =
        ["head.yaml", "detector.onnx", "backbone.onnx"].map(|name| fixture.path(name));
    std::fs::write(&head, FACTS).unwrap();
    std::fs::write(&model, camera_lidar().to_bytes()).unwrap();
    save_backbone(&backbone).unwrap();
    let topics: Vec<String> = (0..6).map(|n| format!("/camera_{n}/image")).collect();
    let text = format!(
        "/**:
  ros__parameters:
    device: cpu
    rig:
      input: /lidar_0/points
      camera_inputs: [{}]
      head: {}
      model_path: {}
      image_backbone_path: {}
      engine: {{kind: rten, threads: 1}}
      encoder.precision: f32
      output_type: detected_objects
      sync.max_skew_s: 0.12
      densification.num_past_sweeps: 1
      score_thresholds: 0.3
      nms.kind: none
",
        topics.join(", "),
        head.display(),
        model.display(),
        backbone.display()
    );
    std::fs::write(fixture.path("rig.param.yaml"), text).unwrap();
    fixture
}

/// Frames with objects, and the reasons of the others.
fn served(run: &Run) -> u64 {
    let (num_served, _) = frames(run);
    for line in &run.lines() {
        assert_eq!(line["frame_id"], "base_link", "{line}");
        assert!(!line["detections_3d"].as_array().unwrap().is_empty(), "{line}");
    }
    assert_eq!(run.lines().len() as u64, num_served);
    num_served
}

#[test]
fn a_cloud_and_six_images_become_objects() {
    let fixture = fixture();
    let run = fixture.replay(&fixture.drive(), "out", &[]);
    let num_served = served(&run);
    assert!(num_served + 2 >= NUM_FRAMES as u64, "{:?}", frames(&run));
    let report = run.report();
    let inputs = report["channels"]["rig"]["inputs"].as_array().unwrap();
    assert_eq!(inputs.len(), 7);
    let lines = run.lines();
    // Equal again, and in a process of its own.
    for (name, more) in [("again", &[][..]), ("isolated", &["rig.isolate:=true"])] {
        let other = fixture.replay(&fixture.drive(), name, more);
        assert_eq!(other.expect_code(0).lines(), lines, "{name}");
    }
}

#[test]
fn a_camera_may_be_missing_where_it_is_allowed() {
    let fixture = fixture();
    let gap = fixture.rewrite("gap", |topic, count, data| {
        (topic != "/camera_1/image" || count == 0 || count > 3).then(|| data.to_vec())
    });
    let all = frames(&fixture.replay(&fixture.drive(), "all", &[])).0;
    let run = fixture.replay(&gap, "gap_out", &[]);
    let (num_served, found) = frames(&run);
    assert!(num_served < all, "{num_served} {all}");
    assert!(found.keys().any(|reason| reason == "incomplete_views"), "{found:?}");
    let few = fixture.replay(&gap, "five", &["rig.sync.min_cameras:=5"]);
    assert_eq!(served(&few), all);
}
