//! The program as its users meet it: exit codes, reasons, files, determinism.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use crate::common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use common::replay::{Run, det_post, replay, run};
use common::shared_data::shared_data;
use common::sparse_onnx;
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_types::Stamp;

fn camera_parameters(data: &Path) -> Vec<String> {
    let model = data.join("models/yolox_nano_416.onnx");
    vec![
        "camera.head:=yolox".into(),
        format!("camera.model_path:={}", model.display()),
        "camera.input:=/sensing/camera/image_raw".into(),
        "camera.engine.kind:=rten".into(),
    ]
}

#[test]
fn help_and_version_succeed_and_misuse_is_code_2() {
    let help = det_post(&["replay", "--help"]);
    help.expect_code(0);
    for word in ["--config", "--rate", "--images", "--device", "--out", "-p", "Exit codes"] {
        assert!(help.stdout.contains(word), "{word} is missing in:\n{}", help.stdout);
    }
    det_post(&["--version"]).expect_code(0);
    det_post(&[]).expect_code(2);
    det_post(&["replay"]).expect_code(2);
    det_post(&["replay", "x", "--rate", "0"]).expect_code(2);
    det_post(&["check", "config/camera.param.yaml"]).expect_code(0);
}

#[test]
fn an_argument_that_is_not_utf8_is_a_path_or_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let latin = OsStr::from_bytes(b"caf\xe9.yaml");
    let path = folder.path().join(latin);
    std::fs::copy("config/camera.param.yaml", &path).unwrap();
    let det_post =
        |arguments: &[&OsStr]| run(Command::new(env!("CARGO_BIN_EXE_det_post")).args(arguments));
    det_post(&["check".as_ref(), path.as_ref()]).expect_code(0);
    let missing = det_post(&["inspect".as_ref(), latin]);
    missing.expect_code(1);
    assert!(missing.stderr.contains("caf\u{fffd}.yaml"), "{}", missing.stderr);
    for arguments in [
        &["check", "config/camera.param.yaml", "-p"][..],
        &["check", "--like"],
        &["replay", "drive", "--rate"],
        &["run", "--ros-args", "-r"],
        &["run", "--ros-args"],
        &[],
    ] {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).chain([latin]).collect();
        let run = det_post(&arguments);
        run.expect_code(2);
        assert!(run.stderr.contains("caf\u{fffd}.yaml"), "{arguments:?}: {}", run.stderr);
    }
}

