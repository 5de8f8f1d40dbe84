//! Six cameras of a simulated drive through small DETR3D and Sparse4D decoders with
//! random weights.

use det_post::types::{Detr3d, Sparse4d};

use super::surround::{NUM_SERVED, frames, reasons};
use crate::common::streampetr::backbone;
use crate::common::surround_rig::{Fixture, NUM_FRAMES, SIZES};
use crate::common::view_networks::{StateDict, detr3d, detr3d_facts, sparse4d, sparse4d_facts};

const HEAD: &str = "sensor: surround
class_names: [car, truck, pedestrian]
cameras: 6
input_size: [96, 48]
channel_order: rgb
mean: [120.0, 120.0, 120.0]
std: [60.0, 60.0, 60.0]
level_strides: [8]
extra_level: true
size_order: length_width_height
yaw: counter_clockwise
defaults: {nms: {kind: none}}
";

/// Writes a backbone of one output, a head and weights.
fn fixture(facts: &str, weights: &StateDict) -> Fixture {
    let fixture = Fixture::with_drive();
    let path = |name: &str| fixture.path(name).display().to_string();
    backbone(&SIZES, 11).save(&fixture.path("backbone.onnx")).unwrap();
    std::fs::write(fixture.path("head.yaml"), format!("{HEAD}{facts}")).unwrap();
    std::fs::write(fixture.path("weights.safetensors"), weights.to_safetensors()).unwrap();
    fixture.write_parameters(&format!(
        "      head: {}
      model_path: {}
      weights_path: {}",
        path("head.yaml"),
        path("backbone.onnx"),
        path("weights.safetensors")
    ));
    fixture
}

fn detr3d_fixture() -> Fixture {
    let weights = detr3d(&Detr3d { num_views: 6, ..detr3d_facts() });
    let facts = "kind: detr3d
point_range_m: [-30, -30, -3, 30, 30, 3]
decoder: {channels: 16, heads: 2, queries: 12, blocks: 2, min_depth_m: 0.01}
";
    fixture(facts, &weights)
}

fn sparse4d_fixture() -> Fixture {
    let mut weights = sparse4d(&Sparse4d { num_views: 6, ..sparse4d_facts() });
    // Around the vehicle, so that every camera sees some.
    let is_anchors = |(name, ..): &&mut (String, _, _)| name == "instance_bank.anchor";
    let (.., anchors) = weights.tensors.iter_mut().find(is_anchors).unwrap();
    for (index, anchor) in anchors.chunks_exact_mut(11).enumerate() {
        let angle = std::f32::consts::FRAC_PI_3 * index as f32;
        [anchor[0], anchor[1]] = [8.0 * angle.cos(), 8.0 * angle.sin()];
    }
    let facts = "kind: sparse4d
decoder: {channels: 16, heads: 4, groups: 2, anchors: 10, cached: 6, blocks: 3}
";
    fixture(facts, &weights)
}

#[test]
fn both_families_find_boxes_in_the_frame_of_the_vehicle() {
    for fixture in [detr3d_fixture(), sparse4d_fixture()] {
        let run = fixture.replay(&fixture.drive(), "out", &[]);
        assert_eq!(frames(&run), (NUM_SERVED, reasons(&[("uncalibrated", 1)])));
        let lines = run.lines();
        assert_eq!(lines.len() as u64, NUM_SERVED);
        for line in &lines {
            assert_eq!(line["frame_id"], "base_link", "{line}");
            assert!(!line["detections_3d"].as_array().unwrap().is_empty(), "{line}");
        }
        // Equal again, and in a process of its own.
        let again = fixture.replay(&fixture.drive(), "again", &[]);
        let isolated = fixture.replay(&fixture.drive(), "isolated", &["rig.isolate:=true"]);
        for run in [&again, &isolated] {
            assert_eq!(run.expect_code(0).lines(), lines);
        }
    }
}

#[test]
fn the_memory_of_sparse4d_ends_with_a_gap_and_detr3d_has_none() {
    let differs = |fixture: &Fixture| {
        let plain = fixture.replay(&fixture.drive(), "plain", &[]).lines();
        let alone = ["rig.memory.max_gap_s:=0.05"];
        let alone = fixture.replay(&fixture.drive(), "alone", &alone).lines();
        assert_eq!(plain[0], alone[0]);
        plain[1..] != alone[1..]
    };
    assert!(differs(&sparse4d_fixture()));
    assert!(!differs(&detr3d_fixture()));
}

#[test]
fn a_camera_may_be_missing() {
    for fixture in [detr3d_fixture(), sparse4d_fixture()] {
        let gap = fixture.rewrite("gap_bag", |topic, count, data| {
            (topic != "/camera_1/image" || count != 2).then(|| data.to_vec())
        });
        let all = NUM_FRAMES as u64;
        let first = ("uncalibrated", 1);
        let run = fixture.replay(&gap, "gap", &[]);
        assert_eq!(frames(&run), (all - 2, reasons(&[("incomplete_views", 1), first])));
        let few = ["rig.sync.min_cameras:=5"];
        let run = fixture.replay(&gap, "five", &few);
        assert_eq!(frames(&run), (all - 1, reasons(&[first])));
        // The frames before are those of all cameras, the frame itself is not.
        let (with, without) = (fixture.replay(&fixture.drive(), "six", &few).lines(), run.lines());
        assert_eq!(with[..1], without[..1]);
        assert_ne!(with[1], without[1]);
    }
}

#[test]
fn files_that_do_not_fit_each_other_are_refused_by_name() {
    let fixture = sparse4d_fixture();
    let refused = |change: &[&str], expected: &str| {
        let run = fixture.replay(&fixture.drive(), "refused", change);
        assert!(run.code != 0 && run.stderr.contains(expected), "{expected}: {}", run.stderr);
    };
    let two = "rig.inputs:=[/camera_0/image, /camera_1/image]";
    refused(&[two], "takes 6 cameras");
    let no_file = format!("rig.weights_path:={}", fixture.path("no.safetensors").display());
    refused(&[&no_file], "no.safetensors");
    let weights = detr3d(&Detr3d { num_views: 6, ..detr3d_facts() }).to_safetensors();
    std::fs::write(fixture.path("weights.safetensors"), weights).unwrap();
    refused(&[], "weights.safetensors: view_decoder: tensor instance_bank.anchor is missing");
    let head = std::fs::read_to_string(fixture.path("head.yaml")).unwrap();
    let write = |head: String| std::fs::write(fixture.path("head.yaml"), head).unwrap();
    write(head.replace("cameras: 6\n", ""));
    refused(&[], "cameras: is missing; this kind of head requires it");
    write(head.replace("level_strides: [8]", "level_strides: [8, 16]"));
    let weights = sparse4d(&Sparse4d { num_views: 6, num_levels: 3, ..sparse4d_facts() });
    std::fs::write(fixture.path("weights.safetensors"), weights.to_safetensors()).unwrap();
    refused(&[], "the backbone has 1 outputs, the head 2 level_strides");
}
