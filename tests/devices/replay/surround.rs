//! Six cameras of a simulated drive through small DETR3D and Sparse4D decoders: the same
//! detections as on the CPU within the bounds of docs/numerics.md, and the same bytes from run
//! to run and in a process of its own.

use det_post_types::MapLayout;
use serde_json::Value;

use super::common::bounds::bound;
use super::common::replay::Run;
use super::common::surround_rig::Fixture;
use super::common::view_rig::{detr3d_fixture, int8_fixture, sparse4d_fixture};
use super::has_gpu;

/// A detection: class, centre and size, score.
type Found = (u64, Vec<f64>, f64);

fn detections(line: &Value) -> Vec<Found> {
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    let detections = line["detections_3d"].as_array().unwrap().iter().map(|one| {
        let place = [numbers(&one["center"]), numbers(&one["size"])].concat();
        (one["class_id"].as_u64().unwrap(), place, one["score"].as_f64().unwrap())
    });
    detections.collect()
}

/// Every detection of either has a partner in the other frame.
fn compare(expected: &Run, found: &Run, part: &str) {
    let most = |number: &str| bound("network", part, number).in_unit();
    let (places, scores) = (most("centre, size"), most("score"));
    let is_partner = |(class, place, score): &Found, (class_b, place_b, score_b): &Found| {
        let apart = place.iter().zip(place_b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        class == class_b && apart <= places && (score - score_b).abs() <= scores
    };
    let (expected, found) = (expected.lines(), found.lines());
    assert_eq!(found.len(), expected.len());
    let mut num_detections = 0;
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found["stamp"], expected["stamp"]);
        let (found, expected) = (detections(found), detections(expected));
        assert_eq!(found.len(), expected.len(), "{part}");
        for (some, others) in [(&found, &expected), (&expected, &found)] {
            for one in some {
                let has_partner = others.iter().any(|other| is_partner(one, other));
                assert!(has_partner, "{part}: no partner of {one:?}");
            }
        }
        num_detections += found.len();
    }
    assert!(num_detections > 50, "{num_detections} detections");
}

fn fixtures() -> [Fixture; 2] {
    [detr3d_fixture(), sparse4d_fixture()]
}

#[test]
fn own_decoders_find_the_same_boxes_on_both_devices() {
    if !has_gpu() {
        return;
    }
    for fixture in fixtures() {
        let run = |name: &str, parameters: &[&str]| {
            let run = fixture.replay(&fixture.drive(), name, parameters);
            run.expect_code(0);
            run
        };
        // Every query of every class: none may be at a threshold.
        let all = "rig.score_thresholds:=0.0";
        let on_gpu = ["device:=cuda:0", all];
        let on_cpu = run("cpu", &[all]);
        let exact = run("f32", &[on_gpu[0], all, "rig.decoder.precision:=f32"]);
        compare(&on_cpu, &exact, "own decoder, f32");
        let report = exact.report();
        let channel = &report["channels"]["rig"];
        assert!(channel["device"].as_str().unwrap().starts_with("cuda:0 "), "{channel}");
        // In f16 rows of a memory may change places: each frame by itself.
        let single = "rig.memory.max_gap_s:=0.05";
        let on_cpu = run("cpu_single", &[all, single]);
        compare(&on_cpu, &run("f16_single", &[on_gpu[0], all, single]), "own decoder, f16");
        let half = run("f16", &on_gpu);
        // Equal again, and in a process of its own.
        for (name, more) in [("again", "rig.isolate:=false"), ("isolated", "rig.isolate:=true")] {
            let other = run(name, &[on_gpu[0], all, more]);
            assert!(other.bytes("detections.jsonl") == half.bytes("detections.jsonl"), "{name}");
        }
        // int8 maps on both.
        let scales = "rig.decoder.map_scales:=[0.05, 0.05]";
        let [on_cpu, found] = [("cpu_i8", all), ("i8", on_gpu[0])]
            .map(|(name, more)| run(name, &[more, all, single, scales]));
        compare(&on_cpu, &found, "own decoder, f16");
    }
    // int8 maps of the backbone, in every layout.
    for is_detr3d in [true, false] {
        for layout in [MapLayout::Planar, MapLayout::ChannelsLast, MapLayout::Blocks32] {
            let fixture = int8_fixture(is_detr3d, layout);
            let more = ["rig.score_thresholds:=0.0", "rig.memory.max_gap_s:=0.05"];
            let [on_cpu, found] =
                [("cpu", "rig.isolate:=false"), ("gpu", "device:=cuda:0")].map(|(name, device)| {
                    let run =
                        fixture.replay(&fixture.drive(), name, &[&more[..], &[device]].concat());
                    run.expect_code(0);
                    run
                });
            compare(&on_cpu, &found, "own decoder, f16");
        }
    }
}

#[test]
fn a_camera_may_be_missing_on_a_gpu() {
    if !has_gpu() {
        return;
    }
    for fixture in fixtures() {
        let gap = fixture.rewrite("gap_bag", |topic, count, data| {
            (topic != "/camera_1/image" || count != 2).then(|| data.to_vec())
        });
        let few = ["rig.sync.min_cameras:=5", "rig.score_thresholds:=0.0"];
        let on_cpu = fixture.replay(&gap, "cpu", &few);
        let exact = [&few[..], &["device:=cuda:0", "rig.decoder.precision:=f32"]].concat();
        compare(&on_cpu, &fixture.replay(&gap, "gpu", &exact), "own decoder, f32");
    }
}

#[test]
fn what_a_gpu_lacks_is_refused_by_name() {
    if !has_gpu() {
        return;
    }
    let fixture = detr3d_fixture();
    let refused = |change: &[&str], expected: &str| {
        let run = fixture.replay(&fixture.drive(), "refused", change);
        assert!(run.code != 0 && run.stderr.contains(expected), "{expected}: {}", run.stderr);
    };
    let scales = "rig.decoder.map_scales:=[0.05, 0.05]";
    refused(
        &["device:=cuda:0", "rig.decoder.precision:=f32", scales],
        "decoder.map_scales, or of the backbone) with decoder.precision f32",
    );
    refused(&["rig.decoder.precision:=f16"], "decoder.precision f16 requires a GPU");
}
