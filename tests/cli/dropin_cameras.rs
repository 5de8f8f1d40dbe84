//! The nodes of Isaac ROS and yolo_ros that ours replaces: from their parameters to ours.

use crate::common::replay::det_post;
use crate::common::vocabulary::vocabulary;
use det_post::config::{ChannelConfig, ChannelKind, Config, Package, Source};
use det_post_ros::{NodeName, OutputType, Parameter, ParameterValue};
use det_post_types::{ClassMode, EngineKind, Nms2d};

/// The configuration that stands for the node of a package with some parameters.
fn load(package: &str, parameters: &[&str]) -> det_post::Result<Config> {
    let package: Package = package.parse().unwrap();
    let (namespace, name) = package.node();
    let source = Source {
        files: Vec::new(),
        overrides: parameters.iter().map(|text| (*text).to_owned()).collect(),
        arguments: Vec::new(),
        like: Some(package),
        ..Source::default()
    };
    Config::read(&NodeName::new(namespace, name).unwrap(), &source)
}

/// Its one channel, a camera.
#[track_caller]
fn channel(package: &str, parameters: &[&str]) -> ChannelConfig {
    let config = load(package, parameters).unwrap_or_else(|error| panic!("{package}: {error}"));
    let [channel] = config.channels.as_slice() else { panic!("{config:?}") };
    channel.clone()
}

