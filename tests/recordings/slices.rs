//! Slices of a recording, joined, equal a replay of the whole: the same lines, the same
//! messages with the same log times, the same counts of frames.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they ran")]

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use det_post::replay::{LogTime, Replay, ReplayFiles, ReplayOptions, Slice};
use det_post::{Config, ErrorKind};
use det_post_ros::bag::BagReader;
use det_post_sim::{Drive, ImageFormat, Options};
use det_post_types::Stamp;
use serde_json::Value;

use crate::common::replay::det_post;
use crate::common::require::{Need, skip};
use crate::common::shared_data::shared_data;
use crate::common::stand_in;

/// What a replay wrote, in a form that can be joined.
#[derive(Debug, Default, PartialEq)]
struct Results {
    lines: String,
    /// Topic, log time and payload; class tables, which every part has, are left out.
    messages: Vec<(String, Stamp, Vec<u8>)>,
    /// Frames in and out and detections, summed over the channels.
    counts: [u64; 3],
}

impl Results {
    fn join(&mut self, next: Self) {
        self.lines += &next.lines;
        self.messages.extend(next.messages);
        (0..3).for_each(|at| self.counts[at] += next.counts[at]);
    }
}

fn replay(bag: &Path, config: &Config, slice: Slice) -> Results {
    let folder = tempfile::tempdir().unwrap();
    let options = ReplayOptions { slice, ..ReplayOptions::default() };
    let replay = Replay::open(bag, config, options).unwrap();
    let mut files = ReplayFiles::create(folder.path(), &replay, 0).unwrap();
    let report = replay.run(|frame| files.write(frame)).unwrap();
    files.finish(&report).unwrap();
    assert_eq!(report.slice.is_some(), slice.from.is_some() || slice.to.is_some());
    let mut reader = BagReader::open(&folder.path().join("detections")).unwrap();
    let topics: Vec<String> = reader.topics().iter().map(|topic| topic.name.clone()).collect();
    let mut messages = Vec::new();
    while let Some(message) = reader.next_message().unwrap() {
        let topic = &topics[message.topic];
        if !topic.ends_with("label_info") {
            messages.push((topic.clone(), message.log_time, message.data.to_vec()));
        }
    }
    let channels = || report.channels.values();
    Results {
        lines: std::fs::read_to_string(folder.path().join("detections.jsonl")).unwrap(),
        messages,
        counts: [
            channels().map(|channel| channel.frames_in).sum(),
            channels().map(|channel| channel.frames_out).sum(),
            channels().map(|channel| channel.detections).sum(),
        ],
    }
}

/// Replays the parts between `cuts` and joins them.
fn joined(bag: &Path, config: &Config, cuts: &[LogTime], warm_up: Option<Duration>) -> Results {
    let bounds: Vec<_> =
        [None].into_iter().chain(cuts.iter().copied().map(Some)).chain([None]).collect();
    let mut all = Results::default();
    for bounds in bounds.windows(2) {
        all.join(replay(bag, config, Slice { from: bounds[0], to: bounds[1], warm_up }));
    }
    all
}

fn after(seconds: f64) -> LogTime {
    LogTime::AfterStart(Duration::from_secs_f64(seconds))
}

/// Some log times of messages, as cuts.
fn at_messages(bag: &Path, every: usize) -> Vec<LogTime> {
    let mut reader = BagReader::open(bag).unwrap();
    let mut times = Vec::new();
    while let Some(message) = reader.next_message().unwrap() {
        times.push(message.log_time);
    }
    times.dedup();
    times.into_iter().skip(every / 2).step_by(every).map(LogTime::At).collect()
}

#[track_caller]
fn check(bag: &Path, config: &Config, cuts: &[Vec<LogTime>]) -> Results {
    let whole = replay(bag, config, Slice::default());
    assert!(whole.counts[2] > 0, "{} gives no detections", bag.display());
    for cuts in cuts {
        let joined = joined(bag, config, cuts, None);
        assert_eq!(joined.counts, whole.counts, "{} cut at {cuts:?}", bag.display());
        assert!(joined == whole, "{} cut at {cuts:?} differs", bag.display());
    }
    whole
}

fn demo(folder: &Path, seconds: f64, models: &str, format: ImageFormat) -> (PathBuf, Config) {
    let bag = folder.join("drive");
    let drive = Drive::new(4, &Options::default()).unwrap();
    det_post_sim::record(&drive, seconds, format, &bag, &AtomicBool::new(false), &mut |_, _| {})
        .unwrap();
    let overrides = [
        "device:=cpu".to_owned(),
        format!("camera.model_path:={models}/camera.onnx"),
        format!("lidar.encoder_path:={models}/lidar_encoder.onnx"),
        format!("lidar.model_path:={models}/lidar_head.onnx"),
    ];
    let config = Config::load(&[PathBuf::from("config/demo.param.yaml")], &overrides).unwrap();
    (bag, config)
}

