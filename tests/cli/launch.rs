//! The launch files, run against stand-ins of `launch`: what they take, and
//! what they would start. Wants a Python with PyYAML, and nothing of ROS 2.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped")]

use crate::common::{replay, require};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use det_post::config::{Config, Package, Source, TranslationOutcome};
use det_post_ros::NodeName;
use require::{Need, skip};
use serde_json::{Value, json};

/// Recordings are looked for, and not opened, by launch files: any folder serves as `bag`.
const FILES: [&str; 2] = ["launch/det.launch.py", "launch/det_replay.launch.py"];

/// A Python that can read YAML; says when there is none.
fn python() -> Option<String> {
    let named = std::env::var("DET_POST_PEER_PYTHON").ok();
    let found = named.into_iter().chain(["python3".to_owned()]).find(|python| {
        let reads_yaml = Command::new(python).args(["-c", "import yaml"]).output();
        reads_yaml.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        skip(Need::Peers, "no Python with PyYAML");
    }
    found
}

fn run(python: &str, file: &str, arguments: &[&str]) -> Output {
    run_beside(python, file, arguments, "{}")
}

/// As [`run`], with further packages: a JSON object of their names and folders.
fn run_beside(python: &str, file: &str, arguments: &[&str], installed: &str) -> Output {
    Command::new(python)
        .args(["tests/peers/check_launch.py", file])
        .args(arguments)
        .env("INSTALLED_PACKAGES", installed)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap()
}

/// What a launch file declares, reads and would start.
#[track_caller]
fn launch(python: &str, file: &str, arguments: &[&str]) -> Value {
    launch_beside(python, file, arguments, "{}")
}

/// As [`launch`], with further packages.
#[track_caller]
fn launch_beside(python: &str, file: &str, arguments: &[&str], installed: &str) -> Value {
    let output = run_beside(python, file, arguments, installed);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{file} {arguments:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The parameter overrides of a process, as the command line has them.
fn overrides(process: &Value) -> Vec<String> {
    let parameters = process["parameters"].as_object().unwrap();
    let assignment = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key}:={text}"),
        other => format!("{key}:={other}"),
    };
    parameters.iter().map(assignment).collect()
}

/// The configuration with which a process would run.
#[track_caller]
fn config(process: &Value) -> Config {
    let files: Vec<PathBuf> = texts(&process["files"]).into_iter().map(PathBuf::from).collect();
    Config::load(&files, &overrides(process)).unwrap()
}

#[test]
fn every_argument_is_described_and_read() {
    let Some(python) = python() else { return };
    for file in FILES {
        let report = launch(&python, file, &["bag:=tests/data"]);
        let read = texts(&report["read"]);
        let mut declared = BTreeSet::new();
        for argument in report["declared"].as_array().unwrap() {
            let name = argument["name"].as_str().unwrap();
            let description = argument["description"].as_str().unwrap();
            assert!(
                description.ends_with('.') && description.len() > 10,
                "{name}: {description:?}"
            );
            assert!(read.iter().any(|of| of == name), "{file}: {name} is declared, not read");
            declared.insert(name.to_owned());
        }
        assert!(declared.len() >= 13, "{declared:?}");
        assert!(read.iter().all(|name| declared.contains(name)), "{file}: {read:?}");
    }
}

#[test]
fn by_default_the_demo_starts() {
    let Some(python) = python() else { return };
    let report = launch(&python, FILES[0], &[]);
    let [node] = report["processes"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((&node["package"], &node["executable"]), (&"det_post".into(), &"det_post".into()));
    assert_eq!((&node["name"], &node["namespace"]), (&"det_post".into(), &"".into()));
    assert!(report["after_exit"]["1"]["delays"][0].is_number(), "{report}");
    // The program selects the middleware that it was built with.
    assert_eq!(texts(&node["arguments"]), ["run"]);
    assert_eq!(report["logged"], json!([]));
    let config = config(node);
    assert!(!config.use_sim_time);
    let names: Vec<&str> = config.channels.iter().map(|channel| &*channel.name).collect();
    assert_eq!(names, ["camera", "lidar"]);
    // The program finds relative paths itself, wherever it runs.
    assert_eq!(node["cwd"], json!(null));

    // The program takes the command line, up to a parameter that is none.
    let (program, ros) = (texts(&node["arguments"]), texts(&node["ros_arguments"]));
    let mut line: Vec<&str> = program.iter().map(String::as_str).collect();
    line.push("--ros-args");
    line.extend(ros.iter().map(String::as_str));
    line.extend(["-p", "no_such_key:=1"]);
    let run = replay::det_post(&line);
    run.expect_code(2);
    assert!(run.stderr.contains("no_such_key"), "{}", run.stderr);
}

#[test]
fn arguments_reach_the_channels() {
    let Some(python) = python() else { return };
    let arguments = [
        "config:=surround.param.yaml",
        "namespace:=/car",
        "node_name:=eyes",
        "device:=cpu",
        "input_topics:=front:=/cam0/image back:=/cam1/image",
        "camera_info_topics:=back:=/cam1/camera_info",
        "model_paths:=front:=/models/a.onnx",
        "parameters:=front.score_threshold:=0.25 back.class_filter:=[car,bus]",
        "use_sim_time:=true",
        "log_level:=debug",
        "enclave:=/car/eyes",
        "respawn:=false",
        "rviz:=true",
    ];
    let report = launch(&python, FILES[0], &arguments);
    let [node, rviz] = report["processes"].as_array().unwrap().as_slice() else {
        panic!("{report}")
    };
    assert_eq!((&node["name"], &node["namespace"]), (&"eyes".into(), &"/car".into()));
    assert_eq!(report["after_exit"], json!({}));
    assert_eq!(texts(&node["ros_arguments"]), ["--log-level", "debug", "--enclave", "/car/eyes"]);
    let config = config(node);
    assert!(config.use_sim_time);
    assert_eq!(config.device.to_string(), "cpu");
    let channel = |name: &str| config.channels.iter().find(|channel| channel.name == name).unwrap();
    assert_eq!(channel("front").inputs[0].topic, "/cam0/image");
    assert_eq!(channel("back").inputs[0].topic, "/cam1/image");
    assert_eq!(channel("back").inputs[0].camera_info.as_deref(), Some("/cam1/camera_info"));
    assert_eq!(channel("front").inputs[0].camera_info, None);
    assert_eq!(channel("back_left").inputs[0].topic, "/camera/back_left/image_raw/compressed");
    let yaml = config.to_yaml();
    assert!(yaml.contains("/models/a.onnx") && yaml.contains("0.25"), "{yaml}");

    assert_eq!(rviz["executable"], "rviz2");
    let view = texts(&rviz["arguments"]).pop().unwrap();
    assert!(Path::new(&view).is_file(), "{view}");
    assert_eq!(rviz["parameters"]["use_sim_time"], true);
}

#[test]
fn an_encoder_and_a_file_of_ones_own_are_found() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my own.yaml");
    std::fs::write(&file, "/**: {ros__parameters: {lidar: {max_detections: 7}}}\n").unwrap();
    let config_argument = format!("config:=demo.param.yaml '{}'", file.display());
    let arguments = [
        config_argument.as_str(),
        "encoder_paths:='lidar:=/my models/pillars.onnx'",
        "parameters:=camera.score_threshold:=1e-3 lidar.distance_upper_limits_m:='[.5e2, 1e+2]'",
    ];
    let report = launch(&python, FILES[0], &arguments);
    let parameters = &report["processes"][0]["parameters"];
    assert_eq!(parameters["camera.score_threshold"], 0.001);
    assert_eq!(parameters["lidar.distance_upper_limits_m"], json!([50.0, 100.0]));
    let yaml = config(&report["processes"][0]).to_yaml();
    assert!(yaml.contains("/my models/pillars.onnx"), "{yaml}");
    assert!(yaml.contains("max_detections: 7"), "{yaml}");
}

#[test]
fn a_surround_channel_takes_its_cameras_and_files() {
    let Some(python) = python() else { return };
    let arguments = [
        "config:=demo_surround_3d.param.yaml",
        "inputs:=surround:=/a/image,/b/image,/c/image,/d/image,/e/image,/f/image",
        "model_paths:=surround:=/models/backbone.onnx",
        "weights_paths:=surround:=/models/decoder.safetensors",
    ];
    let report = launch(&python, FILES[0], &arguments);
    let config = config(&report["processes"][0]);
    let inputs: Vec<&str> = config.channels[0].inputs.iter().map(|input| &*input.topic).collect();
    assert_eq!(inputs, ["/a/image", "/b/image", "/c/image", "/d/image", "/e/image", "/f/image"]);
    let yaml = config.to_yaml();
    for path in ["/models/backbone.onnx", "/models/decoder.safetensors"] {
        assert!(yaml.contains(path), "{yaml}");
    }
    let report = launch(&python, FILES[0], &["head_paths:=surround:=/models/head.onnx"]);
    let parameters = &report["processes"][0]["parameters"];
    assert_eq!(parameters["surround.head_path"], "/models/head.onnx");
}

#[test]
fn what_would_end_again_is_not_started_again_and_the_rest_after_growing_delays() {
    let Some(python) = python() else { return };
    for (delay, expected) in [
        // A long run before the last but one starts over.
        ("1.0", [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 1.0, 2.0]),
        ("90", [90.0; 10]),
        ("0", [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 0.1, 0.2]),
    ] {
        let delay = format!("respawn_delay:={delay}");
        let report = launch(&python, FILES[0], &["node_name:=eyes", &delay]);
        for (code, is_final) in [("0", false), ("1", false), ("2", true), ("-9", false)] {
            let after = &report["after_exit"][code];
            let delays: Vec<f64> = serde_json::from_value(after["delays"].clone()).unwrap();
            let expected = if is_final { &[][..] } else { &expected };
            assert_eq!(delays, expected, "{code} {delay}");
            let logged = texts(&after["logged"]).join("\n");
            assert_eq!(logged.contains("not started again"), is_final, "{code}: {logged}");
            let times = logged.matches(&format!("exit code {code}:")).count();
            assert_eq!(times, delays.len().max(1), "{code}: {logged}");
        }
    }
    let report = launch(&python, FILES[0], &["respawn:=false"]);
    assert_eq!(report["after_exit"], json!({}));
}

#[test]
fn conventional_arguments_are_accepted() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.yaml");
    std::fs::write(&file, "/**: {ros__parameters: {lidar: {max_detections: 7}}}\n").unwrap();
    let params_file = format!("params_file:={}", file.display());
    let arguments =
        [params_file.as_str(), "config:=demo.param.yaml", "autostart:=false", "middleware:=dds"];
    let report = launch(&python, FILES[0], &arguments);
    let node = &report["processes"][0];
    let own = config(node);
    assert!(!own.autostart);
    assert!(own.to_yaml().contains("max_detections: 7"), "{}", own.to_yaml());
    assert_eq!(texts(&node["arguments"]), ["run", "--middleware", "dds"]);
    // By itself it takes the place of the demo.
    let report = launch(&python, FILES[0], &[&params_file]);
    assert_eq!(texts(&report["processes"][0]["files"]), [file.to_str().unwrap()]);
}

