//! The demo from end to end with networks that know nothing, and the guard of
//! the trained ones where they are there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::replay::{det_post, replay_at};
use common::require::{Need, skip};
use common::stand_in;
use det_post_ros::bag::BagReader;
use serde_json::{Value, json};

/// What the guard compares with.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/regression.json");

/// How far below the recorded value mAP may fall.
const TOLERANCE: f64 = 0.02;

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_demo_makes_everything_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    stand_in::write(&models);
    let out = folder.path().join("demo");
    let [models, out_text] = [&models, &out].map(|path| path.display().to_string());
    let arguments = ["demo", "--seconds", "0.6", "--models", &models, "--out", &out_text];
    let run = det_post(&arguments);
    run.expect_code(0);
    for part in [
        "within 50 m",
        "expected calibration error",
        "p95",
        "drive.gif",
        "found   camera: ",
        "frames per second",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    for file in [
        "drive/metadata.yaml",
        "drive/drive_0.mcap",
        "detections/metadata.yaml",
        "detections.jsonl",
        "report.json",
        "report.html",
        "eval.json",
        "demo.param.yaml",
        "figures/lidar_precision_recall.png",
        "figures/camera_calibration.png",
        "images/drive.gif",
    ] {
        assert!(out.join(file).is_file(), "{file}");
    }
    for (file, size) in
        // Below the camera's image is a legend.
        [("camera", (1280, 720 + 38)), ("birds_eye", (1000, 1000)), ("drive", (640, 640))]
    {
        let path = out.join("images").join(file).with_extension("png");
        let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
        assert_eq!(png::Decoder::new(file).read_info().unwrap().info().size(), size);
    }
    a_replay_holds_what_its_layout_shows(&out);
    let figures = json_of(&out.join("eval.json"));
    let sensors = figures["sensors"].as_array().unwrap();
    assert_eq!(sensors.len(), 2);
    for sensor in sensors {
        assert!(sensor["num_frames"].as_u64().unwrap() > 0, "{sensor}");
        assert_eq!(sensor["num_truth_frames_without_detections"], 0);
        assert_eq!(sensor["num_detection_frames_without_truth"], 0);
    }
    let report = json_of(&out.join("report.json"));
    for channel in ["camera", "lidar"] {
        let channel = &report["channels"][channel];
        assert_eq!(channel["frames_in"], channel["frames_out"], "{report}");
        assert!(channel["detections"].as_u64().unwrap() > 0, "{report}");
    }
    a_pace_that_is_too_fast_drops_and_says_so(&out, &report);
}

/// The drive and its detections together have every topic of the layout for replays.
fn a_replay_holds_what_its_layout_shows(demo: &Path) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/det_post_replay.foxglove.json");
    let view = json_of(Path::new(path));
    let panels = &view["configById"];
    let image = &panels["Image!camera"]["imageMode"];
    let mut shown = vec![image["imageTopic"].as_str().unwrap()];
    for topics in [&panels["3D!detections"]["topics"], &image["annotations"]] {
        shown.extend(topics.as_object().unwrap().keys().map(String::as_str));
    }
    assert_eq!(shown.len(), 4);
    let topics = ["drive", "detections"].map(|bag| {
        let mut reader = BagReader::open(&demo.join(bag)).unwrap();
        let mut num_messages = BTreeMap::new();
        let names: Vec<String> = reader.topics().iter().map(|t| t.name.clone()).collect();
        while let Some(message) = reader.next_message().unwrap() {
            *num_messages.entry(names[message.topic].clone()).or_insert(0) += 1;
        }
        num_messages
    });
    for topic in shown {
        assert!(topics.iter().any(|of| of.get(topic).is_some_and(|num| *num > 0)), "{topic}");
    }
}