#[track_caller]
fn camera(channel: &ChannelConfig) -> &det_post::config::CameraConfig {
    match &channel.kind {
        ChannelKind::Camera(camera) => camera,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(package: &str, parameters: &[&str], part: &str) {
    let error = load(package, parameters).unwrap_err();
    assert!(error.message().contains(part), "{parameters:?}: {error}");
}

/// The next smaller number is not kept.
fn is_above(threshold: f32, given: f32) -> bool {
    threshold == given || threshold == given.next_up()
}

#[test]
fn a_decoder_of_yolov8_has_its_defaults_and_names() {
    let found = channel("isaac_ros_yolov8", &[]);
    assert_eq!((&*found.inputs[0].topic, &*found.output), ("/tensor_sub", "/detections_output"));
    assert_eq!(found.publish.format.output_type, OutputType::Detection2dArray);
    assert_eq!(found.publish.format.class_ids[79], "79");
    let of = camera(&found);
    assert_eq!((of.engine.kind, of.facts.class_names.len()), (EngineKind::External, 80));
    assert_eq!(of.facts.output_names, ["output_tensor"]);
    assert!(is_above(of.score_threshold, 0.25), "{}", of.score_threshold);
    let Nms2d::Iou(nms) = &of.nms else { panic!("{:?}", of.nms) };
    assert_eq!((nms.iou_threshold, &nms.class_mode), (0.45, &ClassMode::Agnostic));
    assert_eq!((of.source_size, of.facts.input_size), (None, None));

    let given = [
        "tensor_name:=output0",
        "confidence_threshold:=0.5",
        "nms_threshold:=0.7",
        "num_classes:=3",
        "network_image_width:=640",
        "network_image_height:=480",
        "source_size:=[1920, 1080]",
        "no_such_key:=1",
    ];
    let found = channel("isaac_ros_yolov8", &given);
    let of = camera(&found);
    assert_eq!(of.facts.output_names, ["output0"]);
    assert_eq!(of.facts.class_names, ["0", "1", "2"]);
    assert!(is_above(of.score_threshold, 0.5), "{}", of.score_threshold);
    let sizes =
        [of.facts.input_size, of.source_size].map(|size| size.map(|of| (of.width, of.height)));
    assert_eq!(sizes, [Some((640, 480)), Some((1920, 1080))]);

    for (parameter, part) in [
        ("num_classes:=0", "num_classes"),
        ("tensor_name:=3", "tensor_name"),
        ("confidence_threshold:=high", "confidence_threshold"),
        ("network_image_width:=640", "network_image_height"),
        ("source_size:=[1920, 1080]", "input_size"),
        ("device:=cuda:0", "external"),
    ] {
        refused("isaac_ros_yolov8", &[parameter], part);
    }
}

#[test]
fn a_decoder_of_rtdetr_has_its_defaults_and_names() {
    let found = channel("isaac_ros_rtdetr", &["scores_tensor_name:=s", "input_qos:=SENSOR_DATA"]);
    let of = camera(&found);
    assert_eq!(of.facts.output_names, ["boxes", "s", "labels"]);
    assert!(is_above(of.score_threshold, 0.9), "{}", of.score_threshold);
    assert_eq!(of.nms, Nms2d::None);
    assert_eq!(found.live.qos.reliability, det_post_ros::Reliability::BestEffort);
}

#[test]
fn yolo_ros_loads_the_network_that_was_exported() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("signs.pt");
    let found = channel("yolo_ros", &[&format!("model:={}", model.display())]);
    let of = camera(&found);
    assert_eq!(of.model_path, folder.path().join("signs.onnx"));
    assert_eq!((&*found.inputs[0].topic, &*found.output), ("/yolo/image_raw", "/yolo/detections"));
    assert_eq!(found.publish.format.output_type, OutputType::YoloDetectionArray);
    assert_eq!(found.live.enable_service.as_deref(), Some("enable"));
    assert!(found.live.is_enabled && is_above(of.score_threshold, 0.5));
    assert_eq!(of.max_detections, 300);

    let given = [
        "enable:=false",
        "threshold:=0.25",
        "iou:=0.7",
        "max_det:=20",
        "agnostic_nms:=true",
        "image_reliability:=1",
        "device:=cpu",
        "half:=true",
    ];
    let found = channel("yolo_ros", &given);
    let of = camera(&found);
    assert_eq!(of.model_path.to_str(), Some("yolov8m.onnx"));
    let Nms2d::Iou(nms) = &of.nms else { panic!("{:?}", of.nms) };
    assert_eq!((nms.iou_threshold, &nms.class_mode), (0.7, &ClassMode::Agnostic));
    assert_eq!((found.live.is_enabled, of.max_detections), (false, 20));
    assert_eq!(found.live.qos.reliability, det_post_ros::Reliability::Reliable);
    assert_eq!(found.device.to_string(), "cpu");
    refused("yolo_ros", &["model_type:=World"], "vocabulary_path");
    refused("yolo_ros", &["model_type:=Classify"], "model_type");

    // The switch sets their parameter, given or not.
    for parameters in [&[][..], &["enable:=true"]] {
        let config = load("yolo_ros", parameters).unwrap();
        let name = config.parameter_name("camera", "enabled");
        assert_eq!(name, "enable");
        let off = Parameter { name, value: ParameterValue::Flag(false) };
        let changed = config.with_parameters(&[off]).unwrap();
        assert!(!changed.channels[0].live.is_enabled, "{parameters:?}");
        let is_known = |name: &str| config.parameters().iter().any(|p| p.descriptor.name == name);
        assert!(is_known("threshold") && !is_known("score_threshold"));
    }
}

/// World and YOLOE take a vocabulary, and have the service that sets its classes.
#[test]
fn yolo_ros_finds_classes_by_their_vectors() {
    let folder = tempfile::tempdir().unwrap();
    vocabulary(&folder.path().join("words.safetensors"));
    let words = format!("vocabulary_path:={}", folder.path().join("words.safetensors").display());
    for (model_type, model, layout) in [
        ("World", "yolov8s-world.pt", "v8"),
        ("YOLOE", "yoloe-11s-seg.pt", "seg"),
        ("YOLO", "yolov8s-worldv2.pt", "v8"),
    ] {
        let [model_type, model] = [format!("model_type:={model_type}"), format!("model:={model}")];
        let given = [&*model_type, &*model, &*words, "classes:=[bus, dog]"];
        let found = channel("yolo_ros", &given);
        let of = camera(&found);
        assert_eq!(of.facts.class_names, ["bus", "dog"], "{model}");
        assert_eq!(of.facts.layout.name(), layout, "{model}");
        assert_eq!(of.classes_service.as_deref(), Some("set_classes"), "{model}");
        let [classes, twice] = ["classes:=[busss, doog]", "classes:=[]"];
        refused("yolo_ros", &[given[0], given[1], given[2], classes], "did you mean \"dog\"?");
        refused("yolo_ros", &[given[0], given[1], given[2], twice], "classes");
    }
    let without = channel("yolo_ros", &[]);
    assert_eq!(camera(&without).classes_service, None);
    let error = load("yolo_ros", &["classes_service:=set_classes"]).unwrap_err();
    assert!(error.message().contains("classes_service"), "{error}");
    // The service of the node in C++ has other answers, and selects classes.
    let newer = [NEWER, &[&words, "classes:=[bus]"]].concat();
    assert_eq!(camera(&channel("yolo_ros", &newer)).classes_service, None);
}

/// A key that would read another topic is refused, also in a section for many nodes.
#[test]
fn yolo_ros_refuses_keys_of_topics_that_have_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("yolo.yaml");
    for (key, value, is_refused) in [
        ("sub_topic_name", "/front/image", true),
        ("input_topic", "/front/image", true),
        ("yolo.rgb_topic", "/front/image", true),
        ("use_compressed", "true", true),
        ("use_compressed", "false", false),
        ("image_transport", "compressed", true),
        ("image_transport", "raw", false),
        ("topic_of_something_else", "/x", false),
    ] {
        let text = format!("/**:\n  ros__parameters:\n    model: n.onnx\n    {key}: {value}\n");
        std::fs::write(&path, text).unwrap();
        let run = det_post(&["check", "--like", "yolo_ros", path.to_str().unwrap()]);
        run.expect_code(if is_refused { 2 } else { 0 });
        assert!(!is_refused || run.stderr.contains(key), "{key}: {}", run.stderr);
        assert!(!is_refused || run.stderr.contains("-r image_raw:=TOPIC"), "{}", run.stderr);
    }
}

