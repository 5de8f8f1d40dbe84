//! The network on the GPU too: ONNX Runtime with its CUDA provider against the
//! same library on the CPU. As many detections of the same classes; scores and
//! boxes within the bounds of docs/numerics.md.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::common::bounds::bound;
use super::common::replay::{det_post, replay};
use super::common::require::{Need, skip};
use super::common::shared_data::shared_data;
use super::common::surround_rig::Fixture;
use super::{has_gpu, networks, trained};

/// By how much a number may differ, in pixels or in metres, radians and metres a second.
fn largest_allowed(number: &str) -> f64 {
    bound("network", "CUDA provider", number).in_unit()
}

/// The library of ONNX Runtime, when one is named that has a CUDA provider.
pub(super) fn library() -> Option<PathBuf> {
    let Some(library) = std::env::var_os("ORT_DYLIB_PATH").map(PathBuf::from) else {
        skip(Need::Ort, "ORT_DYLIB_PATH is not set");
        return None;
    };
    let provider = library.with_file_name("libonnxruntime_providers_cuda.so");
    if provider.is_file() {
        return Some(library);
    }
    skip(Need::Cuda, format_args!("no CUDA provider beside {}", library.display()));
    None
}

/// Largest difference of scores and of boxes, each over its bound.
#[derive(Default)]
struct Largest {
    score: f64,
    pixels: f64,
    metres: f64,
}