/// The program reads the user's files, so that its messages name them.
#[test]
fn errors_name_the_users_file() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.yaml");
    let params_file = format!("params_file:={}", file.display());
    let parameters = "device: $(var device), autostart: $(env DET_POST_NONE false)";
    let section = format!("det_post: {{ros__parameters: {{{parameters}, no_such_key: 1}}}}\n");
    std::fs::write(&file, section).unwrap();
    let report = launch(&python, FILES[0], &[&params_file, "device:=cpu"]);
    let node = &report["processes"][0];
    assert_eq!((&node["files"], &node["copied"]), (&json!([file]), &json!([])));
    let arguments = texts(&node["arguments"]);
    assert_eq!(arguments, ["run", "--arg", "device:=cpu"]);
    let mut line: Vec<&str> = arguments.iter().map(String::as_str).collect();
    line.extend(["--ros-args", "--params-file", file.to_str().unwrap()]);
    let run = replay::det_post(&line);
    run.expect_code(2);
    let named = format!("no_such_key: unknown key in {}", file.display());
    assert!(run.stderr.contains(&named), "{}", run.stderr);

    // Substitutions that only launch knows are its own to replace, in a copy.
    for text in ["$(dirname)/x", "$(var device cpu)", "\\\\$(var device)", "$(var $(env X))"] {
        std::fs::write(&file, format!("/**: {{ros__parameters: {{a: \"{text}\"}}}}\n")).unwrap();
        let report = launch(&python, FILES[0], &[&params_file]);
        let node = &report["processes"][0];
        assert_eq!(node["copied"], json!([file]), "{text}");
        assert_eq!(node["parameters"]["search_folders"], json!([folder.path()]));
        assert_eq!(texts(&node["arguments"]), ["run"]);
    }
    // Its copy is said to be one.
    let copy = folder.path().join("launch_params_x1y2");
    std::fs::write(&copy, "det_post: {ros__parameters: {no_such_key: 1}}\n").unwrap();
    let run = replay::det_post(&["run", "--ros-args", "--params-file", copy.to_str().unwrap()]);
    run.expect_code(2);
    assert!(run.stderr.contains("launch_params_x1y2 (written by launch"), "{}", run.stderr);
}