/// The file of the node in C++, with values of our own.
const NEWER: &[&str] = &[
    "model_type:=auto",
    "model:=n.onnx",
    "model_repo:=''",
    "provider:=auto",
    "threshold:=0.6",
    "image_reliability:=1",
    "image_topic:=/camera/rgb/image_raw",
    "n_threads:=2",
    "max_fps:=0",
    "trt_fp16_enable:=true",
];

#[test]
fn yolo_ros_in_cpp_has_other_keys_and_defaults() {
    let found = channel("yolo_ros", NEWER);
    let of = camera(&found);
    let topics = (&*found.inputs[0].topic, &*found.output);
    assert_eq!(topics, ("/camera/rgb/image_raw", "/yolo/detections"));
    assert_eq!((of.score_threshold, of.engine.threads), (0.6, Some(2)));
    assert_eq!(found.live.qos.reliability, det_post_ros::Reliability::Reliable);
    let Nms2d::Iou(nms) = &of.nms else { panic!("{:?}", of.nms) };
    assert_eq!((nms.iou_threshold, of.facts.layout.name()), (0.45, "v8"));

    let of_device = |device: &str| channel("yolo_ros", &["n_threads:=-1", "model:=n.onnx", device]);
    for (given, device) in
        [("device:=cuda:0", "auto"), ("device:=trt:1", "cuda:1"), ("provider:=cpu", "cpu")]
    {
        let found = of_device(given);
        assert_eq!((&*found.device.to_string(), camera(&found).score_threshold), (device, 0.7));
        assert_eq!(found.inputs[0].topic, "/yolo/image");
    }
    let with = |more: &[&'static str]| [&["n_threads:=-1"], more].concat();
    let layout =
        |more: &[&'static str]| camera(&channel("yolo_ros", &with(more))).facts.layout.name();
    assert_eq!(layout(&["model:=yolo26m-obb.onnx"]), "obb");
    assert_eq!(layout(&["model:=yolo26m-obb.onnx", "model_type:=YOLO"]), "v8");
    assert_eq!(layout(&["model:=m.onnx", "model_type:=OBB"]), "obb");
    for given in [
        &["model:=m.onnx", "model_type:=Pose"][..],
        &["model:=yolo11n-pose.onnx"],
        &["model:=yolo11n-pose.onnx", "model_type:=YOLO"],
    ] {
        assert_eq!(layout(given), "pose");
    }
    for given in [&["model:=m.onnx", "model_type:=Segment"][..], &["model:=yolo26s-seg.onnx"]] {
        assert_eq!(layout(given), "seg");
    }
    for (more, part) in [
        (&["model:=m.onnx", "model_type:=Classify"][..], "model_type"),
        (&["model:=yolo26s-cls.onnx"], "yolo26s-cls.onnx"),
        (&[], "model: is missing"),
        (&["model:=m.onnx", "depth_image_topic:=/depth"], "names a topic"),
    ] {
        refused("yolo_ros", &with(more), part);
    }
}

#[test]
fn yolo_ros_reads_a_network_that_was_downloaded() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("models--a--b");
    std::fs::create_dir_all(kept.join("refs")).unwrap();
    std::fs::write(kept.join("refs/main"), "abc\n").unwrap();
    let cache = format!("cache_dir:={}", folder.path().display());
    let given = ["model_repo:=a/b", "model_filename:=n.onnx", &cache, "model:=other.onnx"];
    let found = channel("yolo_ros", &given);
    assert_eq!(camera(&found).model_path, kept.join("snapshots/abc/n.onnx"));
}

#[test]
fn yolo_ros_of_plugins_is_read_with_one_camera() {
    let given = [
        "plugins:=[detection, tracking]",
        "cameras:=[cam0]",
        "cam0.rgb_topic:=/rgb",
        "cam0.depth_topic:=/depth",
        "cam0.image_reliability:=1",
        "detection.plugin:=yolo_ros/DetectionPlugin",
        "detection.model_path:=n.onnx",
        "detection.iou:=0.5",
        "detection.max_batch_size:=8",
        "tracking.plugin:=yolo_ros/TrackingPlugin",
    ];
    let found = channel("yolo_ros", &given);
    let of = camera(&found);
    assert_eq!((&*found.inputs[0].topic, &*found.output), ("/rgb", "/yolo/cam0/detections"));
    assert_eq!((of.score_threshold, of.model_path.to_str()), (0.7, Some("n.onnx")));
    let Nms2d::Iou(nms) = &of.nms else { panic!("{:?}", of.nms) };
    assert_eq!(nms.iou_threshold, 0.5);
    refused("yolo_ros", &[&given[..], &["cameras:=[a, b]"]].concat(), "one camera");
}

/// Sections by the name of a node apply to a node of that name, as live.
#[test]
fn commands_take_the_name_of_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("yolo.yaml");
    let text = "/front/finder:\n  ros__parameters:\n    model: n.onnx\n    provider: cpu\n    image_topic: images\n    \
                model_type: auto\n";
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let name = ["--ros-args", "-r", "__ns:=/front", "-r", "__node:=finder", "-p", "threshold:=0.9"];
    for command in [&["check", "--like", "yolo_ros"][..], &["migrate"]] {
        let run = det_post(&[command, &[&file], &name].concat());
        run.expect_code(0);
        assert!(run.stdout.contains("score_threshold: 0.9"), "{}", run.stdout);
        assert!(run.stdout.contains("input: images"), "{}", run.stdout);
    }
    let run = det_post(&["check", "--like", "yolo_ros", &file]);
    assert!(run.stderr.contains("no section applies to /yolo/yolo_node"), "{}", run.stderr);
    // Not a file of defaults.
    let run = det_post(&["migrate", "--like", "yolo_ros", &file]);
    run.expect_code(2);
    let named = "found `/front/finder`; `--ros-args -r __ns:=/front -r __node:=finder`";
    assert!(run.stderr.contains(named) && run.stdout.is_empty(), "{} {}", run.stdout, run.stderr);
    std::fs::write(&file, text.replace("/front/finder", "finder")).unwrap();
    let run = det_post(&["migrate", "--like", "yolo_ros", &file]);
    run.expect_code(2);
    assert!(run.stderr.contains("`--ros-args -r __ns:=/ -r __node:=finder`"), "{}", run.stderr);
    let name = ["--ros-args", "-r", "__ns:=/", "-r", "__node:=finder"];
    det_post(&[&["migrate", "--like", "yolo_ros", &file][..], &name].concat()).expect_code(0);
}

