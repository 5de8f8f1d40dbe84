//! Replays of cameras whose network runs once for the frames of all: the same detections as of
//! each camera alone.

use std::path::Path;

use det_post::ErrorKind;
use det_post::config::Config;
use det_post::replay::{Replay, ReplayOptions};
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{Image, definition};
use det_post_types::{Detection2d, Detections, Stamp};

use crate::common::{camera_net, require, session};

const NUM_CAMERAS: usize = 6;
const NUM_FRAMES: i32 = 5;
/// A camera without a picture in one frame, and one whose picture is damaged in another.
const MISSING: (i32, usize) = (2, 4);
const DAMAGED: (i32, usize) = (3, 1);

/// Pictures of six cameras in turn, each different, and of a seventh, `/alone`.
fn record(folder: &Path) {
    let mut bag = BagWriter::create(folder, BagCompression::None).unwrap();
    let text = definition(Image::TYPE).unwrap();
    let mut add = |name: &str| bag.add_topic(name, Image::TYPE, &text, OfferedQos::default());
    let topics: Vec<usize> = (0..NUM_CAMERAS).map(|n| add(&format!("/c{n}")).unwrap()).collect();
    let alone = add("/alone").unwrap();
    for frame in 1..=NUM_FRAMES {
        for (camera, topic) in topics.iter().enumerate() {
            let at = Stamp::from_ros(frame, camera as u32);
            if (frame, camera) == MISSING {
                continue;
            }
            let cdr = shifted(at, 40 * camera + 7 * frame as usize);
            let len = if (frame, camera) == DAMAGED { 300 } else { cdr.len() };
            bag.write(*topic, at, &cdr[..len]).unwrap();
            // In the middle of a batch.
            if camera == 2 && frame == 4 {
                bag.write(alone, at, &cdr).unwrap();
            }
        }
    }
    bag.finish().unwrap();
}

/// The sample's picture, its rows rotated by a number of bytes.
fn shifted(stamp: Stamp, num_bytes: usize) -> Vec<u8> {
    let cdr = session::picture(stamp);
    let mut image = Image::decode(&cdr).unwrap();
    let mut data = image.data.to_vec();
    for row in data.chunks_mut(image.step as usize) {
        row.rotate_left(3 * num_bytes);
    }
    image.data = &data;
    let mut shifted = vec![];
    image.encode(&mut shifted).unwrap();
    shifted
}

/// A frame as it was passed on: channel, number, and stamp, time and boxes or the reason.
type Passed = (String, u64, Result<(i64, i64, Vec<Detection2d>), String>);

struct Run {
    frames: Vec<Passed>,
    report: serde_json::Value,
    engines: Vec<String>,
}

fn parameters(model: &Path, engine: &str, is_batched: bool) -> Vec<String> {
    let names = (0..NUM_CAMERAS).map(|n| format!("c{n}")).chain(["alone".to_owned()]);
    let mut parameters = vec!["device:=cpu".to_owned()];
    for name in names {
        parameters.push(format!("{name}.input:=/{name}"));
        let head = session::sample().join("heads/blobs_yolov8.yaml");
        parameters.push(format!("{name}.head:={}", head.display()));
        parameters.push(format!("{name}.model_path:={}", model.display()));
        parameters.push(format!("{name}.engine.kind:={engine}"));
        parameters.push(format!("{name}.engine.threads:=1"));
        if is_batched && !["c0", "alone"].contains(&name.as_str()) {
            parameters.push(format!("{name}.batch_with:=c0"));
        }
    }
    parameters
}

fn replay(bag: &Path, parameters: &[String]) -> det_post::Result<Run> {
    let config = Config::load(&[], parameters).unwrap();
    let mut frames = vec![];
    let report = Replay::open(bag, &config, ReplayOptions::default())?.run(|frame| {
        let result = match &frame.result {
            Ok(found) => {
                let Detections::Boxes2d(boxes) = found.detections else { panic!() };
                Ok((found.header.stamp.nanos(), found.log_time.nanos(), boxes.to_vec()))
            }
            Err(error) => Err(error.to_string()),
        };
        frames.push((frame.config.name.clone(), frame.number, result));
        Ok(())
    })?;
    let mut report = serde_json::to_value(report).unwrap();
    let mut engines = vec![];
    for channel in report["channels"].as_object_mut().unwrap().values_mut() {
        let channel = channel.as_object_mut().unwrap();
        channel.remove("stages_ms");
        engines.push(channel.remove("engine").unwrap().as_str().unwrap().to_owned());
    }
    Ok(Run { frames, report, engines })
}

