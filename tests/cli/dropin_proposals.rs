//! Parameter files of Autoware's TransFusion and BEVFusion: every generation becomes what
//! `cases.json` of the shared data lists.

use std::collections::BTreeMap;
use std::path::Path;

use det_post::ErrorKind;
use det_post::config::{
    ChannelKind, Config, EncoderFacts, LidarOutputs, Package, Source, TranslationOutcome,
};
use det_post_ros::{Parameter, ParameterValue};
use serde_json::{Value, json};

use super::dropin::{at, iou_nms, labels_of, list_or_empty, load_text, one, parameters_of, remap};
use crate::common::drop_in::Case;

/// What a configuration says, in the words of `cases.json`.
fn effective(case: &Case) -> Value {
    let config = case.load(&[]);
    let tensorrt = case.load(&["engine.provider:=tensorrt"]);
    let p = parameters_of(&config);
    let ChannelKind::Lidar(lidar) = &config.channels[0].kind else { panic!("{}", case.name) };
    let LidarOutputs::Proposals(proposals) = &lidar.facts.outputs else { panic!() };
    let EncoderFacts::None(points) = &lidar.facts.encoder else { panic!() };
    let names = &lidar.facts.class_names;
    let per_class = p["score_thresholds"].as_array().unwrap();
    let thresholds: BTreeMap<&String, Value> = names
        .iter()
        .map(|name| {
            let bins = &p["score_thresholds_by_distance"][name];
            (name, if bins.is_null() { json!([per_class[0]]) } else { bins.clone() })
        })
        .collect();
    let diagnostics = &p["processing_time_diagnostics"];
    json!({
        "class_names": names,
        "labels": labels_of(&config),
        "point_range_m": at(&p, "head.point_range_m"),
        "voxel_size_m": at(&p, "head.voxel_size_m"),
        "grid": lidar.facts.grid.grid_size(),
        "out_size_factor": proposals.downsample_factor,
        "num_proposals": proposals.num_proposals,
        "min_voxels": points.min_voxels,
        "voxel_capacity": lidar.voxel_capacity,
        "max_points_per_voxel": lidar.facts.max_points_per_voxel,
        "point_channels": at(&p, "head.point_channels"),
        "distance_upper_limits_m": list_or_empty(&p["distance_upper_limits_m"]),
        "score_thresholds": thresholds,
        "score_kept_when": match p["score_kept_when"].as_str() {
            Some("above") => "greater",
            Some("at_least") => "greater_equal",
            other => panic!("{other:?}"),
        },
        "yaw_norm_thresholds": p["yaw_norm_thresholds"],
        "circle_radius_m": one(at(&p, "nms.circle_radius_m")),
        "iou_nms": iou_nms(&lidar.nms, &p),
        "densification": {
            "num_past_sweeps": lidar.densification.num_past_sweeps,
            "world_frame": lidar.densification.world_frame,
        },
        "point_capacity": lidar.point_capacity,
        "model_path": lidar.model_path,
        "fp16": at(&parameters_of(&tensorrt), "engine.fp16"),
        "remap_by_area_m2": remap(&p["remap_by_area"]),
        "cameras": cameras_of(&config, &p),
        "publishes_twist": at(&p, "publish.velocity"),
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

/// The case of files with cameras, which the shared data lists for a network of clouds: refused.
const WITH_CAMERAS: &str = "b4_camera";

/// Those that load.
fn loading() -> Option<Vec<Case>> {
    let mut cases = Case::of_proposals()?;
    assert_eq!(cases.len(), 14);
    let of_clouds = cases.iter().find(|case| case.name == "b4")?.expected["effective"].clone();
    let with_cameras = cases.iter_mut().find(|case| case.name == WITH_CAMERAS)?;
    with_cameras.expected = of_cameras(of_clouds, with_cameras.folder.path());
    Some(cases.into_iter().filter(|case| case.expected["outcome"] == "loads").collect())
}

/// What files with cameras become, from what the files of the same network of clouds do.
fn of_cameras(of_clouds: Value, folder: &Path) -> Value {
    let model = |name: &str| folder.join("data/bevfusion").join(name).display().to_string();
    let topics = |name: &str| -> Vec<String> {
        (0..6).map(|camera| format!("/bevfusion/input/{name}{camera}")).collect()
    };
    let mut effective = of_clouds;
    effective["model_path"] = json!(model("bevfusion_camera_lidar.onnx"));
    effective["diagnostics"] = Value::Null;
    effective["cameras"] = json!({
        "image_backbone_path": model("bevfusion_image_backbone.onnx"),
        "undistort": "auto",
        "input_size": [576.0, 384.0],
        "depths_m": [1.0, 1.4],
        "range_m": [-122.4, -122.4, -10.0, 122.4, 122.4, 10.0],
        "images": topics("image"),
        "camera_infos": topics("camera_info"),
        "max_skew_s": 0.12,
        "min_cameras": 0,
    });
    json!({
        "outcome": "loads",
        "effective": effective,
        "warned": {},
        "unknown": [],
        "no_effect": [
            "detection_score_thresholds.min_confidence_scores.BARRIER",
            "detection_score_thresholds.min_confidence_scores.TRAFFIC_CONE",
            "engine_path",
            "features_height",
            "features_width",
            "image_backbone_engine_path",
            "image_backbone_trt_precision",
            "image_feature_channel",
            "num_depth_features",
            "plugins_path",
            "trt_precision",
        ],
    })
}

/// What a configuration says of its cameras.
fn cameras_of(config: &Config, p: &Value) -> Value {
    let channel = &config.channels[0];
    let ChannelKind::Lidar(lidar) = &channel.kind else { panic!() };
    let Some(cameras) = &lidar.cameras else { return Value::Null };
    let images = &channel.inputs[1..];
    assert_eq!(images.len(), cameras.facts.num_cameras);
    json!({
        "image_backbone_path": cameras.image_backbone_path,
        "undistort": p["undistort"],
        "input_size": at(p, "head.input_size"),
        "depths_m": at(p, "head.depths_m"),
        "range_m": at(p, "head.camera_range_m"),
        "images": images.iter().map(|input| &input.topic).collect::<Vec<_>>(),
        "camera_infos": images.iter().map(|input| &input.camera_info).collect::<Vec<_>>(),
        "max_skew_s": at(p, "sync.max_skew_s"),
        "min_cameras": at(p, "sync.min_cameras"),
    })
}

#[test]
fn every_generation_becomes_what_is_expected() {
    let Some(cases) = loading() else { return };
    for case in &cases {
        let found = effective(case);
        for (key, expected) in case.expected["effective"].as_object().unwrap() {
            assert_eq!(&found[key], expected, "{}: {key}", case.name);
        }
        let like = case.load(&[]).like.unwrap();
        let names = |is: &dyn Fn(TranslationOutcome) -> bool| {
            let of = like.parameters.iter().filter(|parameter| is(parameter.state));
            let mut names: Vec<_> = of.map(|parameter| parameter.key.clone()).collect();
            names.sort();
            names
        };
        let without =
            |state| matches!(state, TranslationOutcome::Engine | TranslationOutcome::NoEffect);
        assert_eq!(json!(names(&without)), case.expected["no_effect"], "{}", case.name);
        let unknown = names(&|state| state == TranslationOutcome::Unknown);
        assert_eq!(json!(unknown), case.expected["unknown"], "{}", case.name);
        let warned: BTreeMap<_, _> =
            like.parameters.iter().filter(|f| f.is_warning).map(|f| (&f.key, &f.note)).collect();
        assert_eq!(json!(warned), case.expected["warned"], "{}", case.name);
    }
}

#[test]
fn what_theirs_refuses_is_refused_by_its_name() {
    let Some(cases) = Case::of_proposals() else { return };
    let is_refused =
        |case: &&Case| case.expected["outcome"] == "refused" && case.name != WITH_CAMERAS;
    let refused: Vec<_> = cases.iter().filter(is_refused).collect();
    assert_eq!(refused.len(), 2);
    for case in refused {
        let error = Config::read(&case.node(), &case.source).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let named = case.expected["names"].as_str().unwrap();
        assert!(error.message().contains(named), "{}: {error}", case.name);
    }
}

#[test]
fn a_migrated_file_is_the_same_configuration() {
    let Some(cases) = loading() else { return };
    for case in &cases {
        let config = case.load(&[]);
        let file = case.folder.path().join("migrated.param.yaml");
        std::fs::write(&file, config.migrated_yaml().unwrap()).unwrap();
        let migrated = Config::load_for(&case.node(), &[file], &[]).unwrap();
        assert_eq!(migrated.channels, config.channels, "{}", case.name);
        assert_eq!(migrated.to_yaml(), config.to_yaml(), "{}", case.name);
        let single = Config::parse(&config.channels[0].to_yaml()).unwrap();
        assert_eq!(single.channels[0].kind, config.channels[0].kind, "{}", case.name);
        let source = Source { like: None, ..case.source.clone() };
        let found = Config::recognize(&source, |node| Ok(node.clone())).unwrap();
        assert_eq!(found, Some(case.package), "{}", case.name);
        let error = Config::read(&case.node(), &source).unwrap_err();
        let named = format!("add --like {}", case.package.name());
        assert!(error.message().contains(&named), "{}: {error}", case.name);
    }
}

#[test]
fn thresholds_change_while_the_node_runs() {
    let Some(cases) = loading() else { return };
    for (name, key, value, ours, expected) in [
        ("t3", "score_threshold", 0.3, "score_thresholds", json!([0.3])),
        ("t3", "score_threshold", 0.0, "score_thresholds", json!([0.2])),
        ("t3", "circle_nms_dist_threshold", 2.0, "nms.circle_radius_m", json!([2.0])),
        ("b1", "score_threshold", 0.0, "score_thresholds", json!([0.0])),
        ("b1", "iou_nms_threshold", 0.5, "nms.iou_thresholds", json!([0.5])),
    ] {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let change = Parameter { name: key.into(), value: ParameterValue::Number(value) };
        let changed = case.load(&[]).with_parameters(&[change]).unwrap();
        assert_eq!(at(&parameters_of(&changed), ours), &expected, "{name}: {key}");
    }
}

/// One small file of TransFusion, or of BEVFusion with `more`.
fn small(more: &str) -> String {
    format!(
        "/**:\n  ros__parameters:\n    class_names: [CAR, PEDESTRIAN]\n    voxels_num: [1, 10, 100]\n    \
         point_cloud_range: [-8, -8, -1, 8, 8, 1]\n    voxel_size: [1, 1, 2]\n    onnx_path: m.onnx\n    \
         num_proposals: 20\n    yaw_norm_thresholds: [0.3, 0.0]\n    iou_nms_threshold: 0.1\n    \
         circle_nms_dist_threshold: 0.5\n    iou_nms_search_distance_2d: 10.0\n    cloud_capacity: 100\n    \
         densification_num_past_frames: 0\n    densification_world_frame_id: map\n    {more}\n"
    )
}

const BEVFUSION: &str = "plugins_path: ''\n    out_size_factor: 8\n    max_points_per_voxel: 10\n    \
                         use_intensity: true\n    ";

#[test]
fn values_out_of_place_are_refused_or_warned_of() {
    let bevfusion = |more: &str| small(&format!("{BEVFUSION}{more}"));
    for (text, like, named) in [
        (small(""), Package::LidarTransfusion, "score_threshold: is missing"),
        (small("score_threshold: high"), Package::LidarTransfusion, "a number"),
        (
            small("score_threshold: 0.1").replace("[1, 10, 100]", "[1, 100]"),
            Package::LidarTransfusion,
            "voxels_num: found [1, 100]",
        ),
        (
            small("score_threshold: 0.1").replace("[0.3, 0.0]", "[0.3]"),
            Package::LidarTransfusion,
            "yaw_norm_thresholds: found [0.3]",
        ),
        (
            small("score_threshold: 0.1").replace("[1, 10, 100]", "[200, 10, 100]"),
            Package::LidarTransfusion,
            "voxels_num: found [200, 10, 100]",
        ),
        (
            bevfusion("").replace("[1, 10, 100]", "[1, 100, 50]"),
            Package::Bevfusion,
            "voxels_num: found [1, 100, 50]",
        ),
        (bevfusion(""), Package::Bevfusion, "distance_bin_upper_limits: is missing"),
        (bevfusion("sensor_fusion: true"), Package::Bevfusion, "sensor_fusion: found true"),
        (
            bevfusion(
                "detection_score_thresholds: {distance_bin_upper_limits: [50.0, 40.0], \
                 min_confidence_scores: {CAR: [0.1, 0.1], PEDESTRIAN: [0.1, 0.1]}}",
            ),
            Package::Bevfusion,
            "rising limits",
        ),
        (
            bevfusion(
                "detection_score_thresholds: {distance_bin_upper_limits: [50.0], \
                 min_confidence_scores: {CAR: [0.1, 0.1], PEDESTRIAN: [0.1]}}",
            ),
            Package::Bevfusion,
            "min_confidence_scores.CAR: found [0.1, 0.1]",
        ),
    ] {
        let error = load_text(&text, like, &[]).unwrap_err();
        assert!(error.message().contains(named), "{named}: {error}");
        // A key that theirs does not have.
        assert!(!error.message().contains("voxel_capacity"), "{named}: {error}");
    }
    // What is given and empty is no default of ours, and the matrix at fault is named.
    let whole = bevfusion("score_threshold: 0.1");
    load_text(&whole, Package::Bevfusion, &[]).unwrap();
    for empty in ["", " ''", " []"] {
        for (key, value) in [("num_proposals", " 20"), ("iou_nms_search_distance_2d", " 10.0")] {
            let text = whole.replace(&format!("{key}:{value}"), &format!("{key}:{empty}"));
            let error = load_text(&text, Package::Bevfusion, &[]).unwrap_err();
            let named = format!("{key}: found ");
            assert!(error.message().contains(&named), "{key}{empty}: {error}");
        }
    }
    let matrices = "allow_remapping_by_area_matrix: [0]\n    min_area_matrix: [0.0]\n    max_area_matrix: large";
    let text = bevfusion(&format!("score_threshold: 0.1\n    {matrices}"));
    let error = load_text(&text, Package::Bevfusion, &[]).unwrap_err();
    let named = "max_area_matrix: found \"large\"; allowed: a list of numbers";
    assert!(error.message().contains(named), "{error}");
    let config = load_text(&bevfusion("score_threshold: 1.5"), Package::Bevfusion, &[]).unwrap();
    let parameters = &config.like.as_ref().unwrap().parameters;
    let threshold = parameters.iter().find(|of| of.key == "score_threshold").unwrap();
    assert!(threshold.is_warning, "{threshold:?}");
    let p = parameters_of(&config);
    assert_eq!(at(&p, "head.point_channels"), &json!(["intensity", "time_lag"]));
    assert_eq!(at(&p, "score_thresholds"), &json!([1.0]));
}

/// The keys of cameras of the small file of BEVFusion.
const CAMERAS: &str = "score_threshold: 0.1\n    image_backbone_onnx_path: b.onnx\n    \
                       image_backbone_engine_path: b.engine\n    image_backbone_trt_precision: fp16\n    \
                       max_camera_lidar_delay: 0.1\n    run_image_undistortion: false\n    num_cameras: 2\n    \
                       roi_width: 64\n    roi_height: 32\n    raw_image_width: 128\n    raw_image_height: 72\n    \
                       img_aug_scale_x: 0.5\n    img_aug_scale_y: 0.5\n    d_bound: [1.0, 10.0, 0.5]\n    \
                       x_bound: [-8.0, 8.0, 1.0]\n    y_bound: [-8.0, 8.0, 1.0]\n    z_bound: [-4.0, 4.0, 8.0]\n    ";

#[test]
fn cameras_out_of_place_are_refused() {
    let bevfusion = |more: &str| small(&format!("{BEVFUSION}{more}"));
    let load = |text: &str| load_text(text, Package::Bevfusion, &[]);
    let config = load(&bevfusion(&format!("{CAMERAS}use_compressed_images: true"))).unwrap();
    let images = &config.channels[0].inputs[1..];
    assert_eq!(images.len(), 2);
    assert!(images[1].topic.ends_with("/input/image1/compressed") && images[1].is_compressed);
    assert!(images[1].camera_info.as_ref().unwrap().ends_with("/input/camera_info1"));
    assert_eq!(parameters_of(&config)["undistort"], "never");
    for (from, to, named) in [
        ("image_backbone_onnx_path: b.onnx", "sensor_fusion: false", "image_backbone_engine_path"),
        ("num_cameras: 2", "num_cameras: 99", "head.cameras: found 99"),
        ("num_cameras: 2", "build_only: false", "num_cameras: is missing"),
        ("img_aug_scale_x: 0.5", "img_aug_scale_x: 0.75", "a factor that makes 64 pixels of 128"),
        ("img_aug_scale_y: 0.5", "img_aug_scale_y: 0.45", "a factor that makes 36 pixels of 72"),
        ("raw_image_width: 128", "raw_image_width: -1", "raw_image_width: found -1"),
        ("d_bound: [1.0, 10.0, 0.5]", "d_bound: [1.0, 10.0]", "3 numbers: first depth"),
        ("z_bound: [-4.0, 4.0, 8.0]", "z_bound: [4.0]", "3 numbers: least, greatest"),
        ("x_bound: [-8.0, 8.0, 1.0]", "x_bound: [8.0, -8.0, 1.0]", "below the greatest"),
        ("run_image_undistortion: false", "run_image_undistortion: 1", "true or false"),
        (
            "max_camera_lidar_delay: 0.1",
            "sensor_fusion: true",
            "max_camera_lidar_delay: is missing",
        ),
    ] {
        let text = bevfusion(CAMERAS);
        assert!(text.contains(from), "{from}");
        let error = load(&text.replace(from, to)).unwrap_err();
        assert!(error.message().contains(named), "{named}: {error}");
    }
}
