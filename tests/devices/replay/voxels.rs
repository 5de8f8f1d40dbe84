//! The demo's voxel network with its encoder in f16 against f32: detections above
//! the threshold and the margin of their scores agree within the bounds of
//! docs/numerics.md.

use std::path::Path;

use serde_json::Value;

use super::common::bounds::bound;
use super::common::replay::{Run, det_post, replay};
use super::common::require::{Need, skip};
use super::has_gpu;

const CONFIG: &str = "config/demo_voxel.param.yaml";
const THRESHOLD: f64 = 0.1;

/// A detection of the LiDAR: class, centre and size, score.
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

/// How many detections of `some` are above threshold and margin, and how many of
/// them have a partner among `others`.
fn matched(some: &[Found], others: &[Found]) -> (usize, usize) {
    let most = |number: &str| bound("network", "f16 encoder", number).in_unit();
    let is_partner = |(class, place, score): &Found, (class_b, place_b, score_b): &Found| {
        let apart = place.iter().zip(place_b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        class == class_b
            && apart <= most("centre, size")
            && (score - score_b).abs() <= most("score")
    };
    let certain = some.iter().filter(|(_, _, score)| *score > THRESHOLD + most("score"));
    let (mut num, mut num_matched) = (0, 0);
    for one in certain {
        num += 1;
        let partner = others.iter().any(|other| is_partner(one, other));
        num_matched += usize::from(partner);
        if !partner {
            println!("no partner of {one:?}");
        }
    }
    (num, num_matched)
}

fn compare(in_f32: &Run, in_f16: &Run) {
    in_f32.expect_code(0);
    in_f16.expect_code(0);
    let of_lidar = |run: &Run| -> Vec<Value> {
        run.lines().into_iter().filter(|line| line["channel"] == "lidar").collect()
    };
    let (expected, found) = (of_lidar(in_f32), of_lidar(in_f16));
    assert_eq!(expected.len(), found.len());
    assert!(!expected.is_empty());
    let (mut num, mut num_matched) = (0, 0);
    for (line, other) in expected.iter().zip(&found) {
        assert_eq!(line["stamp_ns"], other["stamp_ns"]);
        let (a, b) = (detections(line), detections(other));
        for (some, others) in [(&a, &b), (&b, &a)] {
            let (all, partners) = matched(some, others);
            num += all;
            num_matched += partners;
        }
    }
    println!("{num_matched} of {num} detections have a partner");
    let share = 1.0 - bound("network", "f16 encoder", "share without partner").in_unit();
    assert!(num >= 20 && num_matched as f64 >= share * num as f64, "{num_matched} of {num}");
}

/// Half a second of a drive that the network was not trained on.
fn drive(folder: &Path) -> String {
    let drive = folder.join("drive").display().to_string();
    det_post(&["simulate", "--seed", "9004", "--seconds", "0.5", "--out", &drive]).expect_code(0);
    drive
}

fn run(drive: &str, precision: &str, device: &str, out: &Path) -> Run {
    let parameters = [
        format!("device:={device}"),
        format!("lidar.encoder.precision:={precision}"),
        format!("lidar.score_thresholds:=[{THRESHOLD}]"),
        "lidar.engine.kind:=rten".to_owned(),
        "camera.engine.kind:=rten".to_owned(),
    ];
    replay(Path::new(drive), CONFIG, &parameters, &out.join(format!("{precision}_{device}")))
}

fn has_models() -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/voxel_encoder.scn.onnx");
    path.is_file() || {
        skip(Need::Models, "no models/voxel_encoder.scn.onnx");
        false
    }
}

#[test]
fn the_voxel_demo_detects_the_same_in_f16() {
    if !has_models() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let drive = drive(folder.path());
    let [in_f32, in_f16] =
        ["f32", "f16"].map(|precision| run(&drive, precision, "cpu", folder.path()));
    compare(&in_f32, &in_f16);
}

#[test]
fn the_voxel_demo_detects_the_same_in_f16_on_the_gpu() {
    if !has_models() || !has_gpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let drive = drive(folder.path());
    let (in_f32, in_f16) =
        (run(&drive, "f32", "cpu", folder.path()), run(&drive, "auto", "cuda:0", folder.path()));
    let report = in_f16.report();
    let device = report["channels"]["lidar"]["device"].as_str().unwrap();
    assert!(device.starts_with("cuda:0"), "{device}");
    compare(&in_f32, &in_f16);
}