/// Compares six cameras in one batch with six alone.
fn check(engine: &str) {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    record(&bag);
    let model = session::sample().join("models/blobs_yolov8.onnx");
    let alone = replay(&bag, &parameters(&model, engine, false)).unwrap();
    let num = NUM_FRAMES as usize * NUM_CAMERAS;
    assert_eq!(alone.frames.len(), num);
    assert!(alone.engines.iter().all(|engine| !engine.contains("batch")), "{:?}", alone.engines);
    let boxes = |passed: &Passed| passed.2.as_ref().map_or(0, |found| found.2.len());
    assert!(alone.frames.iter().map(boxes).sum::<usize>() > 3 * num, "too few boxes");
    let dropped: Vec<_> = alone.frames.iter().filter(|frame| frame.2.is_err()).collect();
    assert!(dropped.len() == 1 && dropped[0].0 == format!("c{}", DAMAGED.1), "{dropped:?}");

    let batched = replay(&bag, &parameters(&model, engine, true)).unwrap();
    let num_batched = batched.engines.iter().filter(|name| name.ends_with("a batch of 6")).count();
    assert_eq!(num_batched, NUM_CAMERAS, "{:?}", batched.engines);
    assert_eq!(batched.frames.len(), num);
    for (found, expected) in batched.frames.iter().zip(&alone.frames) {
        assert_eq!(found, expected);
    }
    assert_eq!(batched.report, alone.report);
    // No clock decides which frames are a batch.
    let again = replay(&bag, &parameters(&model, engine, true)).unwrap();
    assert_eq!(again.frames, batched.frames);

    // A network of exactly six pictures can run in no other way.
    let six = folder.path().join("six.onnx");
    camera_net::graph_of(NUM_CAMERAS as i64).save(&six).unwrap();
    let mut only_batched = parameters(&six, engine, true);
    only_batched.retain(|parameter| !parameter.starts_with("alone."));
    let fixed = replay(&bag, &only_batched).unwrap();
    let expected = alone.frames.iter().filter(|frame| frame.0 != "alone");
    assert!(fixed.frames.iter().eq(expected));
}

#[test]
fn six_cameras_in_one_batch_find_what_each_finds_alone() {
    check("rten");
}

#[test]
fn so_do_six_cameras_in_one_batch_of_onnx_runtime() {
    if std::env::var_os("ORT_DYLIB_PATH").is_none() {
        require::skip(require::Need::Ort, "ORT_DYLIB_PATH names no library");
        return;
    }
    check("onnxruntime");
}

#[test]
fn a_network_whose_batch_is_fixed_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("drive");
    record(&bag);
    let one = folder.path().join("one.onnx");
    camera_net::graph_of(1).save(&one).unwrap();
    let error = replay(&bag, &parameters(&one, "rten", true)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Model);
    for word in ["batch of 6", "images f32 [1, 3, 320, 320]", "dynamic", "batch_with"] {
        assert!(error.message().contains(word), "{error}");
    }
    // Alone it runs.
    assert!(replay(&bag, &parameters(&one, "rten", false)).is_ok());
}

#[test]
fn a_batch_of_what_does_not_fit_together_is_refused_in_the_configuration() {
    let model = session::sample().join("models/blobs_yolov8.onnx");
    let all = parameters(&model, "rten", true);
    for (key, value, words) in [
        ("c1.batch_with", "c9", "another channel"),
        ("c1.batch_with", "c1", "another channel"),
        ("c1.batch_with", "c2", "c2 is in the batch of c0"),
        ("c1.model_path", "other.onnx", "the same model_path"),
        ("c1.engine.kind", "onnxruntime", "the same engine"),
        ("c1.device", "cuda:0", "the same device"),
        ("c0.isolate", "true", "isolate is false"),
        ("c1.head", "yolox", "the same head"),
    ] {
        let mut parameters = all.clone();
        parameters.push(format!("{key}:={value}"));
        let error = Config::load(&[], &parameters).unwrap_err();
        let message = error.message();
        assert!(message.contains("batch_with") && message.contains(words), "{key}: {error}");
    }
}