/// The component has the parameters that the process would have, in a container of its own or
/// in one that runs.
#[test]
fn the_node_is_loaded_into_a_container() {
    let Some(python) = python() else { return };
    let arguments = ["device:=cpu", "parameters:=camera.max_detections:=9", "node_name:=eyes"];
    let process = &launch(&python, FILES[0], &arguments)["processes"][0];
    let composed = [&arguments[..], &["use_composition:=True"]].concat();
    let installed = json!({"rclcpp_components": "/components"}).to_string();
    let own = launch_beside(&python, FILES[0], &composed, &installed);
    let into = [&composed[..], &["container_name:=/sensors"]].concat();
    let loaded = launch_beside(&python, FILES[0], &into, &installed);
    assert_eq!(own["processes"][0]["executable"], "component_container_mt");
    assert_eq!(own["processes"][0]["name"], "eyes_container");
    assert_eq!(loaded["processes"][0]["container"], "/sensors");
    for report in [&own, &loaded] {
        assert_eq!(report["processes"].as_array().unwrap().len(), 1);
        let component = &report["processes"][0]["components"][0];
        assert_eq!(component["plugin"], "det_post::DetPost");
        assert_eq!(component["extra_arguments"], json!([{"use_intra_process_comms": true}]));
        for key in ["name", "namespace", "package", "files"] {
            assert_eq!(component[key], process[key], "{key}");
        }
        // It gets values, not files: their folders are named.
        let mut parameters = component["parameters"].clone();
        let folders = parameters.as_object_mut().unwrap().remove("search_folders");
        let folder = Path::new(process["files"][0].as_str().unwrap()).parent().unwrap();
        assert_eq!(folders, Some(json!([folder])));
        assert_eq!(parameters, process["parameters"]);
    }
    // Without the component it is a process.
    let report = launch(&python, FILES[0], &composed);
    assert_eq!(&report["processes"][0], process);
    let logged = texts(&report["logged"]).join(" ");
    assert!(logged.contains("use_composition") && logged.contains("process"), "{logged}");
}

