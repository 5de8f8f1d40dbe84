//! Parameter files of the nodes that ours replaces: every generation becomes what
//! `dropin/expected.json` of the shared data lists.

use std::collections::BTreeMap;
use std::path::Path;

use det_post::ErrorKind;
use det_post::config::{
    ChannelKind, Config, LidarOutputs, Package, Source, TranslationOutcome, packages,
    parameter_table,
};
use det_post_ops::nms::{Workspace, suppress_stages_3d};
use det_post_ros::{DebugTimesType, NodeName, OutputType, Parameter, ParameterValue};
use det_post_types::Nms3d;
use serde_json::{Value, json};

use crate::common::drop_in::Case;
use crate::common::drop_in::two_stages::TwoStages;
use crate::common::shared_data::shared_data;
use crate::common::tables::assert_tables;

/// The value below a dotted key of a channel's parameters.
pub(super) fn at<'v>(parameters: &'v Value, key: &str) -> &'v Value {
    key.split('.').fold(parameters, |value, part| &value[part])
}

/// A number, or the one number of a list.
pub(super) fn one(value: &Value) -> Value {
    value.as_array().map_or(value, |items| &items[0]).clone()
}

pub(super) fn list_or_empty(value: &Value) -> Value {
    if value.is_null() { json!([]) } else { value.clone() }
}

/// The parameters of the one channel.
pub(super) fn parameters_of(config: &Config) -> Value {
    let channel = &config.channels[0];
    let file: Value = serde_yaml::from_str(&channel.to_yaml()).unwrap();
    file["/**"]["ros__parameters"][&channel.name].clone()
}

/// What a configuration says, in the words of `expected.json`.
fn effective(case: &Case) -> Value {
    let config = case.load(&[]);
    let tensorrt = case.load(&["engine.provider:=tensorrt"]);
    let p = parameters_of(&config);
    let kept = match p["score_kept_when"].as_str() {
        Some("above") => "greater",
        Some("at_least") => "greater_equal",
        other => panic!("{other:?}"),
    };
    match &config.channels[0].kind {
        ChannelKind::Lidar(lidar) => {
            let LidarOutputs::Center(center) = &lidar.facts.outputs else { panic!() };
            let [columns, rows, _] = lidar.facts.grid.grid_size();
            let names = &lidar.facts.class_names;
            let limits = list_or_empty(&p["distance_upper_limits_m"]);
            let per_class = p["score_thresholds"].as_array().unwrap();
            let thresholds: BTreeMap<&String, Value> = (0..)
                .zip(names)
                .map(|(class, name): (usize, _)| {
                    let constant = per_class.get(class).unwrap_or(&per_class[0]);
                    let bins = &p["score_thresholds_by_distance"][name];
                    (name, if bins.is_null() { json!([constant]) } else { bins.clone() })
                })
                .collect();
            let norms = p["yaw_norm_thresholds"].as_array().unwrap();
            let norms = if norms.len() == 1 { &vec![norms[0].clone(); names.len()] } else { norms };
            let diagnostics = &p["processing_time_diagnostics"];
            json!({
                "class_names": names,
                "labels": labels_of(&config),
                "point_range_m": at(&p, "head.point_range_m"),
                "voxel_size_m": at(&p, "head.voxel_size_m"),
                "grid": [columns, rows],
                "map": [columns / center.downsample_factor, rows / center.downsample_factor],
                "downsample_factor": center.downsample_factor,
                "voxel_capacity": lidar.voxel_capacity,
                "max_points_per_voxel": lidar.facts.max_points_per_voxel,
                "point_channels": at(&p, "head.point_channels"),
                "center_offset_z": at(&p, "head.center_offset_z"),
                "has_variance": center.has_variance,
                "publishes_twist": at(&p, "publish.velocity"),
                "distance_upper_limits_m": limits,
                "score_thresholds": thresholds,
                "score_kept_when": kept,
                "yaw_norm_thresholds": norms,
                "circle_radius_m": one(at(&p, "nms.circle_radius_m")),
                "iou_nms": iou_nms(&lidar.nms, &p),
                "densification": {
                    "num_past_sweeps": lidar.densification.num_past_sweeps,
                    "world_frame": lidar.densification.world_frame,
                },
                "point_capacity": lidar.point_capacity,
                "encoder_path": lidar.encoder_path,
                "model_path": lidar.model_path,
                "fp16": at(&parameters_of(&tensorrt), "engine.fp16"),
                "remap_by_area_m2": remap(&p["remap_by_area"]),
                "diagnostics": match diagnostics.get("max_ms") {
                    None => Value::Null,
                    Some(_) => json!({
                        "max_allowed_processing_time_ms": diagnostics["max_ms"],
                        "max_acceptable_consecutive_delay_ms": diagnostics["max_delay_ms"],
                        "validation_callback_interval_ms": diagnostics["interval_ms"],
                    }),
                },
            })
        }
        ChannelKind::Camera(camera) => {
            let given = |key: &str| {
                let like = config.like.as_ref().unwrap();
                let parameter = like.parameters.iter().find(|parameter| parameter.key == key);
                parameter.map(|parameter| parameter.value.clone()).filter(|value| !value.is_empty())
            };
            let labels = case.folder.path().join("data/tensorrt_yolox/label.txt");
            let precision = given("precision").unwrap();
            let is_fp16 = at(&parameters_of(&tensorrt), "engine.fp16") == &json!(true);
            assert_eq!(is_fp16, precision == "fp16", "{}", case.name);
            assert_eq!(camera.facts.class_names, ["CAR", "PEDESTRIAN"]);
            json!({
                "model_path": camera.model_path,
                "label_path": given("label_path").unwrap_or_else(|| labels.display().to_string()),
                "score_threshold": p["score_threshold"],
                "score_kept_when": kept,
                "nms_threshold": at(&p, "nms.iou_threshold"),
                "nms_class_aware": at(&p, "nms.class_mode") != &json!("agnostic"),
                "precision": precision,
                "device": p.get("device").unwrap_or(&json!("auto")),
                "roi_remap_path": given("roi_remap_path"),
                "placement": at(&p, "head.placement"),
                "channel_order": at(&p, "head.channel_order"),
                "pad_value": at(&p, "head.pad_value"),
            })
        }
        other => panic!("{other:?}"),
    }
}

