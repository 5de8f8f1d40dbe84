//! Channels in processes of their own: the same detections, and no frame but
//! the one that meets a failure is lost. What needs a GPU is skipped without
//! one, unless `DET_POST_REQUIRE=cuda` makes that a failure.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]
#![allow(dead_code, reason = "the sample's modules are shared")]

use crate::common;
use crate::common::{camera_net, detect, drive, lidar_nets, parameters, recording};

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::jpeg::empty_scans;
use common::replay::{Run, replay, replay_after};
use common::require::{Need, skip};
use det_post::config::{ChannelConfig, Config};
use det_post::detectors::{self, Detector, DetectorInfo, FrameInput, FrameSet};
use det_post::runtime::Factory;
use det_post::runtime::channel::Channel;
use det_post::runtime::isolated::{Proxy, serve};
use det_post::runtime::supervisor::{Health, Supervisor};
use det_post::{Error, ErrorKind, Result};
use det_post_ops::device::{Device, PayloadMemory};
use det_post_types::{
    CompressedFormat, CompressedView, Detection2d, Detections, DeviceChoice, Encoding,
    FailurePolicy, FrameReport, Header, ImagePayload, ImageView, Size,
};
use detect::in_image;

const PROGRAM: &str = env!("CARGO_BIN_EXE_det_post");

const ISOLATED: [&str; 3] = ["device:=cpu", "camera.isolate:=true", "lidar.isolate:=true"];

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

/// A camera in another process.
fn supervised(config: ChannelConfig) -> Supervisor {
    let policy = FailurePolicy::default();
    Supervisor::new("camera", DeviceChoice::Cpu, policy, move |device| {
        let proxy = Proxy::start(Path::new(PROGRAM), &config, device)?;
        Ok(Box::new(proxy) as Box<dyn Detector>)
    })
    .unwrap()
}

fn process_id(channel: &Supervisor) -> u32 {
    channel.detector().unwrap().info().process_id.unwrap()
}

fn kill(process: u32) {
    let killed = Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    assert!(killed.success());
}

