//! What a newcomer types, with the exit code and the words of the answer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::Path;

use crate::common::onnx::{Attr, Graph};
use crate::common::replay::det_post;
use crate::common::shared_data::shared_data;
use det_post_types::ElementType;

/// A folder with half a second of a simulated drive, `town`.
fn town() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("town").display().to_string();
    det_post(&["simulate", "--seed", "1", "--seconds", "0.5", "--out", &out]).expect_code(0);
    folder
}

/// Writes a file and returns its path.
fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Runs a command, in which TOWN is the drive, and expects an exit code and words of what it printed.
fn typed(folder: &Path, line: &str, code: i32, words: &[&str]) {
    let town = folder.join("town").display().to_string();
    let line = line.replace("TOWN", &town).replace("FOLDER", &folder.display().to_string());
    let run = det_post(&line.split_whitespace().collect::<Vec<_>>());
    let printed = format!("{}{}", run.stdout, run.stderr);
    assert_eq!(run.code, code, "{line}:\n{printed}");
    for word in words {
        assert!(printed.contains(word), "{line}: {word:?} is missing in:\n{printed}");
    }
}

const CAMERA: &str = "-p camera.input:=/camera_0/image -p camera.model_path:=models/camera.onnx";

#[test]
fn a_network_needs_no_parameter_file() {
    let folder = town();
    let typed = |line: &str, code, words: &[&str]| typed(folder.path(), line, code, words);
    let found = ["head demo_camera", "found   camera: ", "frames per second", "wrote"];
    typed("replay TOWN --model models/camera.onnx --out FOLDER/out", 0, &found);
    let nothing_kept = ["head demo_camera", "wrote   nothing: `--out DIR` keeps the detections"];
    typed("replay --model models/camera.onnx --topic /camera_0/image TOWN", 0, &nothing_kept);
    typed("replay --model models/camera.onnx --topic camera_0/image TOWN", 0, &found[..1]);
    typed(&format!("replay TOWN {CAMERA} -q"), 0, &["found   camera: "]);
    let topics = ["--topic /x is not in the recording", "topics of images: /camera_0/image"];
    typed("replay TOWN --model models/camera.onnx --topic /x", 2, &topics);
    let needs_head = ["lidar.head", "none of the shipped heads of cameras fits", "heatmap"];
    typed("replay TOWN --model models/lidar_head.onnx --topic /lidar_0/points", 2, &needs_head);
    let nothing = ["no channel is configured", "--model NETWORK.onnx --topic /camera_0/image"];
    typed("replay TOWN", 2, &nothing);
    typed("run", 2, &["none is configured", "--config FILE", "--model NETWORK.onnx"]);
    let needs_topic = ["--topic is missing", "`--topic /camera/image_raw`"];
    typed("run --model models/camera.onnx", 2, &needs_topic);
    typed("replay TOWN --model models/camera.onnx --frames 2", 0, &["2 in, 2 out"]);
    let off = "replay TOWN --config config/demo.param.yaml --frames 1 -p lidar.enabled:=false";
    typed(
        off,
        0,
        &["channel lidar: left out, since `enabled` is false", "camera  /camera_0/image"],
    );
    let none = ["no channel is enabled"];
    typed(&format!("{off} -p camera.enabled:=false"), 2, &none);
    let all = "replay TOWN --model models/camera.onnx --frames 3 --images all --out FOLDER/all";
    typed(all, 0, &["3 in, 3 out", "images/ (3)"]);
    let lines = |name: &str| {
        std::fs::read_to_string(folder.path().join(name).join("detections.jsonl")).unwrap()
    };
    let (first, whole) = (lines("all"), lines("out"));
    assert_eq!(first.lines().count(), 3);
    assert!(whole.starts_with(&first), "the first frames are those of the whole");
    let no_number = ["allowed: a number of frames, 0 or above, or `all`"];
    typed("replay TOWN --model models/camera.onnx --images some --out FOLDER/all", 2, &no_number);
    let at_full_speed = ["a number of frames is for replays at full speed"];
    typed("replay TOWN --model models/camera.onnx --frames 1 --rate 1", 2, &at_full_speed);
    typed("inspect TOWN", 0, &["duration 0.", ", start 20", " messages, "]);
    typed("replay -c config/demo.param.yaml TOWN", 0, &["found   lidar: "]);
    let only = ["has no topic /wrong", "did you mean `-p camera.input:=/camera_0/image`?"];
    typed(&format!("replay TOWN {CAMERA} -p camera.input:=/wrong"), 2, &only);
    let not_both = ["--topic /wrong belongs to --model", "`-p NAME.input:=/wrong`"];
    typed("replay TOWN -c config/demo.param.yaml --topic /wrong", 2, &not_both);
    typed("run --topic /wrong", 2, &not_both);
    let no_text = ["as a parameter file: a network goes behind --model"];
    typed("replay TOWN -c models/camera.onnx", 2, &no_text);
    let other_type = ["--topic /camera_0/camera_info carries", "did you mean /camera_0/image?"];
    typed("replay TOWN --model models/camera.onnx --topic /camera_0/camera_info", 2, &other_type);
    let named = ["the channel of --model is called `camera`"];
    typed("replay TOWN --model models/camera.onnx -p front.score_threshold:=0.5", 2, &named);
    let into_itself = ["is the folder of the recording; allowed: another folder"];
    typed("replay TOWN --model models/camera.onnx --out TOWN", 2, &into_itself);
    let beyond = ["no time of the recording is in this part", "`--from +5` counts from its start"];
    typed("replay TOWN --model models/camera.onnx --from 5 --to 6", 2, &beyond);
    typed("replay TOWN --model models/camera.onnx --from +5", 2, &beyond);
    typed("inspect models/camera.onnx", 2, &["is not a recording: it starts with"]);
    typed(
        "inspect FOLDER",
        2,
        &["is not a recording: it has no metadata.yaml", "; recordings in it:"],
    );
    file(folder.path(), "out.txt", "");
    let no_folder = ["out.txt: it is a file; allowed: a folder"];
    typed("replay TOWN --model models/camera.onnx --out FOLDER/out.txt", 1, &no_folder);
}