/// The labels of the classes.
pub(super) fn labels_of(config: &Config) -> Vec<u8> {
    let labels = &config.channels[0].publish.format.objects.labels;
    labels.iter().map(|label| label.unwrap().0).collect()
}

/// The second suppression.
pub(super) fn iou_nms(stages: &[Nms3d], p: &Value) -> Value {
    match stages {
        [Nms3d::Circle(_)] => Value::Null,
        [Nms3d::Circle(_), Nms3d::BevFast(bev)] => {
            let targets = at(p, "nms.unlimited_classes").clone();
            let has_pedestrian_rule = at(p, "nms.forbidden_pairs") == &json!(["PEDESTRIAN-*"]);
            assert_eq!(bev.forbidden_pairs.is_empty(), !has_pedestrian_rule);
            assert_eq!(bev.unlimited_pairs.is_empty(), targets.is_null());
            json!({
                "threshold": one(at(p, "nms.iou_thresholds")),
                "search_distance_m": at(p, "nms.search_distance_m"),
                "suppressed_boxes_suppress": true,
                "pairs": if has_pedestrian_rule {
                    "pedestrian_only_with_pedestrian"
                } else {
                    "within_distance_or_both_targets"
                },
                "target_classes": targets,
            })
        }
        other => panic!("{other:?}"),
    }
}

/// `CAR TRUCK 12.1 36.0` as a list.
pub(super) fn remap(rules: &Value) -> Value {
    let rule = |text: &Value| {
        let words: Vec<&str> = text.as_str().unwrap().split(' ').collect();
        let [least, most]: [f64; 2] = [words[2], words[3]].map(|word| word.parse().unwrap());
        json!([words[0], words[1], least, most])
    };
    rules.as_array().map_or(json!([]), |rules| rules.iter().map(rule).collect())
}

#[test]
fn the_tables_of_the_manual_are_made_from_the_code() {
    let tables = packages()
        .into_iter()
        .map(|package| (format!("parameters of {}", package.name()), parameter_table(package)));
    assert_tables("dropin.md", tables);
}

/// Circle, then footprints in which boxes that go still suppress.
#[test]
fn the_two_stages_of_autoware_keep_its_boxes() {
    let Some(scenes) = TwoStages::all() else { return };
    for scene in &scenes {
        let boxes = scene.boxes();
        let run = |stages: &[Nms3d]| {
            let mut keep = Vec::new();
            suppress_stages_3d(&boxes, stages, &mut Workspace::default(), &mut keep).unwrap();
            keep.iter().map(|kept| kept.index).collect::<Vec<_>>()
        };
        assert_eq!(run(&scene.stages("bev_fast")), scene.indices("kept"));
        assert_eq!(run(&scene.stages("bev")), scene.indices("kept_by_a_greedy_stage"));
        assert_eq!(run(&scene.stages("bev")[..1]), scene.indices("after_circle"));
    }
}

