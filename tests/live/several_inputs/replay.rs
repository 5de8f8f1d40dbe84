//! Replays of the rig: what is served, what is lost and where it is counted.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use det_post::replay::{LogTime, Rate, Replay, ReplayFiles, ReplayOptions, Slice};
use det_post::runtime::Factory;
use det_post::runtime::isolated::Proxy;
use det_post::{Detector, Error, ErrorKind, FrameInput, FrameSet};
use det_post_ros::bag::BagReader;
use det_post_types::{
    CameraCalibration, DeviceChoice, Encoding, FrameReport, Header, ImagePayload, ImageView, Size,
    Stage, Stamp,
};
use serde_json::Value;

use super::rig::{self, NUM_INCOMPLETE, NUM_SERVED};
use super::stub;

/// Replays the rig; gives the report and the lines of its detections.
fn replay(name: &str, second: &'static str, folder: &Path, factory: Factory) -> (Value, String) {
    let (bag, out) = (folder.join("rig"), folder.join("out"));
    let _ = std::fs::remove_dir_all(&bag);
    rig::record(second, &bag);
    let _ = std::fs::remove_dir_all(&out);
    let options = ReplayOptions { factory, ..ReplayOptions::default() };
    let replay = Replay::open(&bag, &rig::config(name), options).unwrap();
    let mut files = ReplayFiles::create(&out, &replay, 0).unwrap();
    let report = replay.run(|frame| files.write(frame)).unwrap();
    files.finish(&report).unwrap();
    let report = std::fs::read_to_string(out.join("report.json")).unwrap();
    let lines = std::fs::read_to_string(out.join("detections.jsonl")).unwrap();
    (serde_json::from_str(&report).unwrap(), lines)
}

/// The messages of a channel's detections in the recording of a replay.
pub fn recorded(folder: &Path, topic: &str) -> Vec<Vec<u8>> {
    let mut reader = BagReader::open(&folder.join("out/detections")).unwrap();
    reader.select(&[topic]);
    let mut messages = Vec::new();
    while let Some(message) = reader.next_message().unwrap() {
        messages.push(message.data.to_vec());
    }
    messages
}

/// The detections that a replay in this process records.
pub fn expected(name: &str, second: &'static str, topic: &str) -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    replay(name, second, folder.path(), Arc::new(stub::open));
    recorded(folder.path(), topic)
}

fn check(name: &str, second: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let (report, lines) = replay(name, second, folder.path(), Arc::new(stub::open));
    let channel = &report["channels"][name];
    println!("{channel:#}");
    assert_eq!(channel["frames_in"], NUM_SERVED + NUM_INCOMPLETE);
    assert_eq!(channel["frames_out"], NUM_SERVED);
    assert_eq!(channel["dropped"]["incomplete_views"]["count"], NUM_INCOMPLETE);
    let first = channel["dropped"]["incomplete_views"]["first"].as_str().unwrap();
    assert!(first.contains(&format!("missing: {second}")), "{first}");
    assert_eq!(channel["stamps"]["restart"], 1);
    let [reference, other] = [0, 1].map(|input| &channel["inputs"][input]);
    assert_eq!((&reference["topic"], &other["topic"]), (&rig::CAMERA.into(), &second.into()));
    // Of the twelve, one jumps back before the other does.
    assert_eq!((&reference["received"], &reference["unused"]), (&11.into(), &0.into()));
    assert_eq!(reference["refused"]["stamp_not_newer"]["count"], 1);
    // One is missing; one is late, and one follows the jump without a frame.
    assert_eq!((&other["received"], &other["unused"]), (&11.into(), &2.into()));
    assert_eq!(other["refused"]["stamp_not_newer"]["count"], 1);
    // After the restart the detector has forgotten the frames before.
    let scores: Vec<f64> = lines
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let boxes = line["detections_2d"].as_array().or(line["detections_3d"].as_array());
            boxes.unwrap()[0]["score"].as_f64().unwrap()
        })
        .collect();
    assert_eq!(scores.iter().filter(|score| **score == 1.0).count(), 2, "{scores:?}");
    assert_eq!((scores.len() as u64, scores[7]), (NUM_SERVED, 1.0), "{scores:?}");

    // Again, and in a process of its own: the same bytes.
    let bytes = recorded(folder.path(), &rig::config(name).channels[0].output);
    assert_eq!(bytes.len() as u64, NUM_SERVED);
    let program = stub::program(folder.path());
    let apart: Factory =
        Arc::new(move |config, device| Ok(Box::new(Proxy::start(&program, config, device)?)));
    for factory in [Arc::new(stub::open) as Factory, apart] {
        let (again, same) = replay(name, second, folder.path(), factory);
        assert_eq!(same, lines);
        assert_eq!(recorded(folder.path(), &rig::config(name).channels[0].output), bytes);
        for key in ["frames_in", "dropped", "stamps", "inputs", "detections"] {
            assert_eq!(again["channels"][name][key], channel[key], "{key}");
        }
    }
}

