//! Parameter files: what ships loads, what is broken is refused by name, and
//! no text makes the reader panic.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use det_post::config::{
    ChannelKind, Config, DeclaredParameter, EncoderFacts, LidarOutputs, SparseEncoderConfig,
    manual_tables,
};
use det_post::{ErrorKind, Result};
use det_post_ros::{NodeName, ObjectLabel, OutputType};
use det_post_types::{
    ChannelTransform, ClassMode, DeviceChoice, EncoderPrecision, EngineKind, EngineOptions,
    FailurePolicy, Fallback, GpuEngineOptions, Nms2d, Nms3d, NmsRotated, Provider, SizeOrder,
    Usage, YawConvention, YoloLayout,
};

use crate::common::onnx::Graph;
use crate::common::tables::assert_tables;

const CAMERA: [&str; 3] =
    ["camera.input:=/image", "camera.head:=yolox", "camera.model_path:=model.onnx"];
const LIDAR: [&str; 4] = [
    "lidar.input:=/points",
    "lidar.head:=centerpoint_autoware",
    "lidar.encoder_path:=encoder.onnx",
    "lidar.model_path:=model.onnx",
];

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name)
}

fn load_overrides(base: &[&str], more: &[&str]) -> Result<Config> {
    let overrides: Vec<String> = base.iter().chain(more).map(|text| (*text).to_owned()).collect();
    Config::load(&[], &overrides)
}

fn load_text(text: &str) -> Result<Config> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Config::load(&[file.path().to_owned()], &[])
}

#[test]
fn shipped_files_hold_the_defaults() {
    let camera = Config::load(&[shipped("camera.param.yaml")], &[]).unwrap();
    let bare = [
        "camera.input:=/sensing/camera/image_raw",
        "camera.head:=yolox",
        "camera.model_path:=models/yolox.onnx",
    ];
    assert_eq!(camera, load_overrides(&bare, &[]).unwrap());
    let lidar = Config::load(&[shipped("lidar.param.yaml")], &[]).unwrap();
    let bare = [
        "lidar.input:=/sensing/lidar/points",
        "lidar.head:=centerpoint_autoware",
        "lidar.encoder_path:=models/pts_voxel_encoder.onnx",
        "lidar.model_path:=models/pts_backbone_neck_head.onnx",
    ];
    assert_eq!(lidar, load_overrides(&bare, &[]).unwrap());
}