/// The demo's parameter file replays its drive at a pace nobody can keep: every
/// frame is served or overtaken, the last is served.
fn a_pace_that_is_too_fast_drops_and_says_so(demo: &Path, at_full_speed: &Value) {
    let [bag, parameters] = ["drive", "demo.param.yaml"].map(|name| demo.join(name));
    let run = replay_at(&bag, parameters.to_str().unwrap(), "1000", &demo.join("paced"));
    run.expect_code(0);
    let (report, lines) = (run.report(), run.lines());
    let mut num_overtaken = 0;
    for channel in ["camera", "lidar"] {
        let count = |report: &Value, key: &str| report["channels"][channel][key].as_u64().unwrap();
        assert_eq!(count(&report, "frames_in"), count(at_full_speed, "frames_in"), "{report}");
        let overtaken = &report["channels"][channel]["dropped"]["overtaken"]["count"];
        let overtaken = overtaken.as_u64().unwrap_or(0);
        assert_eq!(count(&report, "frames_out") + overtaken, count(&report, "frames_in"));
        num_overtaken += overtaken;
        let of_channel: Vec<&Value> =
            lines.iter().filter(|line| line["channel"] == channel).collect();
        assert_eq!(of_channel.len() as u64, count(&report, "frames_out"));
        let stamps: Vec<_> = of_channel.iter().map(|line| line["stamp_ns"].as_i64()).collect();
        assert!(stamps.is_sorted(), "{stamps:?}");
    }
    assert!(num_overtaken > 0, "{report}");
    assert!(run.stdout.contains("overtaken: a newer message came before its turn"));
}