#[test]
fn two_cameras_meet_in_a_replay() {
    check("cameras", rig::OTHER_CAMERA);
}

#[test]
fn a_camera_and_a_lidar_with_its_pose_meet_in_a_replay() {
    check("fused", rig::LIDAR);
    // The focal length is the length of the first box, x of the pose of the second.
    let folder = tempfile::tempdir().unwrap();
    let (_, lines) = replay("fused", rig::LIDAR, folder.path(), Arc::new(stub::open));
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["detections_3d"][0]["size"][0], rig::FOCAL_LENGTH, "{line}");
        assert_eq!(line["detections_3d"][1]["size"][0], 7.5, "{line}");
        assert_eq!(line["detections_3d"][1]["center"][2], 10_000.0, "{line}");
    }
}

fn open(folder: &Path, options: ReplayOptions) -> det_post::Result<Replay> {
    rig::record(rig::OTHER_CAMERA, &folder.join("rig"));
    let factory: Factory = Arc::new(stub::open);
    let options = ReplayOptions { factory, ..options };
    Replay::open(&folder.join("rig"), &rig::config("cameras"), options)
}

#[test]
fn every_frame_is_passed_on_with_its_detections_or_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let replay = open(folder.path(), ReplayOptions::default()).unwrap();
    let names: Vec<_> = replay.channels().map(|channel| channel.name.clone()).collect();
    assert_eq!(names, ["cameras"]);
    let num_messages = replay.num_messages().unwrap();
    let (mut numbers, mut reasons, mut num_detections, mut num_read) = (vec![], vec![], 0, 0);
    let report = replay.run(|frame| {
        assert_eq!((frame.channel, &*frame.config.name), (0, "cameras"));
        numbers.push(frame.number);
        num_read = frame.num_messages_read;
        match &frame.result {
            Ok(found) => {
                num_detections += found.detections.len() as u64;
                assert_eq!(found.header.stamp, found.inputs.stamp);
                assert_eq!(found.inputs.inputs.len(), 2);
                assert!(found.log_time >= found.header.stamp && found.degraded.is_none());
                assert!(found.report.duration(Stage::Total).is_some());
            }
            Err(error) => reasons.push(error.kind().reason()),
        }
        Ok(())
    });
    let report = report.unwrap();
    assert_eq!(numbers, (0..NUM_SERVED + NUM_INCOMPLETE).collect::<Vec<_>>());
    assert_eq!(reasons, ["incomplete_views"; NUM_INCOMPLETE as usize]);
    let channel = &report.channels["cameras"];
    assert_eq!((channel.frames_out, channel.detections), (NUM_SERVED, num_detections));
    assert_eq!((report.read.num_messages, num_read), (num_messages, num_messages));
    assert!(!report.is_interrupted() && !report.is_damaged());
}

#[test]
fn a_paced_replay_prepares_messages_while_their_frames_wait() {
    let folder = tempfile::tempdir().unwrap();
    rig::record(rig::OTHER_CAMERA, &folder.path().join("rig"));
    let run = |rate| {
        let prepared = stub::Prepared::default();
        let options =
            ReplayOptions { rate, factory: stub::preparing(&prepared), ..ReplayOptions::default() };
        let bag = folder.path().join("rig");
        let replay = Replay::open(&bag, &rig::config("cameras"), options).unwrap();
        let mut in_frames = Vec::new();
        let report = replay.run(|frame| {
            let inputs = frame.result.as_ref().map_or(&[][..], |found| found.inputs.inputs);
            in_frames.extend(inputs.iter().flatten().map(|input| input.header.stamp));
            Ok(())
        });
        assert_eq!(report.unwrap().channels["cameras"].dropped.get("inference_failed"), None);
        let prepared = prepared.lock().unwrap().clone();
        (prepared, in_frames)
    };
    let (prepared, in_frames) = run(Rate::Factor(1.0));
    assert!(prepared.iter().any(|(_, stamp)| in_frames.contains(stamp)), "{prepared:?}");
    for (index, message) in prepared.iter().enumerate() {
        assert!(!prepared[..index].contains(message), "{message:?} twice");
    }
    // Otherwise a frame follows its last message at once.
    assert_eq!(run(Rate::Max).0, []);
}

#[test]
fn a_message_is_prepared_in_the_process_of_its_detector() {
    let folder = tempfile::tempdir().unwrap();
    let config = rig::config("cameras").channels.remove(0);
    let program = stub::program(folder.path());
    let mut proxy = Proxy::start(&program, &config, DeviceChoice::Cpu).unwrap();
    assert!(proxy.info().prepares);
    let pixels = [7, 8, 9, 10];
    let image = ImageView::new(Size::new(2, 2), 2, Encoding::Mono8, false, &pixels).unwrap();
    let header = Header { stamp: Stamp::from_nanos(-5), frame_id: "front" };
    let calibration = CameraCalibration { intrinsics: [1.5; 9], ..CameraCalibration::default() };
    let mut message = FrameInput::image(header, ImagePayload::Raw(image));
    message.calibration = Some(&calibration);
    for _ in 0..2 {
        let error = proxy.prepare(1, &message).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Inference);
        let expected = r#"prepared (1, -5, "front", [7, 8, 9, 10], Some(1.5))"#;
        assert!(error.message().contains(expected), "{error}");
    }
    // The detector goes on.
    let inputs = [Some(FrameInput::image(header, ImagePayload::Raw(image))), None];
    let frame = FrameSet { stamp: header.stamp, inputs: &inputs, target_pose: None };
    assert_eq!(proxy.detect(&frame, &mut FrameReport::new()).unwrap().len(), 2);
}