#[test]
fn check_takes_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let typed = |line: &str, code, words: &[&str]| typed(folder.path(), line, code, words);
    let network =
        ["images [?, 3, 384, 640]", "output0 [?, 9, 20400]", "head that fits: demo_camera"];
    typed("check models/camera.onnx", 0, &network);
    let masks = ["output0 [?, 33, 20400]", "output1 [?, 24, 192, 320]"];
    let masks = [&masks[..], &["head that fits: demo_camera_seg"]].concat();
    typed("check models/camera_seg.onnx", 0, &masks);
    let of_masks = ["head: demo_camera_seg", "camera_seg.onnx"];
    typed("check --model models/camera_seg.onnx", 0, &of_masks);
    typed("check models/voxel_encoder.scn.onnx", 0, &["heads of cameras that fit: none"]);
    let default = ["head: demo_camera", "camera.onnx", "camera.input: no --topic was given"];
    typed("check --model models/camera.onnx", 0, &default);
    // It may be kept in any folder.
    let model = std::path::absolute("models/camera.onnx").unwrap();
    let absolute = format!("model_path: {}", model.display());
    typed("check --model models/camera.onnx", 0, &[&absolute]);
    typed("check --model models/camera.onnx --topic /front", 0, &["input: /front"]);
    let no_effect = ["-p camera.score_threshold:=0.5: has no effect on models/camera.onnx"];
    typed("check models/camera.onnx -p camera.score_threshold:=0.5", 2, &no_effect);
    typed("check config/heads/yolox.yaml", 0, &["a head file", "camera, `yolox`; 80 classes"]);
    typed("check config/demo.param.yaml", 0, &["head: demo_camera"]);
    typed("check -c config/demo.param.yaml", 0, &["head: demo_camera"]);
    let not_there = ["WARN", "camera.model_path:", "nowhere.onnx is not there"];
    typed(
        "check -p camera.input:=/x -p camera.model_path:=nowhere.onnx -p camera.head:=yolox",
        0,
        &not_there,
    );
    typed("check no/such.onnx", 1, &["cannot read no/such.onnx"]);
    let once = "ERROR sparse_network: models/camera.onnx: no sparse convolution";
    typed("check --encoder models/camera.onnx", 2, &[once]);
    // What is called .onnx and is none, by itself and in a channel.
    let lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:00\n";
    let network = std::fs::read("models/camera.onnx").unwrap();
    for (name, bytes, found) in [
        ("empty.onnx", &b""[..], "found an empty file"),
        ("lfs.onnx", lfs.as_bytes(), "found a pointer of Git LFS"),
        ("page.onnx", b"<!DOCTYPE html><html></html>", "found a web page"),
        ("best.onnx", b"PK\x03\x04\x00\x00", "found a zip archive"),
        ("text.onnx", b"hello", "found a file that starts with \"hello\""),
        ("cut.onnx", &network[..network.len() / 2], "found a file that ends too early"),
    ] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        typed(&format!("check FOLDER/{name}"), 2, &[name, found, "expected an ONNX file"]);
        let channel = format!("-p camera.input:=/x -p camera.model_path:=FOLDER/{name}");
        let named = ["camera.model_path: ", found];
        typed(&format!("check {channel} -p camera.head:=yolox"), 2, &named);
    }
}