#[test]
fn errors_name_the_key_of_the_file() {
    let given = ["model_params.voxel_size:=[0.0, 0.32, 8.0]"];
    refused("autoware_lidar_centerpoint", &given, "model_params.voxel_size: as");
}

/// Live parameters have their names whether they are given or not.
#[test]
fn parameters_that_are_not_given_are_set_under_their_names() {
    for (package, names) in [
        ("yolo_ros", &["threshold", "iou", "max_det", "enable", "agnostic_nms"][..]),
        ("isaac_ros_yolov8", &["confidence_threshold", "nms_threshold"]),
        ("isaac_ros_rtdetr", &["confidence_threshold"]),
    ] {
        let declared = load(package, &[]).unwrap().parameters();
        for name in names {
            let found = declared.iter().find(|known| known.descriptor.name == *name);
            let found = found.unwrap_or_else(|| panic!("{package} has no {name}"));
            assert!(!found.descriptor.is_read_only, "{package}: {name}");
        }
    }
    let value = ParameterValue::Number(0.75);
    let change = Parameter { name: "threshold".to_owned(), value };
    let changed = load("yolo_ros", &[]).unwrap().with_parameters(&[change]).unwrap();
    assert!(is_above(camera(&changed.channels[0]).score_threshold, 0.75));
    // Our own name holds beside a value of theirs that is not given.
    let own = load("yolo_ros", &["score_threshold:=0.625"]).unwrap();
    assert!(is_above(camera(&own.channels[0]).score_threshold, 0.625));
}