#[test]
fn a_replay_ends_where_its_caller_says() {
    let folder = tempfile::tempdir().unwrap();
    let replay = open(folder.path(), ReplayOptions::default()).unwrap();
    let mut num_frames = 0;
    let error = replay.run(|_| {
        num_frames += 1;
        let full = || Error::new(ErrorKind::Io, "test", "the disk is full");
        if num_frames < 3 { Ok(()) } else { Err(full()) }
    });
    assert_eq!((error.unwrap_err().message(), num_frames), ("the disk is full", 3));

    let folder = tempfile::tempdir().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let options = ReplayOptions { stop: Arc::clone(&stop), ..ReplayOptions::default() };
    let replay = open(folder.path(), options).unwrap();
    let report = replay.run(|frame| {
        stop.store(frame.number == 2, Ordering::Relaxed);
        Ok(())
    });
    let report = report.unwrap();
    assert!(report.is_interrupted() && report.read.num_messages > 0);
    assert!(report.channels["cameras"].frames_in < NUM_SERVED, "{report:?}");

    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let folder = tempfile::tempdir().unwrap();
        let options = ReplayOptions { rate: Rate::Factor(factor), ..ReplayOptions::default() };
        let error = open(folder.path(), options).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    }
}

/// Everything that the closure receives, in a form that can be compared.
fn passed_on(bag: &Path, name: &str, slice: Slice) -> (Vec<String>, [u64; 2]) {
    let options =
        ReplayOptions { factory: Arc::new(stub::open), slice, ..ReplayOptions::default() };
    let replay = Replay::open(bag, &rig::config(name), options).unwrap();
    let mut frames = Vec::new();
    let report = replay
        .run(|frame| {
            frames.push(match &frame.result {
                Ok(found) => format!("{} {:?}", found.log_time, found.detections),
                Err(error) => error.to_string(),
            });
            Ok(())
        })
        .unwrap();
    let channel = &report.channels[name];
    let received = channel.inputs.iter().map(|input| input.totals.num_received).sum();
    (frames, [channel.frames_in, received])
}

/// Frames that wait for a message or their deadline, refused messages, a restart of the clock,
/// and calibrations and static poses that precede every image: wherever the cut is.
#[test]
fn slices_of_several_inputs_join_to_the_whole() {
    for (name, second) in [("cameras", rig::OTHER_CAMERA), ("fused", rig::LIDAR)] {
        let folder = tempfile::tempdir().unwrap();
        let bag = folder.path().join("rig");
        rig::record(second, &bag);
        let (whole, counts) = passed_on(&bag, name, Slice::default());
        let mut cuts: Vec<i64> =
            rig::messages(second).iter().map(|message| message.at.nanos()).collect();
        // Around each message, and around the deadline of a frame that it opens.
        let beside = |at: i64| [at, at + 1, at + 60_000_000, at + 150_000_000, at + 150_000_001];
        cuts = cuts.into_iter().flat_map(beside).collect();
        for cut in cuts {
            let at = Some(LogTime::At(Stamp::from_nanos(cut)));
            // The stub remembers all frames before, as a network with a memory does.
            let warm_up = Some(Duration::from_secs(1000));
            let (mut joined, first) = passed_on(&bag, name, Slice { to: at, ..Slice::default() });
            let (rest, second) = passed_on(&bag, name, Slice { from: at, to: None, warm_up });
            joined.extend(rest);
            assert_eq!(joined, whole, "{name} cut at {cut}");
            assert_eq!([0, 1].map(|of| first[of] + second[of]), counts, "{name} cut at {cut}");
        }
        // A cut in a quiet time, far behind the calibration and the pose.
        let quiet = Some(LogTime::At(Stamp::from_nanos(104_300_000_000)));
        let slice = Slice { from: quiet, to: None, warm_up: Some(Duration::ZERO) };
        let (rest, _) = passed_on(&bag, name, slice);
        assert_eq!(rest.len(), 1, "{rest:?}");
        // Except for the scores, which count the frames that the stub remembers.
        let without_scores = |text: &str| -> Vec<String> {
            text.split(", ").filter(|part| !part.starts_with("score")).map(str::to_owned).collect()
        };
        let last = whole.last().unwrap();
        assert_eq!(without_scores(&rest[0]), without_scores(last), "{name}");
    }
}