/// A network of images of 64x64 with constant outputs; `open`: without the shape of the output.
fn network(path: &Path, inputs: &[(&str, i64)], output: [i64; 3], open: bool) {
    let num = output.iter().product::<i64>() as usize;
    let mut graph = Graph::new("misfit", "constant outputs");
    for (name, channels) in inputs {
        graph = graph.input(name, ElementType::F32, &[1, *channels, 64, 64]);
    }
    let declared = if open { [-1; 3] } else { output };
    graph
        .constant("k", &output, &vec![0.0; num])
        .node("ReduceMean", &[inputs[0].0], &["m"], &[("keepdims", Attr::Int(0))])
        .op("Mul", &["m", "k"], "output")
        .output("output", ElementType::F32, &declared)
        .save(path)
        .unwrap();
}

/// What does not fit is found when the network is loaded, and named by the key of the user.
#[test]
fn misfits_of_tensors_name_the_channel_and_the_key() {
    let folder = town();
    let typed = |line: &str, words: &[&str]| typed(folder.path(), line, 2, words);
    let path = |name: &str| folder.path().join(name);
    network(&path("four.onnx"), &[("images", 4)], [1, 84, 85], false);
    network(&path("two.onnx"), &[("images", 3), ("size", 3)], [1, 84, 85], false);
    network(&path("open.onnx"), &[("images", 3)], [1, 85, 85], true);
    let camera = "replay TOWN --device cpu -p camera.input:=/camera_0/image -p camera.head:=yolox";
    for (name, found) in [
        ("four.onnx", "images f32 [1, 4, 64, 64]"),
        ("two.onnx", "more inputs"),
        ("open.onnx", "output f32 [1, 85, 85]"),
    ] {
        let line = format!("{camera} -p camera.model_path:=FOLDER/{name}");
        typed(&line, &["ERROR", "camera.model_path: ", found]);
        typed(&format!("{line} -p camera.isolate:=true"), &["camera.model_path: ", found]);
    }
    network(&path("theirs.onnx"), &[("images", 4)], [1, 84, 84], false);
    let like = "replay TOWN --device cpu --like yolo_ros -p image_topic:=/camera_0/image";
    let theirs = ["model: as camera.model_path: ", "images f32 [1, 4, 64, 64]"];
    for more in ["", " -p isolate:=true"] {
        typed(&format!("{like} -p model:=FOLDER/theirs.onnx{more}"), &theirs);
    }
}

#[test]
fn mistakes_name_their_cure() {
    let folder = tempfile::tempdir().unwrap();
    let typed = |line: &str, code, words: &[&str]| typed(folder.path(), line, code, words);
    let of_images =
        ["camera.head: `second_kitti` is for point clouds", "fits demo_camera", "yolov8"];
    typed(&format!("check {CAMERA} -p camera.head:=second_kitti"), 2, &of_images);
    let by_sensor = [
        "did you mean `demo_camera`?",
        "of images demo_camera, demo_camera_seg, dfine",
        "of point clouds",
    ];
    typed(&format!("check {CAMERA} -p camera.head:=centerpoint_x"), 2, &by_sensor);
    let yolo11 = format!("check {CAMERA} -p camera.head:=yolo11");
    typed(&yolo11, 2, &["camera.head: found \"yolo11\"", "did you mean `yolov8`?"]);
    let misfit = ["camera.head: its layout `yolox`", "output0 [?, 9, 20400]", "demo_camera"];
    typed(&format!("check {CAMERA} -p camera.head:=yolox"), 2, &misfit);
    let classes = ["the network has 5 classes and `class_names` has 80"];
    typed(&format!("check {CAMERA} -p camera.head:=yolov8"), 2, &classes);
    let missing = ["camera.model_path", "nowhere.onnx, which is not there; looked for"];
    typed("check -p camera.input:=/x -p camera.model_path:=nowhere.onnx", 2, &missing);
    let both = ["camera.head: found `yolov8` and `camera.head.class_names`", "changed copy"];
    let names = "-p camera.head:=yolov8 -p camera.head.class_names:=[car,truck]";
    typed(&format!("check {CAMERA} {names}"), 2, &both);
    typed("check -p head:=yolov8", 2, &["did you mean `NAME.head`?"]);
    let of_channel = ["did you mean `camera.score_threshold`?"];
    typed(&format!("check {CAMERA} -p score_threshold:=0.6"), 2, &of_channel);
    typed(&format!("check {CAMERA} -p head:=yolov8"), 2, &["did you mean `camera.head`?"]);

    let file = |name: &str, text: &str| file(folder.path(), name, text);
    let section = "/**:\n  ros__parameters:\n    camera:\n";
    let channel = "      input: /x\n      model_path: models/camera.onnx\n";
    let haed = file("haed.yaml", &format!("{section}{channel}      haed: yolox\n"));
    let words = ["camera.haed: unknown key", "did you mean `camera.head`?"];
    typed(&format!("check {haed}"), 2, &words);
    let typo = file("typo.yaml", &format!("{section}{channel}      scoer_threshold: 0.5\n"));
    typed(&format!("check {typo}"), 2, &["camera.scoer_threshold", "`camera.score_threshold`"]);
    let tab = file("tab.yaml", "/**:\n  ros__parameters:\n\tcamera:\n");
    typed(&format!("check {tab}"), 2, &["tab.yaml: line 3 is indented with a tab"]);
    let indent = file("indent.yaml", &format!("{section}{channel}     device: cpu\n"));
    typed(&format!("check {indent}"), 2, &["line 6 is indented by 5 spaces"]);
    typed("demo --device cuda:63 --out FOLDER/demo", 1, &["ERROR device: "]);
    assert!(!folder.path().join("demo/drive").exists(), "nothing is simulated");
}