#[test]
fn every_generation_becomes_what_is_expected() {
    let Some(cases) = Case::all() else { return };
    assert_eq!(cases.len(), 12);
    for case in &cases {
        assert_eq!(case.expected["outcome"], "loads", "{}", case.name);
        let found = effective(case);
        for (key, expected) in case.expected["effective"].as_object().unwrap() {
            assert_eq!(&found[key], expected, "{}: {key}", case.name);
        }
        let like = case.load(&[]).like.unwrap();
        let names = |is: &dyn Fn(TranslationOutcome) -> bool| {
            let mut names: Vec<_> =
                like.parameters.iter().filter(|f| is(f.state)).map(|f| f.key.clone()).collect();
            names.sort();
            names
        };
        // The precision is said to be of the engine, and is one of the effective values.
        let without =
            |state| matches!(state, TranslationOutcome::Engine | TranslationOutcome::NoEffect);
        let mut without = names(&without);
        without.retain(|name| name != "precision");
        assert_eq!(json!(without), case.expected["no_effect"], "{}", case.name);
        let unknown = names(&|state| state == TranslationOutcome::Unknown);
        assert_eq!(json!(unknown), case.expected["unknown"], "{}", case.name);
        let warned: BTreeMap<_, _> =
            like.parameters.iter().filter(|f| f.is_warning).map(|f| (&f.key, &f.note)).collect();
        assert_eq!(json!(warned), case.expected["warned"], "{}", case.name);
    }
}

#[test]
fn a_migrated_file_is_the_same_configuration() {
    let Some(cases) = Case::all() else { return };
    for case in &cases {
        let config = case.load(&[]);
        let file = case.folder.path().join("migrated.param.yaml");
        std::fs::write(&file, config.migrated_yaml().unwrap()).unwrap();
        let migrated = Config::load_for(&case.node(), &[file], &[]).unwrap();
        assert_eq!(migrated.channels, config.channels, "{}", case.name);
        assert_eq!(migrated.to_yaml(), config.to_yaml(), "{}", case.name);
        // As a process of its own is given it.
        let single = Config::parse(&config.channels[0].to_yaml()).unwrap();
        assert_eq!(single.channels[0].kind, config.channels[0].kind, "{}", case.name);
        let json = config.migration_json().unwrap();
        assert_eq!(json["like"], case.package.name());
        let found = Config::recognize(&Source { like: None, ..case.source.clone() }, |node| {
            Ok(node.clone())
        })
        .unwrap();
        assert_eq!(found, Some(case.package), "{}", case.name);
    }
}

/// Other nodes of the time of a file subscribe to the messages of that time.
#[test]
fn messages_are_those_of_the_generation() {
    let Some(cases) = Case::all() else { return };
    for case in &cases {
        let objects = match &*case.name {
            "g0" | "g1" | "g2" => OutputType::AutoDetectedObjects,
            name if name.starts_with('g') => OutputType::DetectedObjects,
            _ => OutputType::DetectedObjectsWithFeature,
        };
        let times = match &*case.name {
            "g0" | "g1" | "g2" | "g3" | "y1" => DebugTimesType::Tier4Debug,
            _ => DebugTimesType::AutowareInternalDebug,
        };
        let publish = |more: &[&str]| case.load(more).channels.remove(0).publish;
        let found = publish(&[]);
        assert_eq!(
            (found.format.output_type, found.debug_times_type),
            (objects, times),
            "{}",
            case.name
        );
        if case.name == "g0" {
            let given = [
                "output_type:=detected_objects",
                "publish.debug_times_package:=autoware_internal_debug_msgs",
            ];
            let found = publish(&given);
            assert_eq!(found.format.output_type, OutputType::DetectedObjects);
            assert_eq!(found.debug_times_type, DebugTimesType::AutowareInternalDebug);
        }
    }
}

#[test]
fn without_the_flag_the_package_is_named() {
    let Some(cases) = Case::all() else { return };
    for case in &cases {
        // A file of this generation has no section, which is refused before.
        if case.name == "y6" {
            continue;
        }
        let source = Source { like: None, ..case.source.clone() };
        let error = Config::read(&case.node(), &source).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let named = format!("add --like {}", case.package.name());
        assert!(error.message().contains(&named), "{}: {error}", case.name);
    }
}