#[test]
fn what_is_wrong_is_said() {
    let Some(python) = python() else { return };
    for (file, arguments, named) in [
        (FILES[0], ["input_topics:=/image"], "input_topics: found '/image'"),
        (FILES[0], ["model_paths:=camera:='/a b"], "model_paths: found \"camera:='/a b\""),
        (FILES[0], ["model_paths:=camera:="], "model_paths: found 'camera:='"),
        (FILES[0], ["rviz:=maybe"], "rviz: found 'maybe'"),
        (FILES[0], ["parameters:=camera.score_threshold=0.4"], "parameters: found"),
        (FILES[0], ["autostart:=maybe"], "autostart: found 'maybe'"),
        (FILES[0], ["config:=demo.yaml"], "config has camera.param.yaml, demo.param.yaml, "),
        (
            FILES[0],
            ["params_file:=tests/no.yaml"],
            "params_file: there is no file tests/no.yaml; looked",
        ),
        (FILES[1], ["rate:=2"], "argument bag is required"),
        (FILES[1], ["bag:=no_such_drive"], "there is no recording no_such_drive"),
    ] {
        let output = run(&python, file, &arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(named), "{arguments:?}: {stderr}");
    }
}

/// The command line that plays the recording, and the node that it waits for.
#[track_caller]
fn player(report: &Value) -> (String, String) {
    let [_, player] = report["processes"].as_array().unwrap().as_slice() else {
        panic!("{report}")
    };
    let command = texts(&player["command"]);
    let [shell, flag, script, node, rest @ ..] = command.as_slice() else { panic!("{command:?}") };
    assert_eq!([shell, flag], ["sh", "-c"]);
    assert!(script.contains("ros2 lifecycle get \"$0\"") && script.ends_with("exec \"$@\""));
    (node.clone(), rest.join(" "))
}