/// All numbers of some fields of a detection in a row.
fn numbers(detection: &Value, fields: &[&str]) -> Vec<f64> {
    let values = fields.iter().flat_map(|field| match &detection[field] {
        Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    });
    values.filter_map(|value| value.as_f64()).collect()
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// What is wrong with a frame's detections; empty when they agree one to one.
fn differences(expected: &[Value], found: &[Value], is_2d: bool, largest: &mut Largest) -> String {
    if expected.len() != found.len() {
        return format!("{} detections, {} on the GPU", expected.len(), found.len());
    }
    let fields: &[&str] = if is_2d { &["box"] } else { &["center", "size", "yaw", "velocity"] };
    let mut left: Vec<_> = found.iter().collect();
    for one in expected {
        let numbers_of_one = numbers(one, fields);
        let distance = |other: &Value| largest_difference(&numbers_of_one, &numbers(other, fields));
        let same_class = |(_, other): &(usize, &&Value)| other["class_id"] == one["class_id"];
        let nearest = left
            .iter()
            .enumerate()
            .filter(same_class)
            .map(|(place, other)| (place, distance(other)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((place, distance)) = nearest else { return format!("missed {one}") };
        let other = left.swap_remove(place);
        let score = largest_difference(&numbers(one, &["score"]), &numbers(other, &["score"]));
        let (of_box, bound) = if is_2d {
            (&mut largest.pixels, largest_allowed("corner"))
        } else {
            (&mut largest.metres, largest_allowed("centre, size, yaw, velocity"))
        };
        *of_box = of_box.max(distance);
        largest.score = largest.score.max(score);
        if distance > bound || score > largest_allowed("score") {
            return format!("{one} on the GPU {other}");
        }
    }
    String::new()
}

/// Replays with ONNX Runtime on the CPU and on GPU 0 and compares.
pub(super) fn compare(
    bag: &Path,
    config: &str,
    channels: &[&str],
    parameters: &[String],
    library: &Path,
) {
    let folder = tempfile::tempdir().unwrap();
    let run = |device: &str, provider: &str| {
        let mut parameters = parameters.to_vec();
        parameters.push(format!("device:={device}"));
        for channel in channels {
            parameters.extend([
                format!("{channel}.engine.kind:=onnxruntime"),
                format!("{channel}.engine.library:={}", library.display()),
                format!("{channel}.engine.provider:={provider}"),
                format!("{channel}.engine.tf32:=false"),
            ]);
        }
        let run = replay(bag, config, &parameters, &folder.path().join(provider));
        run.expect_code(0);
        run
    };
    let (on_cpu, on_gpu) = (run("cpu", "cpu"), run("cuda:0", "cuda"));
    for channel in channels {
        let report = on_gpu.report();
        let engine = report["channels"][channel]["engine"].as_str().unwrap();
        assert!(engine.contains("on CUDA"), "{channel}: {engine}");
        println!("{channel}: {engine}");
    }
    let (expected, found) = (on_cpu.lines(), on_gpu.lines());
    assert_eq!(expected.len(), found.len());
    let (mut largest, mut num_detections) = (Largest::default(), 0);
    for (line, other) in expected.iter().zip(&found) {
        assert_eq!((&line["channel"], &line["stamp_ns"]), (&other["channel"], &other["stamp_ns"]));
        let is_2d = line["detections_2d"].is_array();
        let detections = if is_2d { "detections_2d" } else { "detections_3d" };
        let [a, b] = [line, other].map(|line| line[detections].as_array().unwrap());
        let problem = differences(a, b, is_2d, &mut largest);
        assert!(problem.is_empty(), "{} {}: {problem}", bag.display(), line["channel"]);
        num_detections += a.len();
    }
    assert_ne!(num_detections, 0, "{}", bag.display());
    println!(
        "{} {parameters:?}: {} frames, {num_detections} detections agree; scores within {:.2e}, \
         boxes within {:.2e} px, {:.2e} m",
        bag.display(),
        expected.len(),
        largest.score,
        largest.pixels,
        largest.metres
    );
}

/// Without what [`trained`] says of engines.
fn on_any_engine(parameters: Vec<String>) -> Vec<String> {
    parameters.into_iter().filter(|parameter| !parameter.contains(".engine.")).collect()
}

#[test]
fn the_kitti_camera_with_its_network_on_the_gpu() {
    let (true, Some(data), Some(library)) = (has_gpu(), shared_data(), library()) else { return };
    for network in networks(&data) {
        let parameters = trained(&data, "camera", "/sensing/camera/image_raw", network);
        let bag = data.join("bags/kitti_000008_mcap");
        let parameters = on_any_engine(parameters);
        compare(&bag, "config/camera.param.yaml", &["camera"], &parameters, &library);
    }
}

#[test]
fn six_compressed_cameras_with_their_networks_on_the_gpu() {
    let (true, Some(data), Some(library)) = (has_gpu(), shared_data(), library()) else { return };
    let cameras = ["front", "front_right", "back_right", "back", "back_left", "front_left"];
    for network in networks(&data) {
        let parameters = cameras.iter().flat_map(|camera| {
            let input = format!("/camera/{camera}/image_raw/compressed");
            on_any_engine(trained(&data, camera, &input, network))
        });
        let parameters: Vec<_> = parameters.collect();
        let bag = data.join("bags/nuscenes_surround_mcap");
        compare(&bag, "config/surround.param.yaml", &cameras, &parameters, &library);
    }
}

/// Two seconds of the simulated drive through the networks of the demo.
#[test]
fn the_demo_with_its_networks_on_the_gpu() {
    let (true, Some(library)) = (has_gpu(), library()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let drive = folder.path().join("drive");
    let out = drive.to_str().unwrap();
    det_post(&["simulate", "--seed", "9002", "--seconds", "2", "--out", out]).expect_code(0);
    compare(&drive, "config/demo.param.yaml", &["camera", "lidar"], &[], &library);
}

/// StreamPETR in three networks, whose memory goes from frame to frame.
#[test]
fn the_trio_of_streampetr_with_its_networks_on_the_gpu() {
    let (true, Some(library)) = (has_gpu(), library()) else { return };
    let fixture = Fixture::new();
    let config = fixture.path("rig.param.yaml");
    compare(&fixture.drive(), config.to_str().unwrap(), &["rig"], &[], &library);
}