/// Commands are in the order in which someone new needs them; each has two examples that it understands.
#[test]
fn help_has_examples() {
    let help = det_post(&["--help"]).stdout;
    let order = ["demo", "inspect", "check", "replay", "eval", "run", "simulate", "bench"];
    let places = order.map(|command| help.find(&format!("\n  {command} ")));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{help}");
    assert!(help.find("\nOptions:") < help.find("\nGlobal options:"), "{help}");
    for command in order.into_iter().chain(["migrate", "calibrate", "completions", "man"]) {
        let help = det_post(&[command, "--help"]).stdout;
        let (options, examples) = help.split_once("Examples:").unwrap();
        let call = format!("det_post {command} ");
        let of_command = |line: &&str| format!("{line} ").contains(&call);
        let calls: Vec<&str> = examples.lines().filter(of_command).collect();
        assert_eq!(calls.len(), 2, "{help}");
        for option in calls.iter().flat_map(|call| call.split(' ')).filter(|w| w.starts_with("--"))
        {
            assert!(option == "--ros-args" || options.contains(option), "{option}: {help}");
        }
        let (_, global) = options.split_once("Global options:").unwrap();
        assert!(global.contains("--verbose") && !global.contains("--config"), "{help}");
    }
}

/// After 5 s a node says which input has no publisher; at the start, what it is subscribed to.
#[cfg(feature = "dds")]
#[test]
fn a_node_names_inputs_that_nothing_publishes() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let domain = crate::common::domain::Domain::reserve();
    let mut node = Command::new(env!("CARGO_BIN_EXE_det_post"))
        .args("run --model models/camera.onnx --topic /nowhere --middleware dds".split(' '))
        .env("ROS_DOMAIN_ID", domain.id.to_string())
        .env("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(node.stderr.take().unwrap()).lines();
    let mut log = String::new();
    let ends = "nothing publishes /nowhere (sensor_msgs/msg/Image) yet; no topic of this type is published";
    for line in lines.map_while(Result::ok) {
        log += &format!("{line}\n");
        if line.contains(ends) {
            break;
        }
    }
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(log.contains(ends), "{log}");
    assert!(log.contains("channel camera: subscribed to /nowhere through dds, publishes"), "{log}");
}

/// Networks as exporters write them: what their files say is enough.
#[test]
fn heads_of_published_networks_are_found() {
    let Some(data) = shared_data() else { return };
    for (file, head) in [
        ("yolov5n_fp32_640", "head that fits: yolov5\n"),
        ("yolov8n_f32_from_qdq_640", "head that fits: yolov8\n"),
        ("yolox_nano_416", "head that fits: yolox\n"),
        ("pfe", "heads of cameras that fit: none"),
    ] {
        let path = data.join(format!("models/{file}.onnx")).display().to_string();
        typed(&data, &format!("check {path}"), 0, &[head]);
    }
}
