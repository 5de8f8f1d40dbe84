//! Channels in processes of their own: the same detections, and no frame but
//! the one that meets a failure is lost. What needs a GPU is skipped without
//! one, unless `DET_POST_REQUIRE_CUDA=1` makes that a failure.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]
#![allow(dead_code, reason = "the sample's modules are shared")]

#[path = "../examples/make_sample/camera_net.rs"]
mod camera_net;
#[path = "../examples/make_sample/drive.rs"]
mod drive;
#[path = "../examples/make_sample/lidar_nets.rs"]
mod lidar_nets;
#[path = "common/onnx.rs"]
mod onnx;
#[path = "../examples/make_sample/parameters.rs"]
mod parameters;
#[path = "../examples/make_sample/recording.rs"]
mod recording;

mod common {
    pub mod replay;
}

use std::path::{Path, PathBuf};
use std::process::Command;

use common::replay::{Run, replay};
use det_post::ErrorKind;
use det_post::config::{ChannelConfig, Config};
use det_post::device::Device;
use det_post::pipeline::isolated::Isolated;
use det_post::pipeline::{CameraPipeline, Health, Supervisor};
use det_post::types::{
    Detection2d, DeviceChoice, Encoding, FailurePolicy, ImagePayload, ImageView, Size,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_det_post");
const SIZE: Size = Size::new(320, 192);

/// The sample: a drive, networks and parameters.
fn sample() -> tempfile::TempDir {
    let sample = tempfile::tempdir().unwrap();
    let folder = sample.path();
    std::fs::create_dir_all(folder.join("models")).unwrap();
    std::fs::create_dir_all(folder.join("heads")).unwrap();
    camera_net::graph().save(&folder.join("models/blobs_yolov8.onnx")).unwrap();
    std::fs::write(folder.join("heads/blobs_yolov8.yaml"), parameters::camera_head()).unwrap();
    lidar_nets::encoder().save(&folder.join("models/pillar_encoder.onnx")).unwrap();
    lidar_nets::head().save(&folder.join("models/pillar_head.onnx")).unwrap();
    std::fs::write(folder.join("heads/pillars.yaml"), parameters::lidar_head()).unwrap();
    recording::write(&folder.join("drive")).unwrap();
    std::fs::write(folder.join("sample.param.yaml"), parameters::deployment(folder)).unwrap();
    sample
}

fn run(sample: &Path, name: &str, parameters: &[&str]) -> Run {
    let parameters: Vec<String> = parameters.iter().map(|&text| text.to_owned()).collect();
    let config = sample.join("sample.param.yaml");
    replay(&sample.join("drive"), config.to_str().unwrap(), &parameters, &sample.join(name))
}

fn camera(sample: &Path) -> ChannelConfig {
    let config = Config::load(&[sample.join("sample.param.yaml")], &[]).unwrap();
    config.channels.into_iter().find(|channel| channel.name == "camera").unwrap()
}

/// Pictures with blobs in other places.
fn pictures() -> Vec<Vec<u8>> {
    let picture = |number: usize| {
        let inside = |x: usize, y: usize| {
            (40 * number..40 * number + 48).contains(&x) && (60..100).contains(&y)
        };
        let pixel = move |x, y| if inside(x, y) { [250, 250, 250] } else { [10, 10, 10] };
        (0..192).flat_map(|y| (0..320).flat_map(move |x| pixel(x, y))).collect()
    };
    (0..6).map(picture).collect()
}

fn image(data: &[u8]) -> ImagePayload<'_> {
    ImagePayload::Raw(ImageView::new(SIZE, 3 * 320, Encoding::Rgb8, false, data).unwrap())
}

/// A camera in another process, and the number of that process.
fn supervised(config: ChannelConfig) -> Supervisor<Isolated<Detection2d>> {
    let policy = FailurePolicy::default();
    Supervisor::new("camera", DeviceChoice::Cpu, policy, move |device| {
        let isolated = Isolated::start(Path::new(PROGRAM), &config, device)?;
        let device = isolated.device();
        Ok((isolated, device))
    })
    .unwrap()
}

fn kill(process: u32) {
    let killed = Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    assert!(killed.success());
}

#[test]
fn a_replay_gives_the_same_bytes() {
    let sample = sample();
    let here = run(sample.path(), "here", &["device:=cpu"]);
    let apart = ["device:=cpu", "camera.isolate:=true", "lidar.isolate:=true"];
    let apart = run(sample.path(), "apart", &apart);
    here.expect_code(0);
    apart.expect_code(0);
    let (expected, found) = (here.report(), apart.report());
    for channel in ["camera", "lidar"] {
        let (expected, found) = (&expected["channels"][channel], &found["channels"][channel]);
        assert!(expected["detections"].as_u64().unwrap() > 0, "{channel} finds nothing");
        for key in ["frames_in", "frames_out", "detections", "dropped", "truncated", "engine"] {
            assert_eq!(found[key], expected[key], "{channel}.{key}");
        }
    }
    assert!(apart.bytes("detections.jsonl") == here.bytes("detections.jsonl"));
}