#[test]
fn a_replay_gives_the_same_bytes() {
    let sample = sample();
    let here = run(sample.path(), "here", &["device:=cpu"]);
    let apart = run(sample.path(), "apart", &ISOLATED);
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

/// As [`run`], after the lines of a shell script, in a mount namespace of its own.
fn run_after(script: &str, sample: &Path, name: &str, parameters: &[&str]) -> Run {
    let parameters: Vec<String> = parameters.iter().map(|&text| text.to_owned()).collect();
    let (bag, config) = (sample.join("drive"), sample.join("sample.param.yaml"));
    replay_after(script, &bag, config.to_str().unwrap(), &parameters, &sample.join(name))
}

/// Whether this machine permits mount namespaces.
fn can_mount() -> bool {
    let mut unshare = Command::new("unshare");
    let status = unshare.args(["--map-root-user", "--mount", "true"]).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn payloads_do_not_depend_on_the_size_of_dev_shm() {
    if !can_mount() {
        skip(Need::Namespaces, "cannot unshare the mount namespace");
        return;
    }
    let sample = sample();
    let whole = run(sample.path(), "whole", &ISOLATED);
    let tiny = "mount -t tmpfs -o size=4k tmpfs /dev/shm";
    let tiny = run_after(tiny, sample.path(), "tiny", &ISOLATED);
    tiny.expect_code(0);
    assert!(tiny.bytes("detections.jsonl") == whole.bytes("detections.jsonl"));
}

/// A limit on the size of files limits what can be reserved in memory, too.
#[test]
fn a_payload_without_memory_costs_its_frame_and_no_other() {
    if !can_mount() {
        skip(Need::Namespaces, "cannot unshare the mount namespace");
        return;
    }
    let sample = sample();
    let whole = run(sample.path(), "whole", &ISOLATED);
    // Blocks of 512 bytes: less than an image takes, and than the larger half
    // of the clouds.
    let limit = "trap '' XFSZ\nulimit -f 256";
    let short = run_after(limit, sample.path(), "short", &ISOLATED);
    short.expect_code(0);
    let report = short.report();
    for (channel, expects_frames) in [("camera", false), ("lidar", true)] {
        let found = &report["channels"][channel];
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        let dropped = found["dropped"].as_object().unwrap();
        assert_eq!(dropped.keys().collect::<Vec<_>>(), ["out_of_memory"], "{found}");
        let num_dropped = number(&dropped["out_of_memory"]["count"]);
        assert_eq!(number(&found["frames_in"]), number(&found["frames_out"]) + num_dropped);
        assert_eq!(number(&found["frames_out"]) > 0, expects_frames, "{found}");
        let first = dropped["out_of_memory"]["first"].as_str().unwrap();
        assert!(first.contains("cannot reserve"), "{first}");
    }
    let (lines, expected) = (short.lines(), whole.lines());
    assert!(!lines.is_empty() && lines.iter().all(|line| expected.contains(line)));
}

#[test]
fn a_process_that_is_killed_costs_one_frame() {
    let sample = sample();
    let config = camera(sample.path());
    let mut detector = detectors::open(&config, DeviceChoice::Cpu).unwrap();
    let mut channel = supervised(config);
    let mut processes = Vec::new();
    for number in 0..6 {
        let pixels = drive::image(number);
        let expected = in_image(detector.as_mut(), &image(&pixels)).unwrap().detections;
        assert!(!expected.is_empty(), "image {number} shows nothing");
        if number == 2 {
            kill(process_id(&channel));
        }
        let (proxy, failures) = channel.ready().unwrap();
        match failures.note(in_image(proxy, &image(&pixels))) {
            Ok(found) => assert!(number != 2 && found.detections == expected, "image {number}"),
            Err(error) => {
                println!("image {number}: {error}");
                assert_eq!((number, error.kind()), (2, ErrorKind::Device));
                assert!(error.message().contains("has ended (signal: 9"), "{error}");
            }
        }
        processes.push(process_id(&channel));
    }
    assert_eq!((channel.health(), channel.num_failures()), (Health::Good, 1));
    let [first, .., third, fourth, _, last] = processes[..] else { panic!("six images") };
    assert!(first == third && third != fourth && fourth == last);
    drop(channel);
    assert!(!PathBuf::from(format!("/proc/{last}")).exists(), "the process is left");
}

/// The watchdog of frames: a process that is stopped does not end, and does not respond.
#[test]
fn a_process_that_is_stopped_costs_one_frame_and_is_replaced() {
    let sample = sample();
    let mut channel = supervised(camera(sample.path()));
    let pixels = drive::image(1);
    let stopped = process_id(&channel);
    let (proxy, failures) = channel.ready().unwrap();
    assert!(!failures.note(in_image(proxy, &image(&pixels))).unwrap().detections.is_empty());
    let stop = Command::new("kill").args(["-STOP", &stopped.to_string()]).status().unwrap();
    assert!(stop.success());
    let start = Instant::now();
    let (proxy, failures) = channel.ready().unwrap();
    let error = failures.note(in_image(proxy, &image(&pixels))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device, "{error}");
    assert!(error.message().contains("did not respond and was killed"), "{error}");
    let limits = Duration::from_secs(29)..Duration::from_secs(60);
    assert!(limits.contains(&start.elapsed()), "{:?}", start.elapsed());
    assert!(!PathBuf::from(format!("/proc/{stopped}")).exists(), "the process is left");
    let (proxy, failures) = channel.ready().unwrap();
    assert!(!failures.note(in_image(proxy, &image(&pixels))).unwrap().detections.is_empty());
    assert_ne!(process_id(&channel), stopped);
    assert_eq!((channel.health(), channel.num_failures()), (Health::Good, 1));
}

#[test]
fn parameters_hold_that_are_set_after_the_process_was_killed() {
    let sample = sample();
    let config = camera(sample.path());
    let factory: Factory = Arc::new(|config: &ChannelConfig, device| {
        let proxy = Proxy::start(Path::new(PROGRAM), config, device)?;
        Ok(Box::new(proxy) as Box<dyn Detector>)
    });
    let mut channel = Channel::with_factory(&config, factory).unwrap();
    let pixels = drive::image(1);
    let detect = |channel: &mut Channel| {
        let input = FrameInput::image(Header::default(), image(&pixels));
        channel.submit(&mut [Some(input)], None)?;
        Ok::<_, Error>(channel.collect()?.detections.len())
    };
    assert!(detect(&mut channel).unwrap() > 0);
    kill(channel.detector_info().unwrap().process_id.unwrap());
    let files = [sample.path().join("sample.param.yaml")];
    let strict = Config::load(&files, &["camera.score_threshold:=1.0".to_owned()]).unwrap();
    let strict = strict.channels.into_iter().find(|channel| channel.name == "camera").unwrap();
    channel.reconfigure(&strict).unwrap();
    assert_eq!(detect(&mut channel).unwrap(), 0);
    assert_eq!(channel.health(), (Health::Good, 1));
}

/// An image of minutes of work is the image's fault, not the device's.
#[test]
fn a_jpeg_of_thousands_of_scans_costs_its_frame_alone() {
    let sample = sample();
    let mut channel = supervised(camera(sample.path()));
    let process = process_id(&channel);
    let file = empty_scans(2048, 2048, 20_000);
    let bomb = CompressedView::new(CompressedFormat::Jpeg, &file);
    let start = Instant::now();
    let (proxy, failures) = channel.ready().unwrap();
    let error = failures.note(in_image(proxy, &ImagePayload::Compressed(bomb))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DecodeLimit, "{error}");
    assert!(error.message().contains("20000 scans"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!((channel.health(), channel.num_failures()), (Health::Good, 0));
    let pixels = drive::image(1);
    let (proxy, failures) = channel.ready().unwrap();
    let found = failures.note(in_image(proxy, &image(&pixels))).unwrap();
    assert!(!found.detections.is_empty());
    assert_eq!(process_id(&channel), process);
}

#[test]
fn what_is_wrong_with_a_frame_or_a_configuration_comes_back() {
    let sample = sample();
    let mut config = camera(sample.path());
    let mut proxy = Proxy::start(Path::new(PROGRAM), &config, DeviceChoice::Cpu).unwrap();
    let file = CompressedView::new(CompressedFormat::Png, b"no image");
    let error = in_image(&mut proxy, &ImagePayload::Compressed(file)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Codec, "{error}");
    let pixels = drive::image(1);
    assert!(!in_image(&mut proxy, &image(&pixels)).unwrap().detections.is_empty());
    // Another threshold, as a live parameter would set it.
    let overrides = ["camera.score_threshold:=1.0".to_owned()];
    let strict = Config::load(&[sample.path().join("sample.param.yaml")], &overrides).unwrap();
    let strict = strict.channels.into_iter().find(|channel| channel.name == "camera").unwrap();
    proxy.reconfigure(&strict).unwrap();
    assert!(in_image(&mut proxy, &image(&pixels)).unwrap().detections.is_empty());
    drop(proxy);

    // A model that is not there.
    let overrides = ["camera.model_path:=/no/such/model.onnx".to_owned()];
    let broken = Config::load(&[sample.path().join("sample.param.yaml")], &overrides).unwrap();
    config = broken.channels.into_iter().find(|channel| channel.name == "camera").unwrap();
    let start = |program, config| Proxy::start(Path::new(program), config, DeviceChoice::Cpu);
    let error = start(PROGRAM, &config).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains("/no/such/model.onnx"), "{error}");

    // A program that is no det_post.
    let whole = camera(sample.path());
    for program in ["/bin/true", "/no/det_post"] {
        assert_eq!(start(program, &whole).err().unwrap().kind(), ErrorKind::Device);
    }
}

/// The frame at which the device of a [`Faulty`] fails.
const FAULT_AT: u64 = 3;

/// A detector whose device fails at a frame. A GPU really fails; of the CPU it
/// is only reported.
struct Faulty {
    detector: Box<dyn Detector>,
    num_frames: u64,
}

impl Faulty {
    fn open(config: &ChannelConfig, device: DeviceChoice) -> Result<Box<dyn Detector>> {
        Ok(Box::new(Self { detector: detectors::open(config, device)?, num_frames: 0 }))
    }
}

impl Detector for Faulty {
    fn info(&self) -> &DetectorInfo {
        self.detector.info()
    }

    fn num_in_flight(&self) -> usize {
        self.detector.num_in_flight()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.num_frames += 1;
        if self.num_frames == FAULT_AT + 1 {
            fail(self.info().device)?;
        }
        self.detector.submit(frame, report)
    }

    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        self.detector.collect(report)
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        self.detector.reconfigure(config)
    }

    fn reset(&mut self) -> Result<()> {
        self.detector.reset()
    }

    fn warm_up(&mut self) -> Result<()> {
        self.detector.warm_up()
    }

    fn payload_memory(&self) -> PayloadMemory {
        self.detector.payload_memory()
    }
}

fn fail(device: DeviceChoice) -> Result<()> {
    #[cfg(feature = "cuda")]
    if let Device::Cuda(gpu) = Device::open(device)? {
        use det_post_ops::device::cuda::diagnostic::{FaultKind, fail};
        // The frame that follows meets the fault.
        let _ = fail(&gpu, FaultKind::BadAddress);
        return Ok(());
    }
    Err(Error::new(ErrorKind::Device, "test", format!("{device} fails")))
}

/// Names the detector of [`process_of_a_faulty_detector`]: `once` fails in the
/// first process, whose mark is the file that follows.
const VARIABLE: &str = "DET_POST_FAULTY_ONCE";

/// Not a test of its own: what a process of [`faulty_program`] runs.
#[test]
fn process_of_a_faulty_detector() {
    let Ok(mark) = std::env::var(VARIABLE) else { return };
    let is_first = std::fs::File::create_new(mark).is_ok();
    serve(if is_first { Faulty::open } else { detectors::open }).unwrap();
}

/// A program that holds a detector as det_post does, whose device fails once.
fn faulty_program(folder: &Path) -> PathBuf {
    let (program, mark) = (folder.join("faulty"), folder.join("failed"));
    let this = std::env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\n{VARIABLE}='{}' exec '{}' --exact isolated::process_of_a_faulty_detector --nocapture\n",
        mark.display(),
        this.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// The detections of images, or why there are none.
fn drive_through(channel: &mut Channel) -> Vec<Result<Vec<Detection2d>>> {
    let found = |number| {
        let pixels = drive::image(number);
        let mut inputs = [Some(FrameInput::image(Header::default(), image(&pixels)))];
        channel.submit(&mut inputs, None)?;
        let Detections::Boxes2d(boxes) = channel.collect()?.detections else {
            panic!("boxes in space")
        };
        Ok(boxes.to_vec())
    };
    (0..6).map(found).collect()
}

/// A fault costs the frame that meets it and no other, where another process
/// or, with `config.failures.fallback`, the CPU goes on.
fn costs_one_frame(config: &ChannelConfig, factory: Factory, kind: ErrorKind) -> Channel {
    let mut whole = Channel::with_factory(config, Arc::new(detectors::open)).unwrap();
    let expected = drive_through(&mut whole);
    let mut channel = Channel::with_factory(config, factory).unwrap();
    for (number, (found, expected)) in
        drive_through(&mut channel).into_iter().zip(expected).enumerate()
    {
        match found {
            Ok(found) => assert_eq!(found, expected.unwrap(), "image {number}"),
            Err(error) => {
                println!("image {number}: {error}");
                assert_eq!((number as u64, error.kind()), (FAULT_AT, kind));
            }
        }
    }
    assert_eq!(channel.health().1, 1);
    channel
}

fn in_a_process(program: PathBuf) -> Factory {
    Arc::new(move |config, device| Ok(Box::new(Proxy::start(&program, config, device)?)))
}

#[test]
fn a_device_that_fails_costs_one_frame() {
    let sample = sample();
    let mut config = camera(sample.path());
    config.device = DeviceChoice::Cpu;
    let is_first = std::sync::atomic::AtomicBool::new(true);
    let here: Factory = Arc::new(move |config, device| {
        let open = if is_first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            Faulty::open
        } else {
            detectors::open
        };
        open(config, device)
    });
    let channel = costs_one_frame(&config, here, ErrorKind::Device);
    assert_eq!(channel.health().0, Health::Good);
    let apart = in_a_process(faulty_program(sample.path()));
    let channel = costs_one_frame(&config, apart, ErrorKind::Device);
    assert_eq!(channel.health().0, Health::Good);
}

/// As above, with a GPU whose fault ends it for the process that meets it.
#[test]
fn a_gpu_that_fails_costs_one_frame() {
    if let Err(reason) = Device::open(DeviceChoice::Cuda(0)) {
        skip(Need::Cuda, reason);
        return;
    }
    let sample = sample();
    let overrides = ["camera.device:=cuda:0", "camera.engine.tf32:=false"].map(String::from);
    let config = Config::load(&[sample.path().join("sample.param.yaml")], &overrides).unwrap();
    let config = config.channels.into_iter().find(|channel| channel.name == "camera").unwrap();
    let apart = in_a_process(faulty_program(sample.path()));
    let channel = costs_one_frame(&config, apart, ErrorKind::Device);
    assert_eq!(channel.health().0, Health::Good);
}

/// The process of an isolated channel of `parent`, once it has one.
fn child_of(parent: u32) -> u32 {
    let start = Instant::now();
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
        let children = tasks.flatten().map(|task| task.path().join("children"));
        let lists: String = children.flat_map(std::fs::read_to_string).collect();
        if let Some(child) = lists.split_whitespace().next() {
            return child.parse().unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(120), "no child");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Also while it is stopped, as in a kernel that hangs.
#[test]
fn a_channels_process_ends_with_the_one_that_is_killed() {
    let sample = sample();
    let mut parent = Command::new(PROGRAM)
        .args(["replay", "drive", "--config", "sample.param.yaml", "--rate", "0.001"])
        .args(["--out", "killed", "-p", "device:=cpu", "-p", "camera.isolate:=true"])
        .current_dir(sample.path())
        .spawn()
        .unwrap();
    let child = child_of(parent.id());
    let state = || {
        let status = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        status.rsplit_once(") ")?.1.chars().next()
    };
    // It has asked for its end before it is stopped: its network is loaded.
    let start = Instant::now();
    let has_loaded = || {
        let maps = std::fs::read_to_string(format!("/proc/{child}/maps")).unwrap_or_default();
        maps.contains("memfd")
    };
    while !has_loaded() {
        assert!(start.elapsed() < Duration::from_secs(120), "no frame reached the process");
        std::thread::sleep(Duration::from_millis(20));
    }
    let stopped = Command::new("kill").args(["-STOP", &child.to_string()]).status().unwrap();
    assert!(stopped.success());
    parent.kill().unwrap();
    parent.wait().unwrap();
    let start = Instant::now();
    while !matches!(state(), None | Some('Z' | 'X')) {
        assert!(start.elapsed() < Duration::from_secs(20), "{child} is {:?}", state());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_process_whose_node_was_killed_ends_without_an_error() {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::Stdio;

    let isolated = |stdin: Stdio| {
        Command::new(PROGRAM).arg("isolated").stdin(stdin).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let child = isolated(OwnedFd::from(theirs).into());
    // Requests without a meaning, whose responses remain unread.
    (0..3).for_each(|_| ours.write_all(&[1, 0, 0, 0, 99]).unwrap());
    std::thread::sleep(Duration::from_millis(500));
    drop(ours);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""));

    let output = isolated(Stdio::null()).wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("standard input is not the socket of a channel"), "{stderr}");
}

/// What a channel's process logs is the log of the node: at its levels, where it goes.
#[test]
fn lines_of_a_channels_process_go_where_the_log_goes() {
    let sample = sample();
    let log = |name: &str, ros: &[&str]| {
        let output = Command::new(PROGRAM)
            .args(["replay", "drive", "--config", "sample.param.yaml", "--out", name])
            .args(["-p", "device:=cpu", "-p", "camera.isolate:=true"])
            .args(ros)
            .current_dir(sample.path())
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let whole = log("whole", &[]);
    assert!(whole.contains("INFO channel camera: device cpu"), "{whole}");
    let silent = log("silent", &["--ros-args", "--disable-stdout-logs"]);
    assert!(!silent.contains("device cpu"), "{silent}");
}
