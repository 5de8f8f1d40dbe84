//! Six cameras of a simulated drive through small DETR3D and Sparse4D decoders with
//! random weights.

use det_post::types::{Detr3d, Sparse4d};

use super::surround::{NUM_SERVED, frames, reasons};
use crate::common::surround_rig::{Fixture, NUM_FRAMES};
use crate::common::view_networks::{detr3d, detr3d_facts, sparse4d, sparse4d_facts};
use crate::common::view_rig::{detr3d_fixture, sparse4d_fixture};

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
