//! Replays of real recordings through trained networks, compared with the
//! reference detections: same class, IoU of at least 0.5, one to one; every
//! score within 0.02; only what lies within 0.03 of the threshold may be
//! missed or be more. The same gate as the references' own `match.py`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common;

use std::path::Path;

use common::replay::{Run, replay};
use common::require::{Need, skip};
use common::shared_data::shared_data;
use serde_json::Value;

const MIN_IOU: f64 = 0.5;
const MAX_SCORE_DIFFERENCE: f64 = 0.02;
const NEAR_THRESHOLD: f64 = 0.03;

/// A trained network and what its reference was made with.
struct Network {
    head: &'static str,
    model: &'static str,
    score_threshold: f64,
}

const NETWORKS: [Network; 3] = [
    Network { head: "yolox", model: "yolox_nano_416", score_threshold: 0.3 },
    Network { head: "yolov5", model: "yolov5n_fp32_640", score_threshold: 0.25 },
    Network { head: "yolov8", model: "yolov8n_f32_from_qdq_640", score_threshold: 0.25 },
];

/// The cameras of the nuScenes recording and the names in their pictures.
const CAMERAS: [(&str, &str); 6] = [
    ("front", "__CAM_FRONT__"),
    ("front_right", "__CAM_FRONT_RIGHT__"),
    ("back_right", "__CAM_BACK_RIGHT__"),
    ("back", "__CAM_BACK__"),
    ("back_left", "__CAM_BACK_LEFT__"),
    ("front_left", "__CAM_FRONT_LEFT__"),
];

/// A box of a class with a score.
struct Labelled {
    class: u64,
    score: f64,
    corners: [f64; 4],
}

impl Labelled {
    fn read(value: &Value, class: &str, corners: &str) -> Self {
        let corner = |i: usize| value[corners][i].as_f64().unwrap();
        Self {
            class: value[class].as_u64().unwrap(),
            score: value["score"].as_f64().unwrap(),
            corners: std::array::from_fn(corner),
        }
    }
}

fn iou(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    let extent = |low: f64, high: f64| (high - low).max(0.0);
    let overlap = extent(a[0].max(b[0]), a[2].min(b[2])) * extent(a[1].max(b[1]), a[3].min(b[3]));
    let area = |c: &[f64; 4]| extent(c[0], c[2]) * extent(c[1], c[3]);
    overlap / (area(a) + area(b) - overlap)
}

/// What is wrong with the detections of one picture; empty when they match.
fn differences(found: &[Labelled], wanted: &[Labelled], threshold: f64) -> Vec<String> {
    let mut pairs = Vec::new();
    for (i, f) in found.iter().enumerate() {
        for (j, w) in wanted.iter().enumerate() {
            let overlap = iou(&f.corners, &w.corners);
            if f.class == w.class && overlap >= MIN_IOU {
                pairs.push((overlap, i, j));
            }
        }
    }
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut used_found, mut used_wanted) = (vec![false; found.len()], vec![false; wanted.len()]);
    let mut problems = Vec::new();
    for (_, i, j) in pairs {
        if !used_found[i] && !used_wanted[j] {
            (used_found[i], used_wanted[j]) = (true, true);
            let difference = (found[i].score - wanted[j].score).abs();
            if difference > MAX_SCORE_DIFFERENCE {
                problems.push(format!("class {} score off by {difference}", found[i].class));
            }
        }
    }
    let mut leftover = |what: &str, items: &[Labelled], used: &[bool]| {
        for (item, _) in items
            .iter()
            .zip(used)
            .filter(|(item, used)| !**used && (item.score - threshold).abs() > NEAR_THRESHOLD)
        {
            problems.push(format!("{what} class {} score {}", item.class, item.score));
        }
    };
    leftover("extra", found, &used_found);
    leftover("missed", wanted, &used_wanted);
    problems
}

/// Compares every line of a run with the reference of the picture it shows.
fn compare(run: &Run, reference: &Value, network: &Network, picture_of: impl Fn(&str) -> String) {
    let lines = run.lines();
    assert!(!lines.is_empty());
    let mut num_compared = 0;
    for line in &lines {
        let picture = picture_of(line["channel"].as_str().unwrap());
        let images = reference["images"].as_array().unwrap();
        let image =
            images.iter().find(|i| i["image"].as_str().unwrap().contains(&picture)).unwrap();
        let found: Vec<_> = line["detections_2d"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| Labelled::read(d, "class_id", "box"))
            .collect();
        let wanted: Vec<_> = image["detections"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| Labelled::read(d, "cls", "xyxy"))
            .collect();
        let problems = differences(&found, &wanted, network.score_threshold);
        assert!(problems.is_empty(), "{} {picture}: {problems:#?}", network.head);
        num_compared += wanted.len();
    }
    println!("{}: {} pictures, {num_compared} reference boxes", network.head, lines.len());
}

fn parameters(data: &Path, network: &Network, channel: &str, input: &str) -> Vec<String> {
    let model = data.join("models").join(format!("{}.onnx", network.model));
    vec![
        format!("{channel}.head:={}", network.head),
        format!("{channel}.model_path:={}", model.display()),
        format!("{channel}.input:={input}"),
        format!("{channel}.score_threshold:={}", network.score_threshold),
        format!("{channel}.nms.iou_threshold:=0.45"),
    ]
}

fn reference(data: &Path, network: &Network) -> Value {
    let path = data.join("reference").join(format!("{}.json", network.model));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The engines to test: rten always, ONNX Runtime when its library is named.
fn engines() -> Vec<Vec<String>> {
    let mut engines = vec![vec!["engine.kind:=rten".to_owned()]];
    match std::env::var("ORT_DYLIB_PATH") {
        Ok(library) => engines.push(vec![
            "engine.kind:=onnxruntime".to_owned(),
            format!("engine.library:={library}"),
        ]),
        Err(_) => skip(Need::Ort, "the half with ONNX Runtime: ORT_DYLIB_PATH is not set"),
    }
    engines
}

#[test]
fn the_kitti_camera_gives_the_reference_detections() {
    let Some(data) = shared_data() else { return };
    for network in &NETWORKS {
        for engine in engines() {
            let out = tempfile::tempdir().unwrap();
            let mut parameters = parameters(&data, network, "camera", "/sensing/camera/image_raw");
            parameters.extend(engine.iter().map(|setting| format!("camera.{setting}")));
            let bag = data.join("bags/kitti_000008_mcap");
            let run = replay(&bag, "config/camera.param.yaml", &parameters, out.path());
            run.expect_code(0);
            assert_eq!(run.lines().len(), 10);
            compare(&run, &reference(&data, network), network, |_| "kitti/000008".into());
        }
    }
}

#[test]
fn six_compressed_cameras_in_one_run_give_the_reference_detections() {
    let Some(data) = shared_data() else { return };
    for network in &NETWORKS {
        for engine in engines() {
            let out = tempfile::tempdir().unwrap();
            let mut all = Vec::new();
            for (camera, _) in CAMERAS {
                let input = format!("/camera/{camera}/image_raw/compressed");
                all.extend(parameters(&data, network, camera, &input));
                all.extend(engine.iter().map(|setting| format!("{camera}.{setting}")));
            }
            let bag = data.join("bags/nuscenes_surround_mcap");
            let run = replay(&bag, "config/surround.param.yaml", &all, out.path());
            run.expect_code(0);
            assert_eq!(run.lines().len(), 30);
            compare(&run, &reference(&data, network), network, |channel| {
                let camera = CAMERAS.iter().find(|(name, _)| *name == channel).unwrap();
                camera.1.into()
            });
        }
    }
}
