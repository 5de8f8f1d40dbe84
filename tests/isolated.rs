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
use det_post::detectors::CameraPipeline;
use det_post::device::Device;
use det_post::runtime::isolated::Isolated;
use det_post::runtime::{Health, Supervisor};
use det_post::types::{
    Detection2d, DeviceChoice, Encoding, FailurePolicy, ImagePayload, ImageView, Size,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_det_post");

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

fn image(data: &[u8]) -> ImagePayload<'_> {
    let size = Size::new(drive::WIDTH as u32, drive::HEIGHT as u32);
    ImagePayload::Raw(ImageView::new(size, 3 * drive::WIDTH, Encoding::Rgb8, false, data).unwrap())
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
    for number in 0..6 {
        let picture = drive::picture(number);
        let expected = pipeline.process(&image(&picture)).unwrap().detections.to_vec();
        assert!(!expected.is_empty(), "picture {number} shows nothing");
        if number == 2 {
            kill(channel.pipeline().unwrap().process_id());
        }
        let served = channel.serve(|camera| {
            let served = camera.process_picture(&image(&picture))?;
            Ok(served.detections.to_vec())
        });
        match served {
            Ok(found) => assert!(number != 2 && found == expected, "picture {number}"),
            Err(error) => {
                println!("picture {number}: {error}");
                assert_eq!((number, error.kind()), (2, ErrorKind::Device));
                assert!(error.message().contains("has ended (signal: 9"), "{error}");
            }
        }
        processes.push(channel.pipeline().unwrap().process_id());
    }
    assert_eq!((channel.health(), channel.num_failures()), (Health::Good, 1));
    let [first, .., third, fourth, _, last] = processes[..] else { panic!("six pictures") };
    assert!(first == third && third != fourth && fourth == last);
    drop(channel);
    assert!(!PathBuf::from(format!("/proc/{last}")).exists(), "the process is left");
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
    let picture = drive::picture(1);
    assert!(!isolated.process_picture(&image(&picture)).unwrap().detections.is_empty());
    // Another threshold, as a live parameter would set it.
    let overrides = ["camera.score_threshold:=1.0".to_owned()];
    let strict = Config::load(&[sample.path().join("sample.param.yaml")], &overrides).unwrap();
    let strict = strict.channels.into_iter().find(|channel| channel.name == "camera").unwrap();
    isolated.reconfigure(&strict).unwrap();
    assert!(isolated.process_picture(&image(&picture)).unwrap().detections.is_empty());
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
    assert_eq!(found["dropped"]["device"]["count"], 1);
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
    assert_eq!(found["dropped"]["device_lost"]["count"], 1);
    assert!(found["device"].as_str().unwrap().starts_with("cpu"), "{found}");
}
