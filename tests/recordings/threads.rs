//! Replays of several threads write the bytes of one: six cameras, a LiDAR sensor and a channel
//! around the vehicle, each on a thread of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use det_post::config::Config;
use det_post::replay::{Replay, ReplayFiles, ReplayOptions, Slice, Threads};
use det_post::{Error, ErrorKind};

use crate::common::stand_in;
use crate::common::surround_rig::Fixture;

const NUM_CAMERAS: usize = 6;
/// With the LiDAR sensor and the channel around the vehicle.
const NUM_CHANNELS: usize = NUM_CAMERAS + 2;

/// The drive and its channels.
fn rig() -> (Fixture, Config) {
    let fixture = Fixture::with_lidars(1);
    let models = fixture.path("models");
    stand_in::write(&models);
    let models = models.display();
    let mut parameters = vec![
        "lidar.input:=/lidar_0/points".to_owned(),
        "lidar.head:=demo_lidar".to_owned(),
        format!("lidar.encoder_path:={models}/lidar_encoder.onnx"),
        format!("lidar.model_path:={models}/lidar_head.onnx"),
    ];
    for camera in 0..NUM_CAMERAS {
        parameters.push(format!("c{camera}.input:=/camera_{camera}/image"));
        parameters.push(format!("c{camera}.head:=demo_camera"));
        parameters.push(format!("c{camera}.model_path:={models}/camera.onnx"));
    }
    let config = Config::load(&[fixture.path("rig.param.yaml")], &parameters).unwrap();
    assert_eq!(config.channels.len(), NUM_CHANNELS);
    (fixture, config)
}

/// The files that a replay wrote, its report without times, and the number of threads that
/// passed frames on.
#[derive(Debug, PartialEq)]
struct Written {
    files: BTreeMap<PathBuf, Vec<u8>>,
    report: serde_json::Value,
}

fn replay(bag: &Path, config: &Config, slice: Slice, threads: Threads) -> (Written, usize) {
    let folder = tempfile::tempdir().unwrap();
    let options = ReplayOptions { slice, threads, ..ReplayOptions::default() };
    let replay = Replay::open(bag, config, options).unwrap();
    let mut files = ReplayFiles::create(folder.path(), &replay, 1).unwrap();
    let mut callers = BTreeSet::new();
    let report = replay.run(|frame| {
        callers.insert(format!("{:?}", thread::current().id()));
        files.write(frame)
    });
    let report = report.unwrap();
    files.finish(&report).unwrap();
    let mut report = serde_json::to_value(&report).unwrap();
    for channel in report["channels"].as_object_mut().unwrap().values_mut() {
        channel.as_object_mut().unwrap().remove("stages_ms");
    }
    let mut files = BTreeMap::new();
    for part in ["", "detections", "images"] {
        for entry in std::fs::read_dir(folder.path().join(part)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder.path()).unwrap().to_owned();
            // What was written when, and the durations of stages, differ.
            let is_timed = [".det_post.jsonl", "report.json"].map(Path::new).contains(&&*name);
            if path.is_file() && !is_timed {
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    (Written { files, report }, callers.len())
}

#[test]
fn several_threads_write_the_bytes_of_one() {
    let (fixture, config) = rig();
    let bag = fixture.drive();
    let time = |text: &str| Some(text.parse().unwrap());
    let part = Slice { from: time("+0.2"), to: time("+0.45"), warm_up: None };
    for slice in [Slice::default(), part] {
        let (expected, num_callers) = replay(&bag, &config, slice, Threads::One);
        assert_eq!(num_callers, 1);
        let lines = &expected.files[Path::new("detections.jsonl")];
        assert!(lines.iter().filter(|byte| **byte == b'\n').count() > 2 * NUM_CHANNELS);
        let (found, num_callers) = replay(&bag, &config, slice, Threads::PerChannel);
        assert_eq!(num_callers, NUM_CHANNELS);
        assert_eq!(found.report, expected.report);
        assert!(found.files.keys().eq(expected.files.keys()));
        for (name, bytes) in &expected.files {
            assert!(found.files[name] == *bytes, "{} differs", name.display());
        }
    }
    // All are on the CPU.
    let (found, num_callers) = replay(&bag, &config, part, Threads::PerGpu);
    assert!(num_callers == 1 && found.files.len() > 3);
}

#[test]
fn several_threads_end_where_the_caller_says() {
    let (fixture, config) = rig();
    let open = |stop: &Arc<AtomicBool>| {
        let (stop, threads) = (Arc::clone(stop), Threads::PerChannel);
        let options = ReplayOptions { stop, threads, ..ReplayOptions::default() };
        Replay::open(&fixture.drive(), &config, options).unwrap()
    };
    let stop = Arc::new(AtomicBool::new(false));
    for num_allowed in [0, 1, 7, 20] {
        let mut num_calls = 0;
        let ended = open(&stop).run(|_| {
            num_calls += 1;
            let full = || Error::new(ErrorKind::Io, "test", "the disk is full");
            if num_calls > num_allowed { Err(full()) } else { Ok(()) }
        });
        let error = ended.unwrap_err();
        assert_eq!((error.message(), num_calls), ("the disk is full", num_allowed + 1));
    }
    let whole = open(&stop).run(|_| Ok(())).unwrap();
    let mut numbers = [0; NUM_CHANNELS];
    let report = open(&stop).run(|frame| {
        // Of each channel all frames up to its last.
        assert_eq!(frame.number, numbers[frame.channel]);
        numbers[frame.channel] += 1;
        stop.store(true, Ordering::Relaxed);
        Ok(())
    });
    let report = report.unwrap();
    assert!(report.is_interrupted() && !whole.is_interrupted());
    let num_passed: u64 = report.channels.values().map(|channel| channel.frames_in).sum();
    assert_eq!(num_passed, numbers.iter().sum::<u64>());
    assert!((1..=2 * NUM_CHANNELS as u64).contains(&num_passed), "{num_passed}");
    let panicked = std::panic::catch_unwind(|| {
        open(&Arc::default()).run(|frame| {
            assert!(frame.channel != 5, "on purpose");
            Ok(())
        })
    });
    assert!(panicked.is_err());
}
