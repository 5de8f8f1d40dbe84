//! A LiDAR and six cameras of a simulated drive through a small BEVFusion of two files.

use super::surround::{frames, frames_of};
use crate::common::fused_rig::{Autoware, OBJECTS, fixture, fixture_of_files};
use crate::common::replay::{Run, det_post};
use crate::common::session::messages;
use crate::common::surround_rig::NUM_FRAMES;

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

/// The form of five files, which `check` describes.
#[test]
fn five_files_give_objects_of_a_recording() {
    let fixture = fixture_of_files();
    let parameters = fixture.path("rig.param.yaml");
    let checked = det_post(&["check", &parameters.display().to_string()]);
    let expected = "# rig: cameras: 6 of 64x32, 6 depths of 5 channels, a map of 8 x 6 cells";
    assert!(checked.expect_code(0).stdout.contains(expected), "{}", checked.stdout);
    let run = fixture.replay(&fixture.drive(), "out", &[]);
    assert!(served(&run) + 2 >= NUM_FRAMES as u64, "{:?}", frames(&run));
    let lines = run.lines();
    let isolated = fixture.replay(&fixture.drive(), "isolated", &["rig.isolate:=true"]);
    assert_eq!(isolated.expect_code(0).lines(), lines);
    // The file of another network.
    std::fs::copy(fixture.path("camera.vtransform.onnx"), fixture.path("fuser.onnx")).unwrap();
    let checked = det_post(&["check", &parameters.display().to_string()]);
    assert!(checked.expect_code(2).stderr.contains("rig.fuser_path"), "{}", checked.stderr);
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

/// The parameter files of Autoware's node: the same bytes as of the migrated parameters.
#[test]
fn files_of_autoware_give_objects_as_migrated() {
    let node = Autoware::new();
    let run = node.like(&node.fixture.drive(), "like", &[]);
    let (lines, report) = (run.expect_code(0).lines(), run.report());
    let channel = &report["channels"]["lidar"];
    assert_eq!(channel["inputs"].as_array().unwrap().len(), 7);
    // A frame needs no camera, and the first ones precede their calibrations.
    assert!(lines.len() + 2 >= NUM_FRAMES, "{report}");
    for line in &lines {
        assert_eq!(line["frame_id"], "base_link", "{line}");
        assert!(!line["detections_3d"].as_array().unwrap().is_empty(), "{line}");
    }
    let objects = messages(&run.out.join("detections"));
    assert!(objects.iter().any(|(topic, ..)| topic == OBJECTS), "{report}");
    let ours = node.migrated("ours");
    assert_eq!(ours.expect_code(0).lines(), lines);
}

#[test]
fn clouds_of_autoware_without_images_are_served() {
    let node = Autoware::new();
    let all = node.like(&node.fixture.drive(), "all", &[]).expect_code(0).lines();
    let gap = node
        .fixture
        .rewrite("gap", |topic, _, data| (!topic.ends_with("/image")).then(|| data.to_vec()));
    let run = node.like(&gap, "none", &[]);
    let lines = run.expect_code(0).lines();
    assert_eq!(lines.len(), NUM_FRAMES, "{}", run.report());
    assert_ne!(lines.last(), all.last(), "images have an effect");
    let strict = node.like(&gap, "strict", &["sync.min_cameras:=6"]);
    assert!(frames_of(&strict, "lidar").1.keys().all(|reason| reason == "incomplete_views"));
}