#[test]
fn a_process_that_is_killed_costs_one_frame() {
    let sample = sample();
    let config = camera(sample.path());
    let det_post::config::ChannelKind::Camera(facts) = &config.kind else { panic!("a camera") };
    let mut pipeline = CameraPipeline::new(facts, &Device::Cpu).unwrap();
    let mut channel = supervised(config.clone());
    let mut processes = Vec::new();
    for (number, data) in pictures().iter().enumerate() {
        let expected = pipeline.process(&image(data)).unwrap().detections.to_vec();
        let process = channel.pipeline().unwrap().process_id();
        if number == 2 {
            kill(process);
        }
        let served = channel.serve(|camera| {
            let served = camera.process_picture(&image(data))?;
            Ok(served.detections.to_vec())
        });
        match served {
            Ok(found) => assert!(number != 2 && found == expected, "picture {number}"),
            Err(error) => {
                println!("picture {number}: {error}");
                assert_eq!((number, error.kind()), (2, ErrorKind::Device));
                assert!(error.message().contains("has ended (signal: 9"), "{error}");
                // The next frame would build first; here it is done before.
                channel.serve(|_| Ok(())).unwrap();
            }
        }
        processes.push(process);
    }
    assert_eq!((channel.health(), channel.num_failures()), (Health::Good, 1));
    assert!(processes[0] == processes[2] && processes[3] == processes[5]);
    assert_ne!(processes[2], processes[3]);
    drop(channel);
    assert!(!PathBuf::from(format!("/proc/{}", processes[5])).exists(), "the process is left");
}

#[test]
fn what_is_wrong_with_a_frame_or_a_configuration_comes_back() {
    let sample = sample();
    let mut config = camera(sample.path());
    let mut isolated =
        Isolated::<Detection2d>::start(Path::new(PROGRAM), &config, DeviceChoice::Cpu).unwrap();
    let file = det_post::types::CompressedView {
        format: det_post::types::CompressedFormat::Png,
        data: b"no picture",
    };
    let error = isolated.process_picture(&ImagePayload::Compressed(file)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Codec, "{error}");
    let picture = &pictures()[1];
    let num = isolated.process_picture(&image(picture)).unwrap().detections.len();
    println!("{num} detections of {}", isolated.engine_name());
    // Another threshold, as a live parameter would set it.
    let overrides = ["camera.score_threshold:=1.0".to_owned()];
    let strict = Config::load(&[sample.path().join("sample.param.yaml")], &overrides).unwrap();
    let strict = strict.channels.into_iter().find(|channel| channel.name == "camera").unwrap();
    isolated.reconfigure(&strict).unwrap();
    assert_eq!(isolated.process_picture(&image(picture)).unwrap().detections.len(), 0);
    drop(isolated);

    // A model that is not there.
    let overrides = ["camera.model_path:=/no/such/model.onnx".to_owned()];
    let broken = Config::load(&[sample.path().join("sample.param.yaml")], &overrides).unwrap();
    config = broken.channels.into_iter().find(|channel| channel.name == "camera").unwrap();
    let started = Isolated::<Detection2d>::start(Path::new(PROGRAM), &config, DeviceChoice::Cpu);
    let error = started.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert!(error.message().contains("/no/such/model.onnx"), "{error}");

    // A program that is no det_post.
    let started =
        Isolated::<Detection2d>::start(Path::new("/bin/true"), &config, DeviceChoice::Cpu);
    assert_eq!(started.err().unwrap().kind(), ErrorKind::Device);
    let started =
        Isolated::<Detection2d>::start(Path::new("/no/det_post"), &config, DeviceChoice::Cpu);
    assert_eq!(started.err().unwrap().kind(), ErrorKind::Device);
}

/// The whole program on a GPU that fails at a frame: a channel of its own
/// process loses that frame and no other.
#[test]
fn a_fault_costs_one_frame() {
    if let Err(reason) = Device::open(DeviceChoice::Cuda(0)) {
        let required = std::env::var("DET_POST_REQUIRE_CUDA").is_ok_and(|value| value == "1");
        assert!(!required, "DET_POST_REQUIRE_CUDA is 1: {reason}");
        println!("skipped: {reason}");
        return;
    }
    let sample = sample();
    let base = ["lidar.device:=cpu", "camera.device:=cuda:0", "camera.engine.tf32:=false"];
    let whole = run(sample.path(), "whole", &base);
    whole.expect_code(0);
    let mut parameters = base.to_vec();
    parameters.extend(["camera.isolate:=true", "camera.debug.fault_at_frame:=3"]);
    let faulty = run(sample.path(), "faulty", &parameters);
    faulty.expect_code(0);
    let (expected, found) =
        (&whole.report()["channels"]["camera"], &faulty.report()["channels"]["camera"]);
    println!("{found}");
    assert_eq!(found["frames_in"], expected["frames_in"]);
    let num_out = |report: &serde_json::Value| report["frames_out"].as_u64().unwrap();
    assert_eq!(num_out(found) + 1, num_out(expected));
    assert_eq!(found["dropped"]["device"], 1);
    assert_eq!(
        faulty.report()["channels"]["lidar"]["dropped"],
        whole.report()["channels"]["lidar"]["dropped"]
    );
    let (lines, others) = (whole.lines(), faulty.lines());
    let missing: Vec<_> = lines.iter().filter(|line| !others.contains(line)).collect();
    assert_eq!(
        (missing.len(), lines.len()),
        (1, others.len() + 1),
        "other detections after the fault"
    );

    // With the CPU to go on with, in one process.
    parameters.truncate(base.len());
    parameters.extend(["camera.fallback:=cpu", "camera.debug.fault_at_frame:=3"]);
    let fallen = run(sample.path(), "fallen", &parameters);
    fallen.expect_code(0);
    let found = &fallen.report()["channels"]["camera"];
    println!("{found}");
    assert_eq!(num_out(found) + 1, num_out(expected));
    assert_eq!(found["dropped"]["device_lost"], 1);
    assert!(found["device"].as_str().unwrap().starts_with("cpu"), "{found}");
}