#[test]
fn the_surround_demo_shows_all_cameras_and_the_view_from_above() {
    if !Path::new(env!("CARGO_MANIFEST_DIR")).join("models/surround_backbone.onnx").is_file() {
        skip(Need::Models, "no models/surround_backbone.onnx");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("demo");
    let text = out.display().to_string();
    let run = det_post(&["demo", "--surround", "--seconds", "0.4", "--out", &text]);
    run.expect_code(0);
    assert!(run.stdout.contains("objects from 12 px, 50% seen, within 50 m"), "{}", run.stdout);
    let size_of = |name: &str| {
        let file = std::fs::File::open(out.join("images").join(name)).unwrap();
        let reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().unwrap();
        reader.info().size()
    };
    // Three by two images of 640x360, and a square beside them.
    assert_eq!(size_of("surround.png"), (3 * 640 + 720, 720));
    assert_eq!(size_of("drive.png"), (640, 640));
    let report = json_of(&out.join("report.json"));
    let channel = &report["channels"]["surround"];
    // Of the first frame the calibrations come after the images.
    assert_eq!((&channel["frames_in"], &channel["frames_out"]), (&json!(4), &json!(3)), "{report}");
    assert!(channel["detections"].as_u64().unwrap() > 10, "{report}");
    let figures = json_of(&out.join("eval.json"));
    let sensor = &figures["sensors"][0];
    assert_eq!(sensor["truth"], "/truth/surround");
    assert_eq!((&sensor["counted_by"], &sensor["num_frames"]), (&json!("pixels"), &json!(3)));
    // Chance would find nothing.
    assert!(sensor["map"].as_f64().unwrap() > 0.3, "{sensor}");
}

#[test]
fn the_demo_with_masks_evaluates_and_draws_them() {
    if !Path::new(env!("CARGO_MANIFEST_DIR")).join("models/camera_seg.onnx").is_file() {
        skip(Need::Models, "no models/camera_seg.onnx");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("demo");
    let text = out.display().to_string();
    let run = det_post(&["demo", "--masks", "--seconds", "0.6", "--out", &text]);
    run.expect_code(0);
    assert!(run.stdout.contains("mask AP"), "{}", run.stdout);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for part in ["<dt>mask AP50</dt>", "<button>mask AP75</button>"] {
        assert!(page.contains(part), "{part}");
    }
    let figures = json_of(&out.join("eval.json"));
    let sensors = figures["sensors"].as_array().unwrap();
    let camera = sensors.iter().find(|sensor| sensor["sensor"] == "camera").unwrap();
    // Chance would find nothing.
    assert!(camera["mean"]["masks"]["ap50"].as_f64().unwrap() > 0.5, "{}", camera["mean"]);
    for (bag, topic) in [("drive", "/truth/camera_0/instances"), ("drive", "/camera_0/image")] {
        let reader = BagReader::open(&out.join(bag)).unwrap();
        assert!(reader.topics().iter().any(|found| found.name == topic), "{topic}");
    }
    assert!(out.join("images/camera.png").is_file());
}

#[test]
fn a_demo_without_networks_says_where_it_looked() {
    let folder = tempfile::tempdir().unwrap();
    let [models, out] =
        ["models", "out"].map(|name| folder.path().join(name).display().to_string());
    let run = det_post(&["demo", "--models", &models, "--out", &out]);
    run.expect_code(2);
    assert!(run.stderr.contains("looked into") && run.stderr.contains(&models), "{}", run.stderr);
}

fn replay_in_background(config: &str, channels: &[&str], more: &[&str], out: &str) -> Child {
    let engines = channels.iter().flat_map(|channel| {
        let [kind, threads] =
            ["kind:=rten", "threads:=1"].map(|value| format!("{channel}.engine.{value}"));
        ["-p".to_owned(), kind, "-p".to_owned(), threads]
    });
    Command::new(env!("CARGO_BIN_EXE_det_post"))
        .args(["replay", "--config", config, "--device", "cpu", "--out", out])
        .args(engines)
        .args(more)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("ORT_DYLIB_PATH")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A drive that no network was trained on through the networks of a parameter file, its first
/// second twice: the same bytes, and what `eval` says of the whole.
fn figures_of(config: &str, channels: &[&str], simulate: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (bag, figures) = (path("drive"), path("eval.json"));
    det_post(&[&["simulate", "--out", &bag], simulate].concat()).expect_code(0);
    let runs =
        [("whole", &[&bag[..]][..]), ("start", &[&bag, "--to", "+1"])].map(|(name, more)| {
            (path(name), replay_in_background(config, channels, more, &path(name)))
        });
    let [whole, start] = runs.map(|(out, mut child)| {
        assert!(child.wait().unwrap().success(), "{out}");
        std::fs::read(format!("{out}/detections.jsonl")).unwrap()
    });
    assert!(!start.is_empty() && whole.starts_with(&start), "two replays say different things");
    det_post(&["eval", "--detections", &path("whole"), "--truth", &bag, "--json", &figures])
        .expect_code(0);
    json_of(Path::new(&figures))
}

/// The regression guard. `DET_POST_RECORD=1` writes what it finds to
/// tests/data/regression.json.
#[test]
fn the_trained_networks_stay_as_good_and_say_the_same_twice() {
    if !Path::new(env!("CARGO_MANIFEST_DIR")).join("models/camera.onnx").is_file() {
        skip(Need::Models, "no models/camera.onnx");
        return;
    }
    let recorded = json_of(Path::new(RECORDED));
    let number = |key: &str| recorded[key].to_string();
    let (seed, seconds, voxel_seconds) =
        (number("seed"), number("seconds"), number("voxel_seconds"));
    let mut found = recorded.clone();
    let both = ["camera", "lidar"];
    let masks = ["--lidars", "0", "--masks"];
    // Frames of six cameras half a second apart, without a LiDAR.
    let rig = ["--lidars", "0", "--image-size", "640x360", "--camera-rate", "2"];
    for (config, channels, seconds, num_cameras, more, prefix) in [
        ("config/demo.param.yaml", &both[..], &seconds, "1", &[][..], ""),
        // A second of the same drive, only the LiDAR.
        ("config/demo_voxel.param.yaml", &both[..], &voxel_seconds, "0", &[][..], "voxel_"),
        // The same second, only the camera with masks.
        ("config/demo_masks.param.yaml", &both[..], &voxel_seconds, "1", &masks[..], "seg_"),
        (
            "config/demo_surround_3d.param.yaml",
            &["surround"][..],
            &seconds,
            "6",
            &rig[..],
            "surround_",
        ),
    ] {
        let drive = ["--seed", &seed, "--seconds", seconds, "--cameras", num_cameras];
        let figures = figures_of(config, channels, &[&drive[..], more].concat());
        for sensor in figures["sensors"].as_array().unwrap() {
            let key = format!("{prefix}{}_map", sensor["sensor"].as_str().unwrap());
            println!("{key} {} (recorded {})", sensor["map"], recorded[&key]);
            found[&key] = json!(sensor["map"].as_f64().unwrap());
            if let Some(of_masks) = sensor["mean"]["masks"]["ap"].as_f64() {
                println!("seg_mask_map {of_masks} (recorded {})", recorded["seg_mask_map"]);
                found["seg_mask_map"] = json!(of_masks);
            }
        }
    }
    if std::env::var_os("DET_POST_RECORD").is_some() {
        let text = serde_json::to_string_pretty(&found).unwrap();
        std::fs::write(RECORDED, text + "\n").unwrap();
        println!("recorded in {RECORDED}");
        return;
    }
    for key in [
        "lidar_map",
        "camera_map",
        "voxel_lidar_map",
        "surround_lidar_map",
        "seg_camera_map",
        "seg_mask_map",
    ] {
        let wanted = recorded[key]
            .as_f64()
            .unwrap_or_else(|| panic!("{key}: run once with DET_POST_RECORD=1"));
        let got = found[key].as_f64().unwrap();
        assert!(got >= wanted - TOLERANCE, "{key} fell from {wanted} to {got}");
    }
}