#[test]
fn networks_that_are_not_built_are_named() {
    let Some(data) = shared_data() else { return };
    for (files, name) in [
        (&["later/tensorrt_stream_petr.param.yaml"][..], "autoware_camera_streampetr"),
        (&["isaac/detectnet_params.yaml"], "isaac_ros_detectnet"),
    ] {
        for like in [Package::LidarCenterpoint, Package::TensorrtYolox] {
            let source = Source {
                files: files.iter().map(|file| data.join("dropin").join(file)).collect(),
                arguments: vec!["model_path:=/m".to_owned()],
                like: Some(like),
                ..Source::default()
            };
            let error = Config::read(&NodeName::new("", "n").unwrap(), &source).unwrap_err();
            let message = error.message();
            assert!(message.contains(name) && message.contains("not built yet"), "{message}");
        }
    }
}

/// One small file of the newest flat form.
fn flat(more: &str) -> String {
    let facts = "class_names: [CAR, PEDESTRIAN]\n    point_feature_size: 4\n    \
                 encoder_in_feature_size: 9\n    max_voxel_size: 100\n    \
                 point_cloud_range: [-8, -8, -1, 8, 8, 1]\n    voxel_size: [1, 1, 2]\n    \
                 downsample_factor: 1\n    encoder_onnx_path: e.onnx\n    head_onnx_path: h.onnx\n";
    format!("/**:\n  ros__parameters:\n    {facts}    {more}\n")
}

pub(super) fn load_text(text: &str, like: Package, overrides: &[&str]) -> det_post::Result<Config> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let source = Source {
        files: vec![file.path().to_owned()],
        overrides: overrides.iter().map(|text| (*text).to_owned()).collect(),
        like: Some(like),
        ..Source::default()
    };
    Config::read(&NodeName::new("", "lidar_centerpoint").unwrap(), &source)
}

#[test]
fn what_theirs_cannot_read_is_refused_by_its_name() {
    for (more, named) in [
        ("score_threshold: high", &["score_threshold: found \"high\"", "a number"][..]),
        ("yaw_norm_thresholds: [0.3]", &["yaw_norm_thresholds", "a list of 2 numbers"]),
        (
            "circle_nms_dist_threshold: wide",
            &["circle_nms_dist_threshold: as lidar.nms.circle_radius_m"],
        ),
        ("iou_nms_threshold: 0.1", &["iou_nms_search_distance_2d: is missing"]),
        ("version: v3.0", &["version: found \"v3.0\"", "major 4"]),
        ("encoder_pt_path: x.pt", &["networks in ONNX"]),
        ("allow_remapping_by_area_matrix: [0, 1]", &["all three matrices"]),
        ("score_threshold: $(var score)", &["score_threshold", "--arg score:=VALUE"]),
    ] {
        let error = load_text(&flat(more), Package::LidarCenterpoint, &[]).unwrap_err();
        for text in named {
            assert!(error.message().contains(text), "{more}: {error}");
        }
    }
    let text = "/**:\n  ros__parameters:\n    model_params: {class_names: [CAR]}\n";
    let error = load_text(text, Package::LidarCenterpoint, &[]).unwrap_err();
    for key in [
        "model_params.point_feature_size: is missing",
        "ml_package.param.yaml",
        "score_thresholds: is missing",
    ] {
        assert!(error.message().contains(key), "{key}: {error}");
    }
}

#[test]
fn what_theirs_takes_is_taken_with_a_warning() {
    for (more, key, note, ours, value) in [
        (
            "score_threshold: 1.5",
            "score_threshold",
            "outside [0, 1)",
            "score_thresholds",
            json!([0.0]),
        ),
        (
            "circle_nms_dist_threshold: 0",
            "circle_nms_dist_threshold",
            "1.5",
            "nms.circle_radius_m",
            json!([1.5]),
        ),
        (
            "scorethreshold: 0.2",
            "scorethreshold",
            "did you mean `score_threshold`?",
            "score_thresholds",
            json!([0.35]),
        ),
        ("score_threshold: 0.2", "score_threshold", "", "score_thresholds", json!([0.2])),
    ] {
        let config = load_text(&flat(more), Package::LidarCenterpoint, &[]).unwrap();
        let parameter =
            config.like.as_ref().unwrap().parameters.iter().find(|f| f.key == key).unwrap().clone();
        assert!(
            parameter.note.contains(note) && parameter.is_warning != note.is_empty(),
            "{parameter:?}"
        );
        assert_eq!(at(&parameters_of(&config), ours), &value, "{more}");
    }
}