#[test]
fn the_demos_differ_in_one_network_by_itself() {
    let files = ["demo.param.yaml", "demo_voxel.param.yaml", "demo_masks.param.yaml"];
    let [pillars, voxels, masks] = files.map(|file| {
        let same = ["camera.model_path:=c", "lidar.encoder_path:=e", "lidar.model_path:=m"];
        let config = Config::load(&[shipped(file)], &same.map(str::to_owned)).unwrap();
        config.to_yaml().lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let only_in = |some: &[String], others: &[String]| {
        let lines = some.iter().filter(|line| !others.contains(line));
        lines.map(|line| line.trim().split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(only_in(&pillars, &voxels), ["head"]);
    assert!(only_in(&voxels, &pillars).contains(&"head".to_owned()));
    assert_eq!(only_in(&pillars, &masks), ["head"]);
    assert!(only_in(&masks, &pillars).contains(&"head".to_owned()));
}

#[test]
fn every_shipped_head_makes_a_channel_that_survives_its_own_yaml() {
    for (head, num_features) in [
        ("yolox", None),
        ("yolov5", None),
        ("yolov5_raw", None),
        ("yolov8", None),
        ("yolov10", None),
        ("yolo_obb", None),
        ("rtdetr", None),
        ("rfdetr", None),
        ("dfine", None),
        ("dfine_raw", None),
        ("centerpoint_autoware", Some(9)),
        ("centerpoint_autoware_short_range", Some(10)),
        ("centerpoint_nuscenes", Some(10)),
        ("pointpillars_kitti", Some(10)),
        ("centerpoint_voxel_nuscenes_0075", Some(5)),
        ("centerpoint_voxel_nuscenes_01", Some(5)),
        ("centerpoint_voxel_waymo", Some(5)),
        ("second_kitti", Some(4)),
        ("demo_camera", None),
        ("demo_camera_seg", None),
        ("demo_lidar", Some(10)),
        ("demo_voxel", Some(5)),
    ] {
        let base: &[&str] = if num_features.is_some() { &LIDAR } else { &CAMERA };
        let name = if num_features.is_some() { "lidar" } else { "camera" };
        let config = load_overrides(base, &[&format!("{name}.head:={head}")]).unwrap();
        assert_eq!(load_text(&config.to_yaml()).unwrap(), config, "{head}");
        match &config.channels[0].kind {
            ChannelKind::Lidar(lidar) => {
                assert_eq!(Some(lidar.facts.num_features()), num_features, "{head}");
                if let LidarOutputs::Center(center) = &lidar.facts.outputs {
                    let decode = lidar.center_decode(center);
                    assert_eq!(
                        decode.score_thresholds.per_class.len(),
                        lidar.facts.class_names.len()
                    );
                }
            }
            ChannelKind::Camera(camera) => {
                let num_classes = match head {
                    "demo_camera" | "demo_camera_seg" => 5,
                    "yolo_obb" => 15,
                    "rfdetr" => 91,
                    _ => 80,
                };
                assert_eq!(camera.facts.class_names.len(), num_classes, "{head}");
                let is_final = camera.facts.layout.is_end_to_end();
                assert_eq!(camera.nms == Nms2d::None, is_final, "{head}");
                let is_rotated = matches!(camera.nms, Nms2d::Rotated(_));
                assert_eq!(is_rotated, head == "yolo_obb", "{head}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn facts_of_voxel_heads_arrive() {
    let lidar = |head: &str, more: &[&str]| {
        let head = format!("lidar.head:={head}");
        let config = load_overrides(&LIDAR, &[&[&head[..]], more].concat()).unwrap();
        let ChannelKind::Lidar(lidar) = &config.channels[0].kind else { panic!() };
        (**lidar).clone()
    };
    // Cells along x, y, z; past sweeps; transform of the intensity; points of a voxel; voxels.
    let of_scan = (ChannelTransform::Identity, 10);
    for (head, cells, num_past, (transform, num_points), voxel_capacity) in [
        ("centerpoint_voxel_nuscenes_0075", [1440, 1440, 40], 9, of_scan, 160_000),
        ("centerpoint_voxel_nuscenes_01", [1024, 1024, 40], 9, of_scan, 120_000),
        ("centerpoint_voxel_waymo", [1504, 1504, 40], 0, (ChannelTransform::Tanh, 5), 150_000),
        ("second_kitti", [1408, 1600, 40], 0, (ChannelTransform::Identity, 5), 40_000),
        ("demo_voxel", [1024, 1024, 40], 2, of_scan, 160_000),
    ] {
        let config = lidar(head, &[]);
        let facts = &config.facts;
        let EncoderFacts::Voxels(voxels) = facts.encoder else { panic!("{head}") };
        assert_eq!(facts.grid.grid_size(), cells, "{head}");
        assert_eq!(config.densification.num_past_sweeps, num_past, "{head}");
        assert_eq!(voxels.intensity_transform, transform, "{head}");
        assert_eq!(facts.max_points_per_voxel, num_points, "{head}");
        assert_eq!(config.voxel_capacity, voxel_capacity, "{head}");
        assert_eq!(config.sparse_encoder, SparseEncoderConfig::default(), "{head}");
    }
    // The two conventions of boxes.
    for (head, size_order, yaw) in [
        (
            "centerpoint_voxel_nuscenes_0075",
            SizeOrder::WidthLengthHeight,
            YawConvention::ClockwiseFromMinusY,
        ),
        (
            "centerpoint_voxel_nuscenes_01",
            SizeOrder::LengthWidthHeight,
            YawConvention::CounterClockwise,
        ),
    ] {
        let LidarOutputs::Center(center) = lidar(head, &[]).facts.outputs else { panic!("{head}") };
        assert_eq!((center.size_order, center.yaw), (size_order, yaw), "{head}");
        assert_eq!((center.downsample_factor, center.tasks.len()), (8, 6), "{head}");
    }
    let given = lidar(
        "second_kitti",
        &[
            "lidar.voxel_capacity:=9000",
            "lidar.encoder.precision:=bf16",
            "lidar.encoder.level_capacities:=[8000, 7000]",
        ],
    );
    let expected = SparseEncoderConfig {
        precision: EncoderPrecision::Bf16,
        level_capacities: Some(vec![8000, 7000]),
    };
    assert_eq!((given.voxel_capacity, given.sparse_encoder), (9000, expected));
    assert_eq!(lidar("pointpillars_kitti", &["lidar.voxel_capacity:=77"]).voxel_capacity, 77);
}

#[test]
fn facts_of_two_heads_arrive() {
    let config = load_overrides(&CAMERA, &["camera.head:=yolov5_raw", "device:=cuda:3"]).unwrap();
    assert_eq!(config.device, DeviceChoice::Cuda(3));
    let ChannelKind::Camera(camera) = &config.channels[0].kind else { panic!() };
    let YoloLayout::V5Raw { levels } = &camera.facts.layout else { panic!() };
    assert_eq!((levels[1].stride, levels[2].anchors[1]), (16, [156.0, 198.0]));
    assert_eq!(camera.facts.normalization.alpha, [1.0 / 255.0; 3]);
    assert_eq!(config.channels[0].output, "/det_post/camera/detections");

    let config = load_overrides(&LIDAR, &["lidar.head:=centerpoint_nuscenes"]).unwrap();
    let ChannelKind::Lidar(lidar) = &config.channels[0].kind else { panic!() };
    assert_eq!(lidar.facts.grid.grid_size(), [512, 512, 1]);
    let LidarOutputs::Center(center) = &lidar.facts.outputs else { panic!() };
    assert_eq!(lidar.center_decode(center).cell_size_m, [0.8, 0.8]);
    let [Nms3d::Circle(circle)] = &lidar.nms[..] else { panic!() };
    assert_eq!(circle.class_mode, ClassMode::Groups(vec![0, 1, 1, 2, 2, 3, 4, 4, 5, 5]));
    assert_eq!(lidar.densification.num_past_sweeps, 9);
}

#[test]
fn a_channel_says_where_and_how_it_runs() {
    let config = load_overrides(&CAMERA, &[]).unwrap();
    let (channel, ChannelKind::Camera(camera)) = (&config.channels[0], &config.channels[0].kind)
    else {
        panic!()
    };
    assert_eq!((channel.device, channel.failures), (DeviceChoice::Auto, FailurePolicy::default()));
    assert_eq!(camera.engine, EngineOptions::default());

    let base: Vec<&str> = CAMERA.iter().chain(&LIDAR).copied().collect();
    let more = [
        "device:=cuda:1",
        "camera.device:=cuda:0",
        "camera.engine.provider:=tensorrt",
        "camera.engine.fp16:=true",
        "camera.engine.cache_folder:=/var/cache/det_post",
        "camera.engine.cuda_graph:=always",
        "camera.engine.channels_last:=never",
        "camera.engine.tf32:=false",
        "camera.fallback:=cpu",
        "camera.max_failures:=5",
        "camera.failure_window_s:=2",
    ];
    let config = load_overrides(&base, &more).unwrap();
    let [camera, lidar] = &config.channels[..] else { panic!() };
    assert_eq!((camera.device, lidar.device), (DeviceChoice::Cuda(0), DeviceChoice::Cuda(1)));
    let policy =
        FailurePolicy { max_failures: 5, window: Duration::from_secs(2), fallback: Fallback::Cpu };
    assert_eq!((camera.failures, lidar.failures), (policy, FailurePolicy::default()));
    let ChannelKind::Camera(camera) = &camera.kind else { panic!() };
    let gpu = GpuEngineOptions {
        provider: Provider::TensorRt,
        cuda_graph: Usage::Always,
        channels_last: Usage::Never,
        tf32: false,
        fp16: true,
        keep_f32: Vec::new(),
        channels_last_inputs: false,
        cache_folder: Some("/var/cache/det_post".into()),
    };
    assert_eq!(camera.engine.gpu, gpu);
}

#[test]
fn layers_that_keep_32_bit_floats_are_a_list_of_the_engine_cuda() {
    let base: Vec<&str> = CAMERA.to_vec();
    for (more, expected) in [
        (&[][..], &[][..]),
        (&["camera.engine.keep_f32:=[]"], &[]),
        (&["camera.engine.keep_f32:=/model.22"], &["/model.22"]),
        (&["camera.engine.keep_f32:=[a, b]", "camera.engine.kind:=cuda"], &["a", "b"]),
    ] {
        let config = load_overrides(&base, more).unwrap();
        let ChannelKind::Camera(camera) = &config.channels[0].kind else { panic!() };
        assert_eq!(camera.engine.gpu.keep_f32, expected, "{more:?}");
        let by_itself = Config::parse(&config.channels[0].to_yaml()).unwrap();
        assert_eq!(by_itself.channels[0].kind, config.channels[0].kind);
    }
    for (more, words) in [
        (&["camera.engine.keep_f32:=[1]"][..], "camera.engine.keep_f32: found [1]"),
        (
            &["camera.engine.keep_f32:=[a]", "camera.engine.kind:=onnxruntime"],
            "the engines auto, cuda",
        ),
        (&["camera.engine.keep_f32:=[a]", "camera.engine.provider:=cpu"], "the provider auto"),
    ] {
        let error = load_overrides(&base, more).unwrap_err();
        assert!(error.message().contains(words), "{more:?}: {error}");
    }
}

#[test]
fn a_channel_survives_its_own_yaml() {
    let base: Vec<&str> = CAMERA.iter().chain(&LIDAR).copied().collect();
    let more = ["camera.isolate:=true", "camera.device:=cuda:2", "lidar.score_thresholds:=[0.7]"];
    let config = load_overrides(&base, &more).unwrap();
    assert!(config.channels[0].is_isolated && !config.channels[1].is_isolated);
    for channel in &config.channels {
        let by_itself = Config::parse(&channel.to_yaml()).unwrap();
        assert_eq!(by_itself.channels, std::slice::from_ref(channel));
    }
    let error = Config::parse("[").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[test]
fn an_engine_that_cannot_run_on_the_device_is_refused() {
    for (more, key) in [
        (&["device:=cpu", "camera.engine.provider:=cuda"][..], "camera.engine.provider"),
        (&["camera.device:=cpu", "camera.engine.provider:=tensorrt"], "camera.engine.provider"),
        (&["camera.engine.kind:=rten", "camera.engine.provider:=cuda"], "camera.engine.provider"),
        (&["camera.engine.kind:=cuda", "camera.engine.provider:=cpu"], "camera.engine.provider"),
        (
            &["camera.engine.kind:=cuda", "camera.engine.provider:=tensorrt"],
            "camera.engine.provider",
        ),
        (&["camera.engine.kind:=cuda", "camera.device:=cpu"], "camera.engine.kind"),
        (&["camera.device:=cpu", "camera.engine.fp16:=true"], "camera.engine.fp16"),
        (&["camera.engine.provider:=cpu", "camera.engine.fp16:=true"], "camera.engine.fp16"),
        (&["camera.engine.cache_folder:=x"], "camera.engine.cache_folder"),
        (&["camera.device:=gpu"], "camera.device"),
        (&["camera.max_failures:=0"], "camera.max_failures"),
    ] {
        let error = load_overrides(&CAMERA, more).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains(&format!("{key}: found")), "{more:?}: {error}");
        assert_eq!(error.message().lines().count(), 1, "{error}");
    }
    load_overrides(&CAMERA, &["device:=cpu", "camera.engine.provider:=cpu"]).unwrap();
}

#[test]
fn files_merge_and_overrides_win() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "det_post:\n  ros__parameters:\n    camera: {score_threshold: 1, nms.iou_threshold: 0.6}\n\
                other:\n  ros__parameters: {x: 1}\n";
    std::fs::write(file.path(), text).unwrap();
    let files = [shipped("camera.param.yaml"), file.path().to_owned()];
    let overrides = [
        "camera.nms.iou_threshold:=0.7",
        "front.head:=yolov8",
        "front.input:=x",
        "front.model_path:=a.onnx",
        "camera.class_filter:=[truck, car]",
    ];
    let config = Config::load(&files, &overrides.map(str::to_owned)).unwrap();
    let names: Vec<&str> = config.channels.iter().map(|channel| &*channel.name).collect();
    assert_eq!(names, ["camera", "front"]);
    assert_eq!(config.channels[1].inputs[0].topic, "/x");
    let ChannelKind::Camera(camera) = &config.channels[0].kind else { panic!() };
    let Nms2d::Iou(nms) = &camera.nms else { panic!() };
    assert_eq!((camera.score_threshold, nms.iou_threshold), (1.0, 0.7));
    assert_eq!(camera.class_filter, [2, 7]);
}

#[test]
fn thresholds_by_distance_and_forbidden_pairs() {
    let config = load_overrides(
        &LIDAR,
        &[
            "lidar.distance_upper_limits_m:=[50, 90]",
            "lidar.score_thresholds_by_distance.BUS:=[0.1, 0.2]",
            "lidar.nms.kind:=bev",
            "lidar.nms.forbidden_pairs:=[PEDESTRIAN-*, CAR-PEDESTRIAN]",
        ],
    )
    .unwrap();
    let ChannelKind::Lidar(lidar) = &config.channels[0].kind else { panic!() };
    assert_eq!(lidar.score_thresholds.per_class[2], [0.1, 0.2]);
    assert_eq!(lidar.score_thresholds.per_class[0], [0.35, 0.35]);
    let [Nms3d::Bev(bev)] = &lidar.nms[..] else { panic!() };
    assert_eq!(bev.forbidden_pairs, [[0, 4], [1, 4], [2, 4], [3, 4]]);
    assert_eq!(bev.search_distance_m, f32::INFINITY);
}

#[test]
fn keys_of_suppression_mean_the_same_for_every_sensor() {
    let nms_of = |base: &[&str], more: &[&str]| {
        let config = load_overrides(base, more).unwrap();
        match config.channels.into_iter().next().unwrap().kind {
            ChannelKind::Camera(camera) => match camera.nms {
                Nms2d::Iou(nms) => nms.class_mode,
                other => panic!("{other:?}"),
            },
            ChannelKind::Lidar(lidar) => match &lidar.nms[..] {
                [Nms3d::Circle(nms)] => nms.class_mode.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    for (mode, of_camera, of_lidar) in [
        ("aware", ClassMode::Aware, ClassMode::Aware),
        ("agnostic", ClassMode::Agnostic, ClassMode::Agnostic),
        // One task each.
        ("task", ClassMode::Agnostic, ClassMode::Groups(vec![0; 5])),
    ] {
        let key = |name: &str| format!("{name}.nms.class_mode:={mode}");
        assert_eq!(nms_of(&CAMERA, &[&key("camera")]), of_camera);
        assert_eq!(nms_of(&LIDAR, &[&key("lidar")]), of_lidar);
    }
    assert_eq!(nms_of(&CAMERA, &[]), ClassMode::Aware);
    assert_eq!(nms_of(&LIDAR, &[]), ClassMode::Agnostic);

    let config = load_overrides(&LIDAR, &["lidar.class_filter:=[BUS, CAR]"]).unwrap();
    let ChannelKind::Lidar(lidar) = &config.channels[0].kind else { panic!() };
    let infinite = f32::INFINITY;
    assert_eq!(
        lidar.score_thresholds.per_class.concat(),
        [0.35, infinite, 0.35, infinite, infinite]
    );
    assert_eq!(config.channels[0].kind.lowest_score_threshold(), 0.35);
}

#[test]
fn former_keys_are_accepted_with_a_warning() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let class_mode = |more: &[&str]| {
        let config = load_overrides(&CAMERA, more)?;
        let ChannelKind::Camera(camera) = &config.channels[0].kind else { panic!() };
        let Nms2d::Iou(nms) = &camera.nms else { panic!() };
        Ok::<_, det_post::Error>(nms.class_mode.clone())
    };
    tracing::subscriber::with_default(subscriber, || {
        let former = "camera.nms.class_aware:=false";
        assert_eq!(class_mode(&[former]).unwrap(), ClassMode::Agnostic);
        // The present key goes first.
        let both = ["camera.nms.class_mode:=aware", former];
        assert_eq!(class_mode(&both).unwrap(), ClassMode::Aware);
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let warning = "camera.nms.class_aware is deprecated: use camera.nms.class_mode: agnostic";
    assert_eq!(log.lines().filter(|line| line.contains(warning)).count(), 2, "{log}");

    // In a head's defaults, too.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head.yaml");
    let text = std::fs::read_to_string(shipped("heads/yolox.yaml")).unwrap();
    std::fs::write(&path, text + "defaults: {nms: {class_aware: false}}\n").unwrap();
    let head = format!("camera.head:={}", path.display());
    assert_eq!(class_mode(&[&head]).unwrap(), ClassMode::Agnostic);
}

#[test]
fn the_output_type_follows_from_the_family() {
    let output_type = |base: &[&str], more: &[&str]| {
        load_overrides(base, more).map(|config| config.channels[0].publish.format.output_type)
    };
    assert_eq!(output_type(&CAMERA, &[]).unwrap(), OutputType::Detection2dArray);
    assert_eq!(output_type(&LIDAR, &[]).unwrap(), OutputType::Detection3dArray);
    let error = output_type(&CAMERA, &["camera.output_type:=detection_3d_array"]).unwrap_err();
    assert!(error.message().contains("allowed: detection_2d_array"), "{error}");
}

#[test]
fn rotated_boxes_are_suppressed_as_such_and_need_one_scale() {
    let base = [&CAMERA[..], &["camera.head:=yolo_obb"]].concat();
    let nms = |more: &[&str]| match &load_overrides(&base, more).unwrap().channels[0].kind {
        ChannelKind::Camera(camera) => camera.nms.clone(),
        ChannelKind::Lidar(_) | ChannelKind::Surround(_) => panic!("a camera head"),
    };
    let rotated =
        |iou_threshold, class_mode| Nms2d::Rotated(NmsRotated { iou_threshold, class_mode });
    assert_eq!(nms(&[]), rotated(0.45, ClassMode::Aware));
    let more = ["camera.nms.iou_threshold:=0.7", "camera.nms.class_mode:=agnostic"];
    assert_eq!(nms(&more), rotated(0.7, ClassMode::Agnostic));
    assert_eq!(nms(&["camera.nms.kind:=none"]), Nms2d::None);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head.yaml");
    let text = std::fs::read_to_string(shipped("heads/yolo_obb.yaml")).unwrap();
    std::fs::write(&path, text.replace("placement: center", "placement: stretch")).unwrap();
    let head = format!("camera.head:={}", path.display());
    let error = load_overrides(&CAMERA, &[&head]).unwrap_err();
    assert!(error.message().contains("placement: found \"stretch\""), "{error}");
    assert!(error.message().contains("one scale for both axes"), "{error}");
}

#[test]
fn an_output_is_no_input() {
    for more in [
        &["camera.output:=/image"][..],
        &["camera.output:=image"],
        &["b.head:=yolov8", "b.model_path:=b.onnx", "b.input:=/det_post/camera/detections"],
    ] {
        let error = load_overrides(&CAMERA, more).unwrap_err();
        assert!(error.message().contains("camera.output: found"), "{more:?}: {error}");
        assert!(error.message().contains("a topic that is no input"), "{more:?}: {error}");
    }
}

#[test]
fn capacities_that_do_not_fit_into_memory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head.yaml");
    let text = std::fs::read_to_string(shipped("heads/centerpoint_autoware.yaml")).unwrap();
    let text = text
        .replace("voxel_capacity: 40000", "voxel_capacity: 1048576")
        .replace("max_points_per_voxel: 32", "max_points_per_voxel: 1024");
    std::fs::write(&path, text).unwrap();
    let head = format!("lidar.head:={}", path.display());
    let error = load_overrides(&LIDAR, &[&head]).unwrap_err();
    let part = "lidar.voxel_capacity: found 1048576 with max_points_per_voxel 1024";
    assert!(error.message().contains(part), "{error}");
    assert!(error.message().contains("MiB of memory"), "{error}");
}

#[test]
fn what_is_wrong_is_named() {
    let camera: &[&str] = &CAMERA;
    let lidar: &[&str] = &LIDAR;
    let rotated: &[&str] = &[&CAMERA[..], &["camera.head:=yolo_obb"]].concat();
    let voxels: &[&str] = &[&LIDAR[..], &["lidar.head:=second_kitti"]].concat();
    // (base, override, parts of the message)
    let cases: &[(&[&str], &str, &[&str])] = &[
        (camera, "camera.nms.iou_treshold:=0.5", &["did you mean `camera.nms.iou_threshold`?"]),
        (camera, "devise:=cpu", &["devise: unknown key", "did you mean `device`?"]),
        (camera, "device:=gpu", &["device: found \"gpu\"", "cuda:N"]),
        (
            camera,
            "camera.score_threshold:=1.5",
            &["camera.score_threshold: found 1.5", "from 0 to 1"],
        ),
        (camera, "camera.score_threshold:=.nan", &["camera.score_threshold: found NaN"]),
        (camera, "camera.score_threshold:='0.5'", &["camera.score_threshold: found \"0.5\""]),
        (camera, "camera.score_threshold:=", &["camera.score_threshold: found nothing"]),
        (camera, "camera.max_detections:=0", &["camera.max_detections: found 0", "from 1 to"]),
        (camera, "camera.max_detections:=1.0", &["camera.max_detections: found 1.0", "an integer"]),
        (camera, "camera.nms.sigma:=0", &["camera.nms.sigma: found 0", "above 0"]),
        (
            camera,
            "camera.nms.sigma:=1e-50",
            &["camera.nms.sigma: found 1e-50 (0 in single precision)", "above 0"],
        ),
        (camera, "camera.max_age_s:=1e-50", &["camera.max_age_s: found 1e-50 (0 in"]),
        (
            lidar,
            "lidar.score_thresholds:=[1e-60]",
            &["lidar.score_thresholds: found [1e-60] (0 in single"],
        ),
        (lidar, "lidar.class_filter:=[VAN]", &["lidar.class_filter: found VAN", "PEDESTRIAN"]),
        (
            camera,
            "camera.nms.kind:=rotated",
            &["camera.nms.kind: found \"rotated\"", "the head has axis-aligned boxes"],
        ),
        (
            rotated,
            "camera.nms.kind:=iou",
            &["camera.nms.kind: found \"iou\"", "`rotated` or `none`", "rotated boxes"],
        ),
        (camera, "camera.nms.kind:=nms", &["camera.nms.kind: found \"nms\"", "soft_linear"]),
        (camera, "camera.nms:=3", &["camera.nms: unknown key"]),
        (
            camera,
            "camera.nms.class_aware:=1",
            &["camera.nms.class_aware: found 1", "true or false"],
        ),
        (camera, "camera.input:=/", &["camera.input: found \"/\"", "a topic name"]),
        (camera, "camera.output:=a b", &["camera.output: found \"a b\"", "a topic name"]),
        (camera, "camera.class_filter:=[car, horze]", &["camera.class_filter: found horze"]),
        (camera, "camera.head:=yolo", &["camera.head: found \"yolo\"", "did you mean `yolox`?"]),
        (camera, "camera.head:=none/such.yaml", &["camera.head", "none/such.yaml"]),
        (
            voxels,
            "lidar.yaw_norm_thresholds:=[0, 0.3, 0]",
            &["lidar.yaw_norm_thresholds: found 0.3", "allowed: 0 for an anchor head"],
        ),
        (lidar, "lidar.encoder.precision:=f16", &["lidar.encoder.precision: unknown key"]),
        (voxels, "lidar.encoder.precision:=f64", &["found \"f64\"", "auto, f32, tf32, f16, bf16"]),
        (voxels, "lidar.encoder.level_capacities:=[9, 0]", &["found [9, 0]", "from 1 to 16777216"]),
        (camera, "camera.encoder_path:=x", &["camera.encoder_path: unknown key"]),
        (camera, "back.nms.kind:=iou", &["back.head: is missing"]),
        (camera, "back.head:=yolov8", &["back.input: is missing", "back.model_path: is missing"]),
        (camera, "camera", &["-p camera: has no `:=`"]),
        (camera, "other_node:camera.head:=yolox", &["`other_node`"]),
        (
            lidar,
            "lidar.score_thresholds:=[0.1, 0.2]",
            &["lidar.score_thresholds: found [0.1, 0.2]", "5 (one per class)"],
        ),
        (
            lidar,
            "lidar.score_thresholds_by_distance.VAN:=[0.1]",
            &["lidar.score_thresholds_by_distance.VAN: unknown key", "PEDESTRIAN"],
        ),
        (
            lidar,
            "lidar.score_thresholds_by_distance.CAR:=[0.1]",
            &["lidar.score_thresholds_by_distance.CAR", "distance_upper_limits_m"],
        ),
        (
            lidar,
            "lidar.distance_upper_limits_m:=[9, 9]",
            &["lidar.distance_upper_limits_m", "rising"],
        ),
        (
            lidar,
            "lidar.nms.forbidden_pairs:=[CAR-VAN]",
            &["lidar.nms.forbidden_pairs: found CAR-VAN"],
        ),
        (lidar, "lidar.nms.circle_radius_m:=-1", &["lidar.nms.circle_radius_m: found -1"]),
        (lidar, "lidar.point_capacity:=100000000000", &["lidar.point_capacity"]),
        (lidar, "lidar.nms.kind:=iou", &["lidar.nms.kind: found \"iou\"", "circle"]),
    ];
    for (base, case, parts) in cases {
        let error = load_overrides(base, &[case]).expect_err(case);
        assert_eq!(error.kind(), ErrorKind::Config, "{case}");
        for part in *parts {
            assert!(error.message().contains(part), "{case}: no `{part}` in: {error}");
        }
    }
}

#[test]
fn broken_files_are_named() {
    for (text, part) in [
        ("", "channels: none is configured"),
        ("[1]", "is not a parameter file"),
        ("camera: {head: yolox}", "`camera/head` holds \"yolox\""),
        ("ros__parameters: {camera: {head: yolox}}", "below no node name"),
        ("/other:\n  ros__parameters: {}", "found `/other`"),
        ("/**: {camera: 1}", "`/**/camera` holds 1"),
        ("/**:\n  ros__parameters: 3", "`ros__parameters:`"),
        ("/**:\n  ros__parameters: {}", "channels: none is configured"),
        ("/**:\n  ros__parameters: {a: 1, a: 2}", "given twice"),
        ("/**:\n  ros__parameters: {a.b: 1, a: {b: 2}}", "a.b: is given twice"),
        ("/**: [", "line"),
        ("/**:\n  ros__parameters: !x {}", "tag"),
    ] {
        let error = load_text(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Config, "{text}");
        assert!(error.message().contains(part), "{text}: no `{part}` in: {error}");
    }
    let error = Config::load(&["none.yaml".into()], &[]).unwrap_err();
    assert!(error.message().contains("none.yaml"), "{error}");
}

#[test]
fn brackets_of_comments_are_no_nesting() {
    let comments = "      # range [0, 1)\n".repeat(17);
    let text = format!(
        "/**:\n  ros__parameters:\n    channels: [camera]\n{comments}    {CHANNEL} # one of {{\n"
    );
    let config = load_text(&text).unwrap();
    assert_eq!(config.channels.len(), 1);
}

/// Parameters of a camera channel, indented for a place below `ros__parameters:`.
const CHANNEL: &str = "camera: {input: /image, head: yolox, model_path: model.onnx}";

/// The score threshold that files give the node `/front/det_post`.
fn threshold_of(files: &[&str]) -> Result<f32> {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> =
        (0..files.len()).map(|index| folder.path().join(format!("{index}.yaml"))).collect();
    for (path, text) in paths.iter().zip(files) {
        std::fs::write(path, text).unwrap();
    }
    let overrides = CAMERA.map(str::to_owned);
    let node = NodeName::new("/front", "det_post").unwrap();
    let config = Config::load_for(&node, &paths, &overrides)?;
    Ok(config.channels[0].kind.lowest_score_threshold())
}

#[test]
fn sections_apply_as_in_ros() {
    let section = |name: &str, threshold: f32| {
        format!("{name}: {{ros__parameters: {{camera.score_threshold: {threshold}}}}}\n")
    };
    for name in [
        "/**",
        "/**/det_post",
        "/*/det_post",
        "/front/*",
        "/front/**",
        "/**/front/det_post",
        "/front/det_post",
        "front/det_post",
        "/front: {det_post",
        "front: {det_post",
        "/front/: {det_post",
    ] {
        let mut text = section(name, 0.5);
        if name.contains('{') {
            text.insert(text.len() - 1, '}');
        }
        assert_eq!(threshold_of(&[&text]).unwrap(), 0.5, "{text}");
    }
    for name in
        ["/*", "det_post", "/det_post", "/back/*", "/front/**/x", "/front", "/fro*/det_post"]
    {
        assert_eq!(threshold_of(&[&section(name, 0.5)]).unwrap(), 0.3, "{name}");
    }

    let (all, own) = (section("/**", 0.1), section("/front/det_post", 0.2));
    let (all_again, other) = (section("/**", 0.3), section("/back/det_post", 0.4));
    for (files, expected) in [
        (&[&*format!("{all}{own}")][..], 0.2),
        // The later wins, not the more specific.
        (&[&*format!("{own}{all}")], 0.1),
        (&[&*own, &*all], 0.1),
        (&[&*all, &*own], 0.2),
        // A section counts where its name is first seen.
        (&[&*all, &*own, &*all_again], 0.2),
        (&[&*all, &*all_again], 0.3),
        (&[&*own, &*other], 0.2),
    ] {
        assert_eq!(threshold_of(files).unwrap(), expected, "{files:?}");
    }
}

#[test]
fn one_file_for_all_nodes_starts_this_one() {
    let text = format!(
        "\u{feff}/**:\r\n  ros__parameters:\r\n    use_sim_time: yes\r\n    vehicle: {{wheel_base: 2.79}}\r\n\
         amcl:\n  ros__parameters: {{alpha1: 0.2, set_initial_pose: on, scan_topic: scan}}\n\
         local_costmap:\n  local_costmap:\n    ros__parameters: {{plugins: [a, b], x: -inf}}\n\
         controller_server:\n  ros__parameters:\n    controller_plugins: [\"FollowPath\"]\n\
         det_post:\n  ros__parameters:\n    start_type_description_service: true\n    \
         qos_overrides: {{/image: {{subscription: {{depth: 3}}}}}}\n    {CHANNEL}\n"
    );
    let config = load_text(&text).unwrap();
    assert!(config.use_sim_time);
    assert_eq!(config.channels.len(), 1);
    // A file only for other nodes changes nothing.
    let other = "amcl: {ros__parameters: {alpha1: 0.2}}";
    assert_eq!(threshold_of(&[other]).unwrap(), 0.3);
    assert_eq!(threshold_of(&["# no parameters\n"]).unwrap(), 0.3);
}

/// As a component has them all.
#[test]
fn a_channel_without_its_head_is_refused_in_sections_for_many_nodes_too() {
    let whole = "camera: {input: /image, head: yolox, model_path: x.onnx}";
    for (given, named) in [
        ("back: {input: /back}", &["back.head: is missing"][..]),
        ("back: {model_path: x.onnx}", &["back.model_path: found x.onnx, which is not there"]),
        ("back: {haed: yolox, input: /back}", &["back.head: is missing"]),
        ("back: {score_threshold: 0.5}", &[]),
        ("other_node: {rate: 10, topics: {input: /x}}", &[]),
    ] {
        let text = format!("/**: {{ros__parameters: {{{whole}, {given}}}}}");
        let result = Config::parse(&text);
        assert_eq!(result.is_ok(), named.is_empty(), "{text}: {result:?}");
        if let Err(error) = result {
            assert!(named.iter().all(|named| error.message().contains(named)), "{error}");
        }
    }
}

#[test]
fn unknown_keys_are_refused_below_this_node_by_itself() {
    for key in ["camera.score_treshold", "camera.nms.magic", "devise"] {
        for (section, is_shared) in [
            ("/**", true),
            ("/front/*", true),
            ("/front/**", true),
            ("/front/det_post", false),
            ("/**/det_post", false),
            ("/*/det_post", false),
        ] {
            let text = format!("{section}: {{ros__parameters: {{{key}: 1}}}}");
            let result = threshold_of(&[&text]);
            assert_eq!(result.is_ok(), is_shared, "{text}: {result:?}");
            if let Err(error) = result {
                assert!(error.message().contains(&format!("{key}: unknown key")), "{error}");
            }
        }
    }
    // A known key keeps its type and range in every section.
    let text = "/**: {ros__parameters: {camera.score_threshold: 2}}";
    assert!(threshold_of(&[text]).unwrap_err().message().contains("from 0 to 1"));
}

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn ignored_keys_are_warned_about_once() {
    let keys: String = (0..30).map(|n| format!("other.key_{n:02}: 1, ")).collect();
    let text = format!(
        "/**:\n  ros__parameters: {{{keys} camera.score_treshold: 1, qos_overrides.x: 1}}\n\
         det_post:\n  ros__parameters: {{qos_overrides.y: 1, {CHANNEL}}}\n"
    );
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let config = load_text(&text).unwrap();
        // Setting a parameter or a device reads the configuration again.
        config.with_device(DeviceChoice::Cpu).unwrap();
    });
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let about = |part: &str| log.lines().filter(|line| line.contains(part)).collect::<Vec<_>>();
    let [line] = about("ignored")[..] else { panic!("{log}") };
    for part in ["WARN", "did you mean `camera.score_threshold`?", "other.key_00", "and 11 more"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!(about("qos_overrides.y has no effect").len(), 1, "{log}");
    assert!(about("qos_overrides.x").is_empty(), "{log}");
}

#[test]
fn a_device_for_all_channels_is_checked_and_kept() {
    let more = ["camera.device:=cuda:2", "b.head:=yolov8", "b.input:=/b", "b.model_path:=b.onnx"];
    let config = load_overrides(&CAMERA, &more).unwrap().with_device(DeviceChoice::Cpu).unwrap();
    assert_eq!(config.device, DeviceChoice::Cpu);
    assert!(config.channels.iter().all(|channel| channel.device == DeviceChoice::Cpu));
    assert_eq!(load_text(&config.to_yaml()).unwrap(), config);
    let cuda = load_overrides(&CAMERA, &["camera.engine.provider:=cuda"]).unwrap();
    let error = cuda.with_device(DeviceChoice::Cpu).unwrap_err();
    assert!(error.message().contains("camera.engine.provider"), "{error}");
}

#[test]
fn all_problems_come_together() {
    let error = load_overrides(
        &CAMERA,
        &["camera.nms.offset:=2", "camera.score:=1", "b.head:=yolov8", "device:=tpu"],
    )
    .unwrap_err();
    assert_eq!(error.message().lines().count(), 6, "{error}");
    assert!(error.message().starts_with("5 problems\n"), "{error}");
}

#[test]
fn two_channels_cannot_share_an_output() {
    let more =
        ["b.head:=yolov8", "b.input:=/x", "b.model_path:=m", "b.output:=~/camera/detections"];
    let error = load_overrides(&CAMERA, &more).unwrap_err();
    assert!(error.message().contains("camera.output") || error.message().contains("b.output"));
}

#[test]
fn broken_heads_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head.yaml");
    let key = format!("camera.head:={}", path.display());
    for (name, from, to, part) in [
        ("yolox", "top_left", "corner", "placement: found \"corner\""),
        (
            "yolox",
            "[8, 16, 32]",
            "[8.5]",
            "layout.strides: found [8.5]; allowed: a list of whole numbers",
        ),
        (
            "yolox",
            "class_names: coco80",
            "class_names: [a, b, a]",
            "class_names: found \"a\" twice",
        ),
        ("yolox", "class_names: coco80", "class_name: coco80", "class_names: is missing"),
        (
            "yolox",
            "pad_value: 114.0",
            "pad_value: 114.0\nmean: 0\nalpha: 1",
            "alpha: found alpha or beta beside mean",
        ),
        (
            "yolox",
            "sensor: camera",
            "defaults: {score_treshold: 1}\nsensor: camera",
            "camera.score_treshold",
        ),
        ("yolov5_raw", "    - [30, 61, 62, 45, 59, 119]\n", "", "layout.anchors"),
        ("centerpoint_nuscenes", "  - [barrier]\n", "", "tasks: found"),
        ("centerpoint_nuscenes", "0.2, 0.2, 8.0", "0.2, 0.2, 4.0", "one cell along z"),
        ("centerpoint_nuscenes", "0.2, 0.2, 8.0", "0.001, 0.001, 8.0", "voxel_size_m: axis x"),
        ("centerpoint_autoware", "rot, vel,", "rot,", "output_names: found"),
        ("pointpillars_kitti", "  - [0.8, 0.6, 1.73]\n", "", "anchor_sizes_m: found"),
    ] {
        let text = std::fs::read_to_string(shipped(&format!("heads/{name}.yaml"))).unwrap();
        assert!(text.contains(from), "{name} {from}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
        let error = load_overrides(&CAMERA, &[&key]).expect_err(part);
        assert!(error.message().contains(part), "no `{part}` in: {error}");
    }
}

#[test]
fn the_manual_is_made_from_the_declarations() {
    assert_tables("parameters.md", manual_tables());
}

/// The rows of docs/parameters.md by table: keys, and whether they are live.
fn manual_rows() -> BTreeMap<String, Vec<(String, bool)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/parameters.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut tables = BTreeMap::new();
    for section in page.split("<!-- ").skip(1) {
        let (name, table) = section.split_once(" -->\n").unwrap();
        let row = |line: &str| {
            let cells: Vec<&str> = line.split(" | ").collect();
            let (key, live) = cells.first()?.strip_prefix("| `")?.split_once('`')?;
            (cells.len() == 4).then(|| (key.to_owned(), live == " (live)"))
        };
        if name != "end" {
            tables.insert(name.to_owned(), table.lines().filter_map(row).collect());
        }
    }
    tables
}

/// Compares the keys that a channel of a head with its facts in the file declares with the page.
fn assert_in_manual(head: &str, channel: &str, of_channel: &[&str], of_head: &[&str]) {
    let facts = head.split("\ndefaults:").next().unwrap().replace('\n', "\n    ");
    let text = format!("/**:\n ros__parameters:\n  a:\n   {channel}\n   head:\n    {facts}\n");
    let config = load_text(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut declared: Vec<(String, bool)> = Vec::new();
    for DeclaredParameter { descriptor, .. } in config.parameters() {
        let Some(key) = descriptor.name.strip_prefix("a.") else { continue };
        let per_class = ["labels.", "score_thresholds_by_distance."];
        let parent = per_class.into_iter().find(|parent| key.starts_with(parent));
        let key = parent.map_or(key.to_owned(), |parent| format!("{parent}<CLASS>"));
        declared.push((key, !descriptor.is_read_only));
    }
    declared.dedup();
    let tables = manual_rows();
    let rows = |names: &[&str], prefix: &str| -> Vec<(String, bool)> {
        let rows = names.iter().flat_map(|name| &tables[*name]);
        rows.map(|(key, is_live)| (format!("{prefix}{key}"), *is_live)).collect()
    };
    let mut expected = [rows(of_channel, ""), rows(of_head, "head.")].concat();
    // The name of a head, in whose place its facts stand here.
    expected.retain(|(key, _)| key != "head");
    expected.sort();
    declared.sort();
    assert_eq!(declared, expected, "{text}");
}

#[test]
fn the_manual_has_every_key_of_every_kind_once() {
    let head =
        |name: &str| std::fs::read_to_string(shipped(&format!("heads/{name}.yaml"))).unwrap();
    let camera = "{input: /a, model_path: m, output_type: detected_objects_with_feature";
    let lidar = "{inputs: /a, encoder_path: e, model_path: m, output_type: detected_objects";
    let images = |num: usize, more: &str| {
        let topics: Vec<String> = (0..num).map(|index| format!("/c{index}")).collect();
        let topics = topics.join(", ");
        format!("inputs: [{topics}]\n   model_path: m\n   output_type: detected_objects\n   {more}")
    };
    let block = |flow: &str| flow[1..].replace(", ", "\n   ");
    let of_cameras = [
        "every channel",
        "camera and lidar channels",
        "camera and surround channels",
        "camera channels",
    ];
    let of_clouds = [
        "every channel",
        "camera and lidar channels",
        "lidar and surround channels",
        "lidar channels",
    ];
    let of_none = [&of_clouds[..], &["lidar channels, voxels, sites and none"]].concat();
    let of_clouds = [&of_clouds[..], &["lidar channels, pillars and voxels"]].concat();
    let of_voxels = [&of_clouds[..], &["lidar channels, voxels, sites and none"]].concat();
    let of_images = [
        "every channel",
        "camera and surround channels",
        "channels of several cameras",
        "lidar and surround channels",
        "surround channels",
    ];
    let of_streampetr = [&of_images[..], &["surround channels, streampetr"]].concat();
    let of_views = [&of_images[..], &["surround channels, detr3d and sparse4d"]].concat();
    for name in
        ["yolov5", "yolov5_raw", "yolov8", "yolo_obb", "yolox", "yolov10", "rtdetr", "rfdetr"]
    {
        let of_head = ["every head", "camera and surround heads", "camera heads"];
        assert_in_manual(&head(name), &block(camera), &of_cameras, &of_head);
    }
    for (name, encoder, outputs) in [
        ("centerpoint_autoware", "pillars", "center"),
        ("pointpillars_kitti", "pillars", "anchor"),
        ("centerpoint_voxel_nuscenes_0075", "voxels", "center"),
        ("second_kitti", "voxels", "anchor"),
    ] {
        let encoder_table = match encoder {
            "voxels" => "lidar heads, voxels and sites".to_owned(),
            _ => format!("lidar heads, {encoder}"),
        };
        let outputs_table = format!("lidar heads, {outputs}");
        let mut of_head = vec!["every head", "lidar heads", &encoder_table, &outputs_table];
        if outputs == "center" {
            of_head.push("center, voxelnext and surround heads");
            of_head.push("lidar heads, center and voxelnext");
        }
        let of_channel = if encoder == "voxels" { &of_voxels[..] } else { &of_clouds[..] };
        assert_in_manual(&head(name), &block(lidar), of_channel, &of_head);
    }
    for name in ["voxelnext_nuscenes", "voxelnext_waymo"] {
        let of_head = [
            "every head",
            "lidar heads",
            "lidar heads, voxels and sites",
            "lidar heads, sites",
            "lidar heads, center and voxelnext",
            "center, voxelnext and surround heads",
        ];
        let lidar = lidar.replace("encoder_path: e, ", "");
        assert_in_manual(&head(name), &block(&lidar), &of_none, &of_head);
    }
    let of_head = ["every head", "lidar heads", "lidar heads, proposals"];
    let of_none_head = [&of_head[..], &["lidar heads, none"]].concat();
    let of_voxels_head = [&of_head[..], &["lidar heads, voxels and sites"]].concat();
    for name in ["transfusion_autoware", "bevfusion_autoware", "bevfusion_nuscenes"] {
        let lidar = lidar.replace("encoder_path: e, ", "");
        assert_in_manual(&head(name), &block(&lidar), &of_none, &of_none_head);
    }
    let split = head("bevfusion_autoware_split");
    assert_in_manual(&split, &block(lidar), &of_voxels, &of_voxels_head);
    let with_cameras = lidar.replace("inputs: /a, encoder_path: e, ", "input: /a, ");
    let topics: Vec<String> = (0..6).map(|index| format!("/c{index}")).collect();
    let with_cameras = format!(
        "{}\n   camera_inputs: [{}]\n   image_backbone_path: b",
        block(&with_cameras),
        topics.join(", ")
    );
    let of_cameras = ["channels of several cameras", "lidar channels, voxels and none"];
    let of_fused = [&of_none[..], &of_cameras].concat();
    let fused = head("bevfusion_camera_lidar_autoware");
    assert_in_manual(&fused, &with_cameras, &of_fused, &of_none_head);
    let with_files =
        with_cameras + "\n   encoder_path: e\n   camera_transform_path: t\n   fuser_path: f";
    let of_files = [&of_voxels[..], &of_cameras, &["lidar channels, voxels"]].concat();
    let files = head("bevfusion_camera_lidar_nvidia");
    assert_in_manual(&files, &with_files, &of_files, &of_voxels_head);
    let of_surround = [
        "every head",
        "camera and surround heads",
        "center, voxelnext and surround heads",
        "surround heads",
    ];
    let streampetr = images(2, "position_embedding_path: p\n   head_path: h");
    assert_in_manual(&head("streampetr_autoware"), &streampetr, &of_streampetr, &of_surround);
    let detr3d = "sensor: surround\nkind: detr3d\nclass_names: [a, b]\ncameras: 2\n\
        input_size: [64, 32]\nchannel_order: rgb\nsize_order: length_width_height\n\
        yaw: counter_clockwise\nlevel_strides: [8]\npoint_range_m: [-9, -9, -3, 9, 9, 3]\n\
        decoder: {channels: 64, queries: 90, blocks: 6}";
    for (name, facts, num_cameras) in
        [("detr3d", detr3d, 2), ("sparse4d", &*head("demo_surround"), 6)]
    {
        let of_kind = format!("surround heads, {name}");
        let of_head =
            [&of_surround[..], &["surround heads, detr3d and sparse4d", &of_kind]].concat();
        assert_in_manual(facts, &images(num_cameras, "weights_path: w"), &of_views, &of_head);
    }
}

#[test]
fn the_manual_is_short() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/parameters.md");
    let num_words = std::fs::read_to_string(path).unwrap().split_whitespace().count();
    assert!(num_words <= 6800, "{num_words} words");
    let mut rows: Vec<_> = manual_tables()
        .into_iter()
        .flat_map(|(_, table)| table.lines().skip(2).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let num_rows = rows.len();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), num_rows, "a row twice");
}

/// xorshift64*: small, seeded, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit.max(1)
    }
}

/// Changes bytes, lines and tokens of a text.
fn mutate(text: &str, random: &mut Random) -> Vec<u8> {
    const TOKENS: [&str; 16] = [
        ".nan",
        "-1",
        "1e400",
        "[[[[",
        "{",
        "&a ",
        "*a",
        "!x ",
        "~",
        "''",
        "\t",
        "\u{feff}",
        "? ",
        "99999999999999999999",
        "|\n",
        "yolov8",
    ];
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] = random.below(256) as u8,
            1 => drop(bytes.drain(at..(at + random.below(20)).min(bytes.len()))),
            2 => bytes.truncate(at),
            3 => drop(bytes.splice(at..at, TOKENS[random.below(16)].bytes())),
            4 => {
                let copy = bytes[at..(at + random.below(200)).min(bytes.len())].to_vec();
                let to = random.below(bytes.len());
                drop(bytes.splice(to..to, copy));
            }
            _ => {
                let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
                let (a, b) = (random.below(lines.len()), random.below(lines.len()));
                lines.swap(a, b);
                bytes = lines.join(&b'\n');
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

#[test]
fn mutated_files_never_panic() {
    let iterations = std::env::var("DET_POST_FUZZ_ITERATIONS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(200_u64);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mutated.yaml");
    let names = [
        "camera.param.yaml",
        "lidar.param.yaml",
        "heads/yolov5_raw.yaml",
        "heads/centerpoint_nuscenes.yaml",
        "heads/pointpillars_kitti.yaml",
    ];
    let mut num_loaded = 0;
    for seed in 0..iterations {
        let name = names[seed as usize % names.len()];
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let text = std::fs::read_to_string(shipped(name)).unwrap();
        std::fs::write(&path, mutate(&text, &mut random)).unwrap();
        let loaded = if name.starts_with("heads/") {
            let base: &[&str] = if name.contains("yolo") { &CAMERA } else { &LIDAR };
            let channel = if name.contains("yolo") { "camera" } else { "lidar" };
            load_overrides(base, &[&format!("{channel}.head:={}", path.display())])
        } else {
            Config::load(std::slice::from_ref(&path), &[])
        };
        match loaded {
            Ok(config) => {
                num_loaded += 1;
                assert_eq!(load_text(&config.to_yaml()).unwrap(), config, "seed {seed}");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Config, "seed {seed}: {error}"),
        }
    }
    println!("{iterations} mutated files, {num_loaded} of them sound");
}

#[test]
fn labels_are_parameters_of_channels_that_publish_them() {
    let labels = |more: &[&str]| {
        let config = load_overrides(&LIDAR, more).unwrap();
        let names = config.parameters().into_iter().map(|p| p.descriptor.name);
        let num = names.filter(|name| name.starts_with("lidar.labels.")).count();
        (num, config.channels[0].publish.format.objects.labels.clone())
    };
    let by_name = [1, 2, 3, 6, 7].map(|label| Some(ObjectLabel(label)));
    assert_eq!(labels(&[]), (0, by_name.to_vec()));
    let objects = "lidar.output_type:=detected_objects";
    assert_eq!(labels(&[objects]), (5, by_name.to_vec()));
    let (num, given) = labels(&["lidar.labels.BUS:=-1", "lidar.labels.CAR:=9"]);
    assert_eq!((num, given[0], given[2]), (5, Some(ObjectLabel(9)), None));
    for (parameter, part) in [
        ("lidar.labels.CAR:=256", "lidar.labels.CAR: found 256"),
        ("lidar.labels.CAT:=1", "lidar.labels.CAT"),
        ("lidar.remap_by_area:=[CAR TRUCK 12]", "lidar.remap_by_area: found \"CAR TRUCK 12\""),
        ("lidar.output_type:=yolo_detection_array", "lidar.output_type"),
    ] {
        let error = load_overrides(&LIDAR, &[objects, parameter]).unwrap_err();
        assert!(error.message().contains(part), "{parameter}: {error}");
    }
}

#[test]
fn an_engine_elsewhere_needs_no_network() {
    let base = ["camera.head:=isaac_ros_yolov8", "camera.input:=tensor_sub"];
    let config = load_overrides(&base, &[]).unwrap();
    let ChannelKind::Camera(camera) = &config.channels[0].kind else { panic!("a camera head") };
    assert_eq!(camera.engine.kind, EngineKind::External);
    assert_eq!(camera.model_paths().count(), 0);
    for (base, parameter, part) in [
        (&base[..], "camera.model_path:=x.onnx", "camera.model_path"),
        (&base[..], "camera.device:=cuda:0", "camera.engine.kind: found \"external\""),
        (&CAMERA[..], "camera.engine.kind:=external", "needs a head with `output_names`"),
        (&CAMERA[..], "camera.source_size:=[640, 480]", "camera.source_size"),
        (&LIDAR[..], "lidar.engine.kind:=external", "allowed: auto, rten, onnxruntime"),
    ] {
        let error = load_overrides(base, &[parameter]).unwrap_err();
        assert!(error.message().contains(part), "{parameter}: {error}");
    }
}

/// One rule for relative paths: the folder of the file, `search_folders`, the current folder, the
/// package's share folder.
#[test]
fn relative_paths_begin_in_the_folder_of_their_file_else_in_the_packages() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["own", "searched", "current"].map(|_| tempfile::tempdir().unwrap());
    let [own, searched, current] = folders.each_ref().map(tempfile::TempDir::path);
    let file = own.join("my.param.yaml");
    let camera =
        |head: &str| format!("camera: {{input: /i, head: {head}, model_path: models/camera.onnx}}");
    let check = |head: &str, more: &[&str]| {
        let text = format!("/**: {{ros__parameters: {{{}}}}}\n", camera(head));
        std::fs::write(&file, text).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_det_post"));
        command
            .arg("check")
            .arg(&file)
            .args(more)
            .current_dir(current)
            .env_remove("AMENT_PREFIX_PATH");
        let output = command.output().unwrap();
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (stdout, stderr)
    };
    let search = format!("search_folders:=['{}']", searched.display());
    let more = ["-p", &*search];
    let model =
        |folder: &Path| format!("model_path: {}\n", folder.join("models/camera.onnx").display());
    // The share folder of sources is theirs.
    assert!(check("demo_camera", &more).0.contains(&model(sources)));
    for (folder, expected) in [(current, Path::new("")), (searched, searched), (own, own)] {
        std::fs::create_dir(folder.join("models")).unwrap();
        // Without outputs, which fit any head.
        Graph::new("none", "").save(&folder.join("models/camera.onnx")).unwrap();
        let (stdout, stderr) = check("demo_camera", &more);
        assert!(stdout.contains(&model(expected)), "{stdout}{stderr}");
    }
    // The same rule for heads, and for what -p gives: it has no file.
    std::fs::copy(sources.join("config/heads/yolox.yaml"), own.join("mine.yaml")).unwrap();
    let (stdout, stderr) = check("mine.yaml", &[]);
    assert!(stdout.contains(&format!("head: {}\n", own.join("mine.yaml").display())), "{stderr}");
    let (stdout, _) = check("demo_camera", &["-p", "camera.model_path:=models/camera.onnx"]);
    assert!(stdout.contains(&model(Path::new(""))), "{stdout}");
    // What is nowhere names the places.
    let (_, stderr) = check("none/head.yaml", &more);
    for folder in [own, searched, current, sources] {
        assert!(stderr.contains(&folder.join("none/head.yaml").display().to_string()), "{stderr}");
    }
}

#[test]
fn a_missing_network_is_refused_with_the_places_where_it_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.param.yaml");
    let text =
        "/**: {ros__parameters: {camera: {input: /i, head: yolox, model_path: none/x.onnx}}}\n";
    std::fs::write(&file, text).unwrap();
    let config = Config::load(&[file], &[]).unwrap();
    let here = std::env::current_dir().unwrap();
    // Also with parameters that were set since.
    for config in [config.with_device(DeviceChoice::Cpu).unwrap(), config] {
        let error = det_post::open_detector(&config.channels[0], DeviceChoice::Cpu).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("camera.model_path: found none/x.onnx"), "{error}");
        for folder in [folder.path(), &here] {
            let place = folder.join("none/x.onnx").display().to_string();
            assert!(error.message().contains(&place), "{error}");
        }
    }
}