#[test]
fn a_recording_plays_beside_a_node_on_its_clock() {
    let Some(python) = python() else { return };
    let arguments = ["bag:=tests/data", "rate:=0.5", "loop:=true", "delay:=7", "device:=cpu"];
    let report = launch(&python, FILES[1], &arguments);
    let node = &report["processes"][0];
    assert!(config(node).use_sim_time);
    assert_eq!(report["after_exit"], json!({}));
    let command = "ros2 bag play tests/data --rate 0.5 --delay 7 --clock 100 --loop";
    assert_eq!(player(&report), ("/det_post".into(), command.into()));
    assert_eq!(report["ended_by"], json!(["any"]));

    let arguments = ["bag:=tests/data", "namespace:=car/front", "respawn:=true"];
    let further = "player_arguments:=--topics /points /tf";
    let report = launch(&python, FILES[1], &[&arguments[..], &[further]].concat());
    let command =
        "ros2 bag play tests/data --rate 1.0 --delay 1.0 --clock 100 --topics /points /tf";
    assert_eq!(player(&report), ("/car/front/det_post".into(), command.into()));
    // A node that comes back by itself ends nothing; the player's end does.
    assert_eq!(report["ended_by"], json!([report["processes"][1]["command"]]));
}

#[test]
fn a_recording_of_a_clock_sets_it_itself() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (topic, clock) in [("/points", " --clock 100"), ("/clock", "")] {
        let metadata = json!({"rosbag2_bagfile_information": {
            "topics_with_message_count": [{"topic_metadata": {"name": topic}}]}});
        std::fs::write(folder.path().join("metadata.yaml"), metadata.to_string()).unwrap();
        std::fs::write(folder.path().join("drive_0.mcap"), "").unwrap();
        for bag in [folder.path().to_owned(), folder.path().join("drive_0.mcap")] {
            let report = launch(&python, FILES[1], &[&format!("bag:={}", bag.display())]);
            let bag = bag.display();
            let command = format!("ros2 bag play {bag} --rate 1.0 --delay 1.0{clock}");
            assert_eq!(player(&report).1, command);
        }
    }
}