#[test]
fn thresholds_are_set_under_their_names() {
    let text = flat("score_threshold: 0.2\n    circle_nms_dist_threshold: 0.5");
    let config = load_text(&text, Package::LidarCenterpoint, &["input:=/points"]).unwrap();
    assert_eq!(config.channels[0].inputs[0].topic, "/points");
    let set = |name: &str, value| {
        let change = Parameter { name: name.into(), value: ParameterValue::Number(value) };
        config.with_parameters(&[change])
    };
    let names: Vec<String> = config.parameters().into_iter().map(|p| p.descriptor.name).collect();
    for name in [
        "score_threshold",
        "circle_nms_dist_threshold",
        "class_names",
        "engine.kind",
        "input",
        "max_age_s",
    ] {
        assert!(names.iter().any(|other| other == name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.starts_with("lidar.") || name == "score_thresholds"));
    let changed = set("circle_nms_dist_threshold", 2.0).unwrap();
    let ChannelKind::Lidar(lidar) = &changed.channels[0].kind else { panic!() };
    let [Nms3d::Circle(circle)] = &lidar.nms[..] else { panic!() };
    assert_eq!(circle.thresholds, [2.0]);
    let again = changed.with_parameters(&[]).unwrap();
    assert_eq!(again.channels, changed.channels);
    let back = changed.with_parameters(&[Parameter {
        name: "circle_nms_dist_threshold".into(),
        value: ParameterValue::Number(0.5),
    }]);
    assert_eq!(back.unwrap().channels, config.channels);
    for (name, value, reason) in [
        ("downsample_factor", 2.0, "read-only"),
        ("circle_nms_dist_treshold", 2.0, "did you mean `circle_nms_dist_threshold`"),
        ("score_threshold", f64::NAN, "score_threshold"),
    ] {
        let result = set(name, value);
        match (name, result) {
            // Outside [0, 1) is 0, as in their node.
            ("score_threshold", Ok(changed)) => {
                assert_eq!(at(&parameters_of(&changed), "score_thresholds"), &json!([0.0]));
            }
            (_, result) => {
                let message = result.unwrap_err().to_string();
                assert!(message.contains(reason), "{message}");
            }
        }
    }
}

/// The names between two generations: lists per class, or one matrix row by row.
#[test]
fn interim_names_of_thresholds_by_distance_are_read() {
    let nested = |thresholds: &str| {
        format!(
            "/**:\n  ros__parameters:\n    encoder_onnx_path: e.onnx\n    head_onnx_path: h.onnx\n    \
             model_params:\n      class_names: [CAR, BUS]\n      point_feature_size: 5\n      \
             encoder_in_feature_size: 11\n      max_voxel_size: 100\n      \
             point_cloud_range: [-8, -8, -1, 8, 8, 1]\n      voxel_size: [1, 1, 2]\n      \
             downsample_factor: 1\n      score_thresholds:\n        upper_bounds: [10.0, 20.0]\n        \
             {thresholds}\n    post_process_params:\n      circle_nms_dist_threshold: 0.5\n      \
             iou_nms_search_distance_2d: 10.0\n      iou_nms_threshold: 0.1\n      \
             yaw_norm_thresholds: [0.3, 0.0]\n    densification_params:\n      world_frame_id: map\n      \
             num_past_frames: 1\n"
        )
    };
    for thresholds in
        ["thresholds: {CAR: [0.1, 0.2], BUS: [0.3, 0.4]}", "thresholds: [0.1, 0.3, 0.2, 0.4]"]
    {
        let config = load_text(&nested(thresholds), Package::LidarCenterpoint, &[]).unwrap();
        let ChannelKind::Lidar(lidar) = &config.channels[0].kind else { panic!() };
        let scores = &lidar.score_thresholds;
        assert_eq!(scores.distance_upper_limits_m, [10.0, 20.0]);
        assert_eq!(scores.per_class, [[0.1, 0.2], [0.3, 0.4]]);
        assert_eq!(lidar.facts.num_features(), 11);
    }
    for (thresholds, named) in [
        ("thresholds: {CAR: [0.1, 0.2]}", "min_confidence_scores.BUS: is missing"),
        ("thresholds: {CAR: [0.1], BUS: [0.3, 0.4]}", "thresholds.CAR: found [0.1]"),
        ("thresholds: [0.1, 0.3, 0.2]", "2 rows of 2 numbers"),
    ] {
        let error = load_text(&nested(thresholds), Package::LidarCenterpoint, &[]).unwrap_err();
        assert!(error.message().contains(named), "{thresholds}: {error}");
    }
}

#[test]
fn cars_are_renamed_by_their_area_as_the_oldest_node_did() {
    let renamed = flat("rename_car_to_truck_and_bus: true\n    score_threshold: 0.4");
    let config = load_text(&renamed, Package::LidarCenterpoint, &[]).unwrap();
    let remaps = &config.channels[0].publish.format.objects.remap_by_area;
    let of_area = |area: f64| {
        remaps.iter().find(|remap| remap.min_m2 <= area && area <= remap.max_m2).map(|r| r.to.0)
    };
    assert_eq!(
        [12.1, 12.2, 19.75, 19.76, 1e6].map(of_area),
        [None, Some(2), Some(2), Some(3), Some(3)]
    );
    let beside = flat("rename_car_to_truck_and_bus: true\n    circle_nms_dist_threshold: 0.5");
    let config = load_text(&beside, Package::LidarCenterpoint, &[]).unwrap();
    assert!(config.channels[0].publish.format.objects.remap_by_area.is_empty());
    let parameters = &config.like.as_ref().unwrap().parameters;
    let parameter =
        parameters.iter().find(|parameter| parameter.key == "rename_car_to_truck_and_bus").unwrap();
    assert_eq!(parameter.state, TranslationOutcome::Unknown);
}

/// Files that a parameter names: the remapper, relative to the folder of the networks, and
/// a folder of parameters with its manifest.
#[test]
fn files_that_parameters_name_are_read() {
    let Some(data) = shared_data() else { return };
    let data = data.join("dropin");
    let folder = tempfile::tempdir().unwrap();
    let remapper = "detection_class_remapper.param.yaml";
    std::fs::copy(data.join("centerpoint").join(remapper), folder.path().join(remapper)).unwrap();
    let files = ["g6_centerpoint_common.param.yaml", "g6_base_ml_package.param.yaml"];
    let load = |model_path: &Path| {
        let source = Source {
            files: files.iter().map(|file| data.join("centerpoint").join(file)).collect(),
            overrides: vec![format!("model_path:={}", model_path.display())],
            like: Some(Package::LidarCenterpoint),
            ..Source::default()
        };
        Config::read(&NodeName::new("", "lidar_centerpoint").unwrap(), &source).unwrap()
    };
    let config = load(folder.path());
    assert_eq!(config.channels[0].publish.format.objects.remap_by_area.len(), 4);
    let config = load(Path::new("/nowhere"));
    assert!(config.channels[0].publish.format.objects.remap_by_area.is_empty());
    let parameters = &config.like.as_ref().unwrap().parameters;
    let parameter =
        parameters.iter().find(|parameter| parameter.key == "class_remapper_param_path").unwrap();
    assert!(parameter.is_warning, "{parameter:?}");

    let label = folder.path().join("label.txt");
    std::fs::write(&label, "CAR\n").unwrap();
    let overrides = [
        format!("config_dir:={}", data.join("yolox/y6").display()),
        format!("model_dir:={}", folder.path().display()),
        "model_path:=yolox.onnx".to_owned(),
        "label_path:=label.txt".to_owned(),
        "score_threshold:=0.3".to_owned(),
        "nms_threshold:=0.6".to_owned(),
        "gpu_id:=2".to_owned(),
    ];
    let source = Source {
        overrides: overrides.to_vec(),
        like: Some(Package::TensorrtYolox),
        ..Source::default()
    };
    let node = NodeName::new("", "tensorrt_yolox").unwrap();
    let config = Config::read(&node, &source).unwrap();
    let ChannelKind::Camera(camera) = &config.channels[0].kind else { panic!() };
    assert_eq!(camera.model_path, folder.path().join("yolox.onnx"));
    assert_eq!(config.channels[0].device, "cuda:2".parse().unwrap());
    let parameters = &config.like.as_ref().unwrap().parameters;
    assert!(
        parameters.iter().any(|parameter| parameter.key == "is_roi_overlap_segmentation"),
        "{parameters:?}"
    );
    let with_device =
        Source { overrides: [&overrides[..], &["device:=cpu".to_owned()]].concat(), ..source };
    let config = Config::read(&node, &with_device).unwrap();
    assert_eq!(config.channels[0].device, "cpu".parse().unwrap());
}