/// Every command that users see is completed and has a page; the one that processes start is not.
#[test]
fn completions_and_manual_pages_name_every_command() {
    let help = det_post(&["--help"]).stdout;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.len() >= 11 && commands.contains(&"replay"), "{help}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = det_post(&["completions", shell]);
        run.expect_code(0);
        for command in &commands {
            assert!(run.stdout.contains(command), "{shell}: {command}");
        }
        assert!(
            run.stdout.contains("count-missing") && !run.stdout.contains("isolated"),
            "{shell}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    det_post(&["man", pages.to_str().unwrap()]).expect_code(0);
    for command in commands {
        let page = pages.join(format!("det_post-{command}.1"));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(std::fs::read_to_string(pages.join("det_post.1")).unwrap().contains("replay"));
    assert!(!pages.join("det_post-isolated.1").exists());
}

#[test]
fn wrong_configuration_is_code_2_and_names_the_key() {
    let run = det_post(&["check", "config/camera.param.yaml", "-p", "camera.score_treshold:=0.3"]);
    run.expect_code(2);
    assert!(run.stderr.contains("camera.score_treshold"), "{}", run.stderr);
    let run = det_post(&["check", "config/camera.param.yaml", "-p", "camera.score_threshold:=1.5"]);
    run.expect_code(2);
    assert!(run.stderr.contains("1.5"), "{}", run.stderr);
}

/// An engine that cannot run on the device of `--device` is refused before anything is read.
#[test]
fn a_device_that_does_not_fit_the_engine_is_code_2() {
    let parameters = ["-p", "camera.engine.provider:=cuda", "--device", "cpu"];
    for command in ["replay", "run"] {
        let bag: &[&str] = if command == "replay" { &["nowhere.mcap"] } else { &[] };
        let config = ["--config", "config/camera.param.yaml"];
        let run = det_post(&[&[command], bag, &config[..], &parameters[..]].concat());
        run.expect_code(2);
        assert!(run.stderr.contains("camera.engine.provider"), "{command}: {}", run.stderr);
    }
}

/// Without a driver, without such a GPU, without kernels: said, never a panic.
#[test]
fn a_gpu_that_is_not_there_is_code_1_and_auto_goes_on() {
    let part = "nms_circle 500";
    let run = det_post(&["bench", "--device", "cuda:63", part]);
    run.expect_code(1);
    assert!(run.stderr.contains("ERROR device: "), "{}", run.stderr);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    let run = det_post(&["bench", "--device", "auto", part]);
    run.expect_code(0);
    assert!(run.stderr.contains("device auto: "), "{}", run.stderr);
}

#[test]
fn a_bench_refuses_a_file_of_the_user_before_it_measures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figures.json");
    std::fs::write(&path, "mine").unwrap();
    let run = det_post(&["bench", "--json", path.to_str().unwrap(), "nms_circle 500"]);
    run.expect_code(2);
    assert!(run.stderr.contains("figures.json was not written by det_post"), "{}", run.stderr);
    assert_eq!(run.stdout, "");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn the_effective_configuration_checks_again() {
    let folder = tempfile::tempdir().unwrap();
    for shipped in
        ["config/camera.param.yaml", "config/lidar.param.yaml", "config/surround.param.yaml"]
    {
        let first = det_post(&["check", shipped]);
        first.expect_code(0);
        let path = folder.path().join("effective.yaml");
        std::fs::write(&path, &first.stdout).unwrap();
        let second = det_post(&["check", path.to_str().unwrap()]);
        second.expect_code(0);
        assert_eq!(first.stdout, second.stdout);
    }
}

#[test]
fn a_recording_that_is_not_there_is_code_1() {
    let run = det_post(&["inspect", "no/such/recording"]);
    run.expect_code(1);
    assert!(run.stderr.contains("no/such/recording"), "{}", run.stderr);
}

#[test]
fn a_recording_of_more_files_than_the_soft_limit_is_read_whole() {
    const NUM_FILES: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let (one, many) = (folder.path().join("one"), folder.path().join("many"));
    std::fs::create_dir(&many).unwrap();
    let mut writer = BagWriter::create(&one, BagCompression::None).unwrap();
    let topic =
        writer.add_topic("/text", "std_msgs/msg/String", "", OfferedQos::default()).unwrap();
    writer.write(topic, Stamp::from_nanos(1), &[0, 1, 0, 0, 2, 0, 0, 0, b'a', 0]).unwrap();
    writer.finish().unwrap();
    let files = std::fs::read_dir(&one).unwrap().map(|entry| entry.unwrap().path());
    let file = files.filter(|path| path.extension() == Some("mcap".as_ref())).last().unwrap();
    for number in 0..NUM_FILES {
        std::fs::copy(&file, many.join(format!("part_{number:03}.mcap"))).unwrap();
    }
    let script = "ulimit -S -n 64; exec \"$0\" inspect \"$1\"";
    let program = env!("CARGO_BIN_EXE_det_post");
    let run = run(Command::new("sh").args(["-c", script, program]).arg(&many));
    run.expect_code(0);
    assert!(run.stdout.contains(&NUM_FILES.to_string()), "{}", run.stdout);
}

#[test]
fn a_missing_input_names_the_topics_there_are() {
    let Some(data) = shared_data() else { return };
    let out = tempfile::tempdir().unwrap();
    let mut parameters = camera_parameters(&data);
    parameters.push("camera.input:=/nowhere".into());
    let bag = data.join("bags/kitti_000008_mcap");
    let run = replay(&bag, "config/camera.param.yaml", &parameters, out.path());
    run.expect_code(2);
    assert!(run.stderr.contains("/sensing/camera/image_raw"), "{}", run.stderr);
}

#[test]
fn a_model_that_does_not_fit_is_refused_with_both_shapes() {
    let Some(data) = shared_data() else { return };
    let out = tempfile::tempdir().unwrap();
    let mut parameters = camera_parameters(&data);
    parameters.push("camera.head:=yolov8".into());
    let bag = data.join("bags/kitti_000008_mcap");
    let run = replay(&bag, "config/camera.param.yaml", &parameters, out.path());
    run.expect_code(2);
    for part in ["[1, 84, ?]", "[1, 3549, 85]", "heads that fit: yolox"] {
        assert!(run.stderr.contains(part), "{part} is missing in {}", run.stderr);
    }
}

#[test]
fn the_same_replay_gives_the_same_bytes() {
    let Some(data) = shared_data() else { return };
    let bag = data.join("bags/kitti_000008_mcap");
    let folder = tempfile::tempdir().unwrap();
    let runs: Vec<Run> = ["first", "second"]
        .map(|name| {
            let out = folder.path().join(name);
            replay(&bag, "config/camera.param.yaml", &camera_parameters(&data), &out)
        })
        .into();
    runs.iter().for_each(|run| {
        run.expect_code(0);
    });
    for file in ["detections.jsonl", "detections/detections_0.mcap", "detections/metadata.yaml"] {
        assert!(!runs[0].bytes(file).is_empty(), "{file} is empty");
        assert_eq!(runs[0].bytes(file), runs[1].bytes(file), "{file}");
    }
}

#[test]
fn images_are_drawn_for_the_first_frames() {
    let Some(data) = shared_data() else { return };
    let out = tempfile::tempdir().unwrap();
    let bag = data.join("bags/kitti_000008_mcap").display().to_string();
    let out_text = out.path().display().to_string();
    let parameters = camera_parameters(&data);
    let mut arguments = vec!["replay", &bag, "-c", "config/camera.param.yaml", "--out", &out_text];
    arguments.extend(["--images", "2"]);
    parameters.iter().for_each(|parameter| arguments.extend(["-p", parameter.as_str()]));
    det_post(&arguments).expect_code(0);
    let images: Vec<_> = std::fs::read_dir(out.path().join("images")).unwrap().collect();
    assert_eq!(images.len(), 2);
    for image in images {
        let file = std::io::BufReader::new(std::fs::File::open(image.unwrap().path()).unwrap());
        let info = png::Decoder::new(file).read_info().unwrap();
        assert_eq!(info.info().size(), (1242, 375));
    }
}

/// Opening a pipe that nothing writes to blocks for ever.
#[test]
fn no_input_file_may_be_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    let head = format!("camera.head:={pipe}");
    let camera = "config/camera.param.yaml";
    for arguments in [
        vec!["check", pipe],
        vec!["check", camera, "-p", &head],
        vec!["inspect", pipe],
        vec!["replay", pipe, "--config", camera],
        vec!["eval", "--detections", pipe, "--truth", pipe],
        vec!["run", "--ros-args", "--params-file", pipe],
    ] {
        let run = det_post(&arguments);
        assert!(run.stderr.contains("a named pipe"), "{arguments:?}: {}", run.stderr);
        assert_ne!(run.code, 0, "{arguments:?}");
    }
}

/// The steps of a network, or the first node that the engine cuda does not cover.
#[test]
fn check_lists_the_steps_of_a_network() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/camera.onnx");
    let run = det_post(&["check", "--network", model.to_str().unwrap()]);
    run.expect_code(0);
    for line in ["[1, 16, 192, 320]", "softmax", "37 steps", "us: the floor on a GPU of 4800 GB/s"]
    {
        assert!(run.stdout.contains(line), "{line} is not in\n{}", run.stdout);
    }
    let shape = ["check", "--network", model.to_str().unwrap(), "--input-shape", "1,3,384,641"];
    let run = det_post(&shape);
    run.expect_code(2);
    assert!(run.stderr.contains("cannot have the shape [1, 3, 384, 641]"), "{}", run.stderr);
    let encoder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/voxel_encoder.scn.onnx");
    let run = det_post(&["check", "--network", encoder.to_str().unwrap(), "--input-shape", "9,5"]);
    run.expect_code(2);
    assert!(run.stderr.contains("SparseConvolution"), "{}", run.stderr);
}