/// Past sweeps, the vehicle's motion and two channels. Without a warm-up the first sweeps of a
/// slice lack those before, so that the comparison can fail.
#[test]
fn slices_of_the_demo_drive_join_to_the_whole() {
    if !Path::new("models/lidar_head.onnx").is_file() {
        skip(Need::Models, "no models/lidar_head.onnx");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (bag, config) = demo(folder.path(), 1.2, "models", ImageFormat::Raw);
    let cuts = [vec![after(0.6)], vec![after(0.31), after(0.55), after(1.0)]];
    let whole = check(&bag, &config, &cuts);
    let cold = joined(&bag, &config, &cuts[0], Some(Duration::ZERO));
    assert_eq!(cold.counts[..2], whole.counts[..2]);
    assert!(cold.lines != whole.lines, "sweeps of a slice do not depend on those before it");
}

/// Cuts at and beside the log times of messages, with networks of which a frame takes little.
#[test]
fn a_cut_at_any_message_gives_every_frame_once() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    stand_in::write(&models);
    let (bag, config) = demo(folder.path(), 0.6, &models.display().to_string(), ImageFormat::Raw);
    let mut cuts: Vec<Vec<LogTime>> =
        at_messages(&bag, 7).into_iter().map(|cut| vec![cut]).collect();
    cuts.push(at_messages(&bag, 11));
    cuts.push(vec![after(0.0), after(0.3), after(100.0)]);
    check(&bag, &config, &cuts);
}

#[test]
fn the_program_replays_a_slice() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    stand_in::write(&models);
    let models = models.display().to_string();
    let (bag, config) = demo(folder.path(), 0.6, &models, ImageFormat::Raw);
    let (from, to) = (after(0.2), after(0.4));
    let slice = Slice { from: Some(from), to: Some(to), warm_up: None };
    let expected = replay(&bag, &config, slice);
    let out = folder.path().join("out").display().to_string();
    let bag = bag.display().to_string();
    let model = |key: &str, name: &str| format!("{key}:={models}/{name}.onnx");
    let [camera, encoder, head] = [
        model("camera.model_path", "camera"),
        model("lidar.encoder_path", "lidar_encoder"),
        model("lidar.model_path", "lidar_head"),
    ];
    let arguments = |bounds: &[&'static str]| {
        let mut all = vec!["replay", &bag, "--config", "config/demo.param.yaml", "--out", &out];
        all.extend(["--device", "cpu", "-p", &camera, "-p", &encoder, "-p", &head]);
        all.extend(bounds);
        det_post(&all)
    };
    arguments(&["--from", "+0.2", "--to", "+0.4"]).expect_code(0);
    let lines = std::fs::read_to_string(Path::new(&out).join("detections.jsonl")).unwrap();
    assert_eq!(lines, expected.lines);
    assert!(!lines.is_empty());
    let report = std::fs::read_to_string(Path::new(&out).join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let [start, end] = ["from_ns", "to_ns"].map(|key| report["slice"][key].as_i64().unwrap());
    assert_eq!(end - start, 200_000_000);
    // Frames out are only those of the slice, warm-up or not.
    let frames_out = report["channels"]["lidar"]["frames_out"].as_u64().unwrap();
    assert_eq!(frames_out, 2);
    for wrong in [
        &["--from", "+0.4", "--to", "+0.2"][..],
        &["--from", "1e9"],
        &["--warm-up", "1"],
        &["--from", "+0.2", "--warm-up", "-1"],
        &["--from", "+0.2", "--warm-up", "1", "--rate", "1.0"],
    ] {
        arguments(wrong).expect_code(2);
    }
}

#[test]
fn a_slice_that_ends_before_it_starts_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    stand_in::write(&models);
    let (bag, config) = demo(folder.path(), 0.2, &models.display().to_string(), ImageFormat::Raw);
    let slice = Slice { from: Some(after(0.1)), to: Some(after(0.1)), warm_up: None };
    let options = ReplayOptions { slice, ..ReplayOptions::default() };
    let error = Replay::open(&bag, &config, options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

/// Real recordings of both storages: images, clouds, poses.
#[test]
fn slices_of_shared_recordings_join_to_the_whole() {
    let Some(root) = shared_data() else { return };
    let model = root.join("models/yolox_nano_416.onnx").display().to_string();
    let camera = |topic: &str| {
        let overrides = [
            "camera.head:=yolox".to_owned(),
            format!("camera.input:={topic}"),
            format!("camera.model_path:={model}"),
            "camera.device:=cpu".to_owned(),
        ];
        Config::load(&[], &overrides).unwrap()
    };
    let lidar = |topic: &str| {
        let overrides = [
            "lidar.head:=demo_lidar".to_owned(),
            format!("lidar.input:={topic}"),
            "lidar.encoder_path:=models/lidar_encoder.onnx".to_owned(),
            "lidar.model_path:=models/lidar_head.onnx".to_owned(),
            "lidar.score_thresholds:=[0.05]".to_owned(),
            "lidar.device:=cpu".to_owned(),
        ];
        Config::load(&[], &overrides).unwrap()
    };
    for (name, config) in [
        ("kitti_000008_mcap", camera("/sensing/camera/image_raw")),
        ("nuscenes_surround_mcap", camera("/camera/front/image_raw/compressed")),
        ("waymo_5_db3", lidar("/sensing/lidar/points")),
        ("detections_pointpillars_mcap", lidar("/sensing/lidar/points")),
    ] {
        let bag = root.join("bags").join(name);
        let cuts = [at_messages(&bag, 8), vec![after(0.15), after(0.3)]];
        let whole = check(&bag, &config, &cuts);
        println!("{name}: {:?} frames in, out, detections", whole.counts);
    }
}