#[test]
fn ros_2_lists_the_same_arguments() {
    if std::env::var_os("ROS_DISTRO").is_none_or(|distro| distro.is_empty()) {
        skip(Need::Ros2, "ROS 2 is not sourced");
        return;
    }
    let Some(python) = python() else { return };
    for file in FILES.into_iter().chain(DROP_IN.map(|(file, _)| file)) {
        let output = Command::new("ros2")
            .args(["launch", file, "--show-args"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let listed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{listed}{}", String::from_utf8_lossy(&output.stderr));
        for argument in launch(&python, file, &["bag:=tests/data"])["declared"].as_array().unwrap()
        {
            let name = format!("'{}':", argument["name"].as_str().unwrap());
            assert!(listed.contains(&name), "{name} is not in\n{listed}");
        }
    }
}

/// The launch files of nodes that det_post takes the place of, and the arguments that their
/// callers give.
const DROP_IN: [(&str, &[&str]); 10] = [
    (
        "launch/lidar_centerpoint.launch.xml",
        &[
            "input/pointcloud",
            "output/objects",
            "node_name",
            "data_path",
            "model_name",
            "model_path",
            "model_param_path",
            "ml_package_param_path",
            "class_remapper_param_path",
            "common_param_path",
            "diagnostics_param_path",
            "score_threshold",
            "has_twist",
            "build_only",
            "use_pointcloud_container",
            "pointcloud_container_name",
        ],
    ),
    ("launch/yolox.launch.xml", YOLOX_ARGUMENTS),
    ("launch/yolox_tiny.launch.xml", YOLOX_ARGUMENTS),
    ("launch/yolox_s_plus_opt.launch.xml", YOLOX_ARGUMENTS),
    ("launch/yolo.launch.py", YOLO_ROS_ARGUMENTS),
    ("launch/yolov5.launch.py", YOLO_ROS_ARGUMENTS),
    ("launch/yolov11.launch.py", YOLO_ROS_ARGUMENTS),
    ("launch/yolov9.launch.py", YOLO_ROS_ARGUMENTS),
    ("launch/yolov12.launch.py", YOLO_ROS_ARGUMENTS),
    (
        "launch/bevfusion.launch.xml",
        &[
            "input/pointcloud",
            "output/objects",
            "data_path",
            "model_name",
            "model_path",
            "model_param_path",
            "ml_package_param_path",
            "class_remapper_param_path",
            "common_param_path",
            "build_only",
            "use_pointcloud_container",
            "pointcloud_container_name",
            "use_decompress",
            "image0",
            "image5",
            "camera_info0",
            "camera_info5",
        ],
    ),
];
const YOLO_ROS_ARGUMENTS: &[&str] = &[
    "model_type",
    "model",
    "tracker",
    "device",
    "fuse_model",
    "yolo_encoding",
    "enable",
    "threshold",
    "iou",
    "imgsz_height",
    "imgsz_width",
    "half",
    "max_det",
    "augment",
    "agnostic_nms",
    "retina_masks",
    "input_image_topic",
    "image_reliability",
    "input_depth_topic",
    "depth_image_reliability",
    "input_depth_info_topic",
    "depth_info_reliability",
    "target_frame",
    "depth_image_units_divisor",
    "namespace",
    "use_tracking",
    "use_3d",
    "use_debug",
];
const YOLOX_ARGUMENTS: &[&str] = &[
    "input/image",
    "output/objects",
    "output/mask",
    "model_name",
    "model_path",
    "label_path",
    "color_map_path",
    "yolox_param_path",
    "data_path",
    "use_decompress",
    "build_only",
    "yolox_node_name",
];

#[test]
fn launch_files_of_other_nodes_have_their_arguments() {
    let Some(python) = python() else { return };
    for (file, arguments) in DROP_IN {
        let report = launch(&python, file, &[]);
        let declared = report["declared"].as_array().unwrap();
        for argument in arguments {
            let found = declared.iter().find(|declared| declared["name"] == *argument);
            let found = found.unwrap_or_else(|| panic!("{file} has no {argument}"));
            assert!(found["default"].is_string(), "{file}: {argument} has no default");
            assert!(found["description"].as_str().unwrap().ends_with('.'), "{file}: {argument}");
        }
        // Without yolo_ros its other nodes are not started, which is said.
        let says_missing = texts(&report["logged"]).iter().any(|text| text.contains("yolo_ros"));
        assert_eq!(says_missing, file.ends_with(".py"), "{report}");
        let [node] = report["processes"].as_array().unwrap().as_slice() else { panic!("{report}") };
        assert_eq!(
            (&node["package"], &node["executable"]),
            (&json!("det_post"), &json!("det_post"))
        );
        assert_eq!(node["files"], json!([]), "none is there, and none is needed to show arguments");
    }
}

#[test]
fn a_lidar_node_is_replaced_with_its_files_topics_and_container() {
    let Some(python) = python() else { return };
    let folder = tempfile::Builder::new().prefix("the driver's files ").tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    // The order in which later files win: node, network, labels by area, common.
    let files = [
        "centerpoint.param.yaml",
        "centerpoint_ml_package.param.yaml",
        "detection_class_remapper.param.yaml",
        "centerpoint_common.param.yaml",
    ];
    files.iter().for_each(|name| std::fs::write(path(name), "").unwrap());
    let arguments = [
        "input/pointcloud:=/points".to_owned(),
        "output/objects:=centerpoint/objects".to_owned(),
        "node_name:=lidar_short_range_centerpoint".to_owned(),
        "model_name:=centerpoint".to_owned(),
        format!("model_path:={}", folder.path().display()),
        format!("model_param_path:={}", path(files[0])),
        format!("common_param_path:={}", path(files[3])),
        "use_pointcloud_container:=true".to_owned(),
        "has_twist:=true".to_owned(),
        "build_only:=true".to_owned(),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let report = launch(&python, DROP_IN[0].0, &arguments);
    let node = &report["processes"][0];
    assert_eq!(node["name"], "lidar_short_range_centerpoint");
    assert_eq!(texts(&node["arguments"]), ["run", "--like", "autoware_lidar_centerpoint"]);
    assert_eq!(texts(&node["files"]), files.map(path));
    let topics =
        json!([["~/input/pointcloud", "/points"], ["~/output/objects", "centerpoint/objects"]]);
    assert_eq!(node["remappings"], topics);
    let parameters = json!({"has_twist": true, "build_only": true,
        "logger_name": "lidar_short_range_centerpoint"});
    assert_eq!(node["parameters"], parameters);
    let logged = texts(&report["logged"]).join(" ");
    assert!(logged.contains("is not loaded into pointcloud_container"), "{logged}");

    // With its component it is loaded, unless it is to end by itself.
    let installed = json!({"rclcpp_components": "/components"}).to_string();
    let report = launch_beside(&python, DROP_IN[0].0, &arguments, &installed);
    assert_eq!(report["processes"][0]["executable"], "det_post");
    let loaded: Vec<&str> =
        arguments.iter().copied().filter(|of| !of.starts_with("build_only")).collect();
    let report = launch_beside(&python, DROP_IN[0].0, &loaded, &installed);
    let (process, component) = (node, &report["processes"][0]["components"][0]);
    assert_eq!(report["processes"][0]["container"], "pointcloud_container");
    assert_eq!(component["plugin"], "det_post::DetPost");
    for key in ["name", "files", "remappings"] {
        assert_eq!(component[key], process[key], "{key}");
    }
    assert_eq!(component["parameters"]["like"], "autoware_lidar_centerpoint");
    assert_eq!(component["parameters"]["has_twist"], true);

    // One folder per network, with only the file of the network.
    std::fs::remove_file(path(files[1])).unwrap();
    std::fs::write(path("ml_package.param.yaml"), "").unwrap();
    let report = launch(&python, DROP_IN[0].0, &[arguments[4]]);
    let found = texts(&report["processes"][0]["files"]);
    assert_eq!(found, ["ml_package.param.yaml", files[2]].map(path));
}

#[test]
fn a_camera_node_is_replaced_with_its_network_and_images() {
    let Some(python) = python() else { return };
    let base = ["data_path:=/my data", "input/image:=/cam0", "output/objects:=rois0"];
    for (file, name) in [
        (DROP_IN[2].0, "yolox-tiny"),
        (DROP_IN[3].0, "yolox-sPlus-opt-pseudoV2-T4-960x960-T4-seg16cls"),
    ] {
        for (more, image) in
            [("use_decompress:=true", "/cam0/compressed"), ("use_decompress:=false", "/cam0")]
        {
            let arguments = [&base[..], &[more]].concat();
            let report = launch(&python, file, &arguments);
            let node = &report["processes"][0];
            assert_eq!(texts(&node["arguments"]), ["run", "--like", "autoware_tensorrt_yolox"]);
            assert_eq!(node["remappings"], json!([["~/out/objects", "rois0"]]));
            let folder = "/my data/tensorrt_yolox";
            let parameters = json!({"input": image, "model_path": format!("{folder}/{name}.onnx"),
                "label_path": format!("{folder}/label.txt"), "build_only": false});
            assert_eq!(node["parameters"], parameters);
        }
    }
}

#[test]
fn cameras_beside_a_lidar_have_their_topics() {
    let Some(python) = python() else { return };
    let base = ["image2:=/cam2/image", "camera_info2:=/cam2/info"];
    for (more, parameters) in [
        ("use_decompress:=false", json!({"build_only": false})),
        ("use_decompress:=true", json!({"build_only": false, "use_compressed_images": true})),
    ] {
        let report = launch(&python, "launch/bevfusion.launch.xml", &[&base[..], &[more]].concat());
        let node = &report["processes"][0];
        assert_eq!(texts(&node["arguments"]), ["run", "--like", "autoware_bevfusion"]);
        assert_eq!(node["parameters"], parameters);
        let topics = node["remappings"].as_array().unwrap();
        for pair in [
            json!(["~/input/pointcloud", "/sensing/lidar/concatenated/pointcloud"]),
            json!(["~/input/image2", "/cam2/image"]),
            json!(["~/input/image2/compressed", "/cam2/image/compressed"]),
            json!(["~/input/camera_info2", "/cam2/info"]),
            json!(["~/input/image5", "/sensing/camera/camera5/image_rect_color"]),
        ] {
            assert!(topics.contains(&pair), "{pair}: {topics:?}");
        }
        assert_eq!(topics.len(), 2 + 3 * 6);
    }
}

/// The parameters of a process, given to `--like` as its launch file gives them, are read.
#[track_caller]
fn stands_for(process: &Value, package: &str) -> Config {
    assert_eq!(texts(&process["arguments"]), ["run", "--like", package]);
    let package: Package = package.parse().unwrap();
    let overrides = overrides(process);
    let source = Source { overrides, like: Some(package), ..Source::default() };
    let text = |key: &str| process[key].as_str().unwrap_or_default().to_owned();
    let node = NodeName::new(&text("namespace"), &text("name")).unwrap();
    let config = Config::read(&node, &source).unwrap();
    let parameters = &config.like.as_ref().unwrap().parameters;
    assert!(
        parameters.iter().all(|parameter| parameter.state != TranslationOutcome::Unknown),
        "{parameters:?}"
    );
    config
}

#[test]
fn a_node_of_yolo_ros_is_replaced_beside_its_followers() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join(".venv/lib/python3.12/site-packages");
    std::fs::create_dir_all(&packages).unwrap();
    let installed = json!({"yolo_ros": folder.path()}).to_string();
    let arguments =
        ["namespace:=eyes", "input_image_topic:=/cam", "use_3d:=True", "threshold:=1e-2"];
    let report = launch_beside(&python, "launch/yolo.launch.py", &arguments, &installed);
    assert_eq!(report["logged"], json!([]));
    let [node, tracking, in_space, debug] = report["processes"].as_array().unwrap().as_slice()
    else {
        panic!("{report}")
    };
    assert_eq!((&node["name"], &node["namespace"]), (&json!("yolo_node"), &json!("eyes")));
    assert_eq!(node["remappings"], json!([["image_raw", "/cam"]]));
    let config = stands_for(node, "yolo_ros");
    assert_eq!(config.channels[0].output, "/eyes/detections");
    for (follower, name, topic) in [
        (tracking, "tracking_node", None),
        (in_space, "detect_3d_node", Some("tracking")),
        (debug, "debug_node", Some("detections_3d")),
    ] {
        assert_eq!(
            (&follower["package"], &follower["executable"]),
            (&json!("yolo_ros"), &json!(name))
        );
        assert_eq!(follower["namespace"], "eyes");
        let path = follower["environment"]["PYTHONPATH"].as_str().unwrap();
        assert!(path.starts_with(packages.to_str().unwrap()), "{path}");
        let topics = follower["remappings"].as_array().unwrap();
        let of_detections = topics.iter().find(|pair| pair[0] == "detections");
        assert_eq!(of_detections.map(|pair| pair[1].as_str().unwrap()), topic, "{name}");
    }
    let single = ["use_tracking:=False", "use_debug:=False"];
    let report = launch_beside(&python, "launch/yolov8.launch.py", &single, &installed);
    assert_eq!(report["processes"].as_array().unwrap().len(), 1);
}

#[test]
fn decoders_of_isaac_ros_are_replaced_beside_its_encoder_and_tensorrt() {
    let Some(python) = python() else { return };
    let encoder = "/opt/isaac/share/isaac_ros_dnn_image_encoder";
    let installed = json!({"isaac_ros_dnn_image_encoder": encoder}).to_string();
    let sizes = ["input_image_width:=1920", "input_image_height:=1080"];
    let own = ["output_tensor_names:=['boxes']", "nms_threshold:=0.6"];
    let arguments = [&sizes[..], &own].concat();
    for (file, num_further) in [
        ("launch/yolov8_tensor_rt.launch.py", 0),
        ("launch/isaac_ros_yolov8_visualize.launch.py", 2),
    ] {
        let report = launch_beside(&python, file, &arguments, &installed);
        let [container, decoder, further @ ..] = report["processes"].as_array().unwrap().as_slice()
        else {
            panic!("{report}")
        };
        assert_eq!(further.len(), num_further);
        let [tensor_rt] = container["components"].as_array().unwrap().as_slice() else {
            panic!("{container}")
        };
        assert_eq!(tensor_rt["parameters"]["output_tensor_names"], json!(["boxes"]));
        let [included] = report["included"].as_array().unwrap().as_slice() else {
            panic!("{report}")
        };
        assert_eq!(included["path"], format!("{encoder}/launch/dnn_image_encoder.launch.py"));
        assert_eq!(included["arguments"]["input_image_width"], "1920");
        assert_eq!(included["arguments"]["component_container_name"], container["name"]);
        assert_eq!(decoder["name"], "yolov8_decoder_node");
        let config = stands_for(decoder, "isaac_ros_yolov8");
        assert_eq!(config.channels[0].inputs[0].topic, "/tensor_sub");
        let yaml = config.to_yaml();
        assert!(yaml.contains("0.6") && yaml.contains("boxes"), "{yaml}");
    }
    // Without the encoder's package there is nothing to start.
    let output = run(&python, "launch/yolov8_tensor_rt.launch.py", &sizes);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("isaac_ros_dnn_image_encoder"), "{stderr}");

    let given = ["confidence_threshold:=0.7"];
    let report = launch(&python, "launch/isaac_ros_rtdetr.launch.py", &given);
    let [container, decoder] = report["processes"].as_array().unwrap().as_slice() else {
        panic!("{report}")
    };
    let components = container["components"].as_array().unwrap();
    assert_eq!(components.len(), 8);
    let decoders = components.iter().filter(|of| of["name"] == "rtdetr_decoder").count();
    assert_eq!(decoders, 0);
    assert_eq!(decoder["name"], "rtdetr_decoder");
    assert!(stands_for(decoder, "isaac_ros_rtdetr").to_yaml().contains("0.7"));
}