/// Levels, steps and memory of an encoder; errors name the file and the node.
#[test]
fn check_lists_an_encoder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("encoder.scn.onnx");
    let arguments = ["check", "--encoder", path.to_str().unwrap(), "--voxel-capacity", "100"];
    let mut file = sparse_onnx::scn();
    std::fs::write(&path, file.to_bytes()).unwrap();
    let run = det_post(&arguments);
    run.expect_code(0);
    for line in [
        "dialect scn, point channels 3, 1736 parameters",
        "level  grid z y x        capacity  sites",
        "0      9 6 8                  100  voxels",
        "1      5 3 4                   60  of level 0, kernel [3, 3, 3] stride [2, 2, 2]",
        "SparseConvolution_1       0        4 > 4         3x3x3    0",
        "+ residual, ReLU",
        "SparseConvolution_5       1 > 2",
        "map [1, 8, 3, 4]",
        "memory, f16: ",
    ] {
        assert!(run.stdout.contains(line), "{line} is not in\n{}", run.stdout);
    }
    file.nodes[4].op = "Sigmoid";
    std::fs::write(&path, file.to_bytes()).unwrap();
    let run = det_post(&arguments);
    run.expect_code(2);
    assert!(run.stderr.contains("encoder.scn.onnx"), "{}", run.stderr);
    assert!(run.stderr.contains("Sigmoid_4: unknown operator"), "{}", run.stderr);
}
